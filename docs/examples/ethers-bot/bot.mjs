// Sends a transaction and replaces it until it is mined: `node bot.mjs ADDRESS ETHER`
//
// PRIVATE_KEY   key of the sender
// RPC_URL       node, default http://localhost:8545
// GAS_URL       service, default http://localhost:8080
// CHAIN         chain's key or id in the service, default ethereum
// PATIENCE_MS   wait before each replacement, default 30000

import { JsonRpcProvider, Wallet, isError, parseEther } from 'ethers'
import { setTimeout } from 'node:timers/promises'
import { createGasClient, formatGwei } from 'gas-suggestion'

const {
  PRIVATE_KEY,
  RPC_URL = 'http://localhost:8545',
  GAS_URL = 'http://localhost:8080',
  CHAIN = 'ethereum',
  PATIENCE_MS = '30000',
} = process.env
const [, , to, ether] = process.argv
const MAX_REPLACEMENTS = 5

const provider = new JsonRpcProvider(RPC_URL)
const wallet = new Wallet(PRIVATE_KEY, provider)
const gas = createGasClient({ url: GAS_URL, chain: CHAIN })

async function firstFees() {
  const { medium, type } = await gas.suggestion()
  if (type === 'legacy') return { gasPrice: medium.gasPrice }
  return { maxFeePerGas: medium.maxFeePerGas, maxPriorityFeePerGas: medium.maxPriorityFeePerGas }
}

// Fees that nodes accept in place of `fees`: a tenth more, or the suggestion where that is higher.
async function replacementFees(fees) {
  const query = new URLSearchParams(
    fees.gasPrice === undefined
      ? { max_fee_per_gas: fees.maxFeePerGas, max_priority_fee_per_gas: fees.maxPriorityFeePerGas }
      : { gas_price: fees.gasPrice },
  )
  const response = await fetch(`${GAS_URL}/v1/${CHAIN}/replacement?${query}`, { signal: AbortSignal.timeout(2_000) })
  if (!response.ok) throw new Error(`no replacement: ${response.status} ${await response.text()}`)
  const { medium } = await response.json()
  if (fees.gasPrice !== undefined) return { gasPrice: BigInt(medium.max_fee_per_gas) }
  return {
    maxFeePerGas: BigInt(medium.max_fee_per_gas),
    maxPriorityFeePerGas: BigInt(medium.max_priority_fee_per_gas),
  }
}

// Any of the transactions may be mined, because they share a nonce.
async function receiptOfAny(hashes) {
  const deadline = Date.now() + Number(PATIENCE_MS)
  do {
    for (const hash of hashes) {
      const receipt = await provider.getTransactionReceipt(hash)
      if (receipt) return receipt
    }
    await setTimeout(Math.min(1_000, Number(PATIENCE_MS)))
  } while (Date.now() < deadline)
  return null
}

const nonce = await wallet.getNonce()
const hashes = []
let fees = await firstFees()
let receipt = null
for (let attempt = 0; attempt <= MAX_REPLACEMENTS && !receipt; attempt += 1) {
  if (attempt > 0) fees = await replacementFees(fees)
  try {
    const { hash } = await wallet.sendTransaction({ to, value: parseEther(ether), nonce, ...fees })
    hashes.push(hash)
    console.log(`sent ${hash} at ${formatGwei(fees.maxFeePerGas ?? fees.gasPrice)} gwei`)
  } catch (error) {
    // An earlier transaction was mined meanwhile.
    if (!isError(error, 'NONCE_EXPIRED')) throw error
  }
  receipt = await receiptOfAny(hashes)
}
if (!receipt) throw new Error(`not mined after ${MAX_REPLACEMENTS} replacements: ${hashes.at(-1)}`)
console.log(`${receipt.hash} is in block ${receipt.blockNumber}`)
provider.destroy()
