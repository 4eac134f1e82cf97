// Sends everything from 100 accounts, by the service's cost, on a node whose base fee moves. Arguments: the service's URL,
// the URL of an anvil that mines each transaction, and the chain's key.
//
// Each transaction is sent to a node whose base fee has changed since the cost was read. All must be mined, and what is left
// in the account is at most the difference between `max` and what was paid.

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createPublicClient, createTestClient, createWalletClient, http, TransactionReceiptNotFoundError } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'

const SENDS = 100
const TIERS = ['low', 'medium', 'high']
const TO = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
const GAS = 21_000n
const MIN_BASE_FEE = 10n ** 9n

const [service, node, chain] = process.argv.slice(2)
const transport = http(node)
const client = createPublicClient({ transport, pollingInterval: 20, cacheTime: 0 })
const anvil = createTestClient({ mode: 'anvil', transport })
const id = await client.getChainId()
const viemChain = { id, name: chain, nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 }, rpcUrls: { default: { http: [node] } } }

/**
 * Mines a block whose base fee differs from its parent's by up to an eighth, as the protocol allows. Each transaction lowers
 * it, so at the minimum it rises.
 */
async function mineOther() {
    const { baseFeePerGas } = await client.getBlock()
    const step = (baseFeePerGas * BigInt(randomInt(-1000, 1001))) / 8000n
    const next = baseFeePerGas + step
    const raised = MIN_BASE_FEE + (step < 0n ? -step : step)
    await anvil.setNextBlockBaseFeePerGas({ baseFeePerGas: next > MIN_BASE_FEE ? next : raised })
    await anvil.mine({ blocks: 1 })
    return client.getBlock()
}

/** Returns the cost as soon as the service has read this block. */
async function costAt(block, balance, gas) {
    for (const deadline = Date.now() + 20_000; Date.now() < deadline; await setTimeout(20)) {
        const response = await fetch(`${service}/v1/${chain}/cost?gas=${gas}&balance=${balance}`)
        assert.equal(response.status, 200, await response.clone().text())
        const cost = await response.json()
        if (cost.newest_block >= Number(block)) return cost
    }
    return assert.fail(`the service does not read block ${block}`)
}

/** Returns the receipt. viem's waitForTransactionReceipt asks again after the next block only, which does not come here. */
async function receiptOf(hash) {
    for (const deadline = Date.now() + 20_000; Date.now() < deadline; await setTimeout(20)) {
        try {
            return await client.getTransactionReceipt({ hash })
        } catch (error) {
            if (!(error instanceof TransactionReceiptNotFoundError)) throw error
        }
    }
    return assert.fail(`${hash} is not mined`)
}

const baseFees = new Set()
let mostLeft = 0n
for (let count = 0; count < SENDS; count++) {
    const account = privateKeyToAccount(generatePrivateKey())
    const wallet = createWalletClient({ account, chain: viemChain, transport })
    // From hardly more than the fee to many coins.
    const balance = 10n ** BigInt(randomInt(16, 22)) + BigInt(randomInt(0, 1_000_000_000))
    await anvil.setBalance({ address: account.address, value: balance })
    const { number } = await mineOther()
    const gas = GAS + BigInt(randomInt(0, 2) * randomInt(0, 30_000))
    const { tiers } = await costAt(number, balance, gas)
    const tier = tiers[TIERS[count % TIERS.length]]
    const [value, max] = [BigInt(tier.max_send), BigInt(tier.max)]
    assert.equal(value + max, balance)
    const { baseFeePerGas } = await mineOther()
    baseFees.add(baseFeePerGas)
    const fees = { maxFeePerGas: BigInt(tier.max_fee_per_gas), maxPriorityFeePerGas: BigInt(tier.max_priority_fee_per_gas) }
    const hash = await wallet.sendTransaction({ to: TO, value, gas, nonce: 0, ...fees })
    const receipt = await receiptOf(hash)
    assert.equal(receipt.status, 'success')
    const left = await client.getBalance({ address: account.address })
    const paid = receipt.gasUsed * receipt.effectiveGasPrice
    assert(left <= max - paid, `${left} is left, ${max - paid} may be`)
    if (left > mostLeft) mostLeft = left
}
assert(baseFees.size > SENDS / 2, 'the base fee moves')
assert(mostLeft > 0n)
console.log(`${SENDS} sends of everything, all mined`)
