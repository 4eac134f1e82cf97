// Compares the service's data fees with an independent implementation: FastLZ by solady, transactions by viem, formulas by
// hand. Arguments: the service's URL, and the parameters of the chain as JSON.

import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { createRequire } from 'node:module'
import { serializeTransaction } from 'viem'

const { LibZip } = createRequire(import.meta.url)('solady')
const [service, parameters] = process.argv.slice(2)
const attributes = JSON.parse(parameters)
const TRANSACTIONS = 10_000
const CONNECTIONS = 16

const hex = (bytes) => `0x${bytes.toString('hex')}`
const amount = () => BigInt(hex(randomBytes(randomInt(1, 12))))

/** Returns data that compresses well, badly, or in parts. */
function randomData() {
    const bytes = randomBytes(randomInt(0, 10) === 0 ? randomInt(0, 4000) : randomInt(0, 300))
    const kind = randomInt(0, 3)
    if (kind === 1) bytes.forEach((_, index) => index % 9 && (bytes[index] = 0))
    return kind === 2 ? Buffer.concat([bytes, bytes, Buffer.alloc(bytes.length)]) : bytes
}

function randomTransaction() {
    const type = ['legacy', 'eip2930', 'eip1559', 'eip7702'][randomInt(0, 4)]
    const fees =
        type === 'legacy' || type === 'eip2930'
            ? { gasPrice: amount() }
            : { maxFeePerGas: (1n << 100n) + amount(), maxPriorityFeePerGas: amount() }
    const authorization = {
        address: hex(randomBytes(20)), chainId: 7, nonce: 1, r: hex(randomBytes(32)), s: hex(randomBytes(32)), yParity: 0,
    }
    const transaction = {
        type, chainId: 7, nonce: randomInt(0, 1000), gas: 21_000n, to: hex(randomBytes(20)), value: amount(),
        data: hex(randomData()), ...fees,
        ...(type === 'legacy' ? {} : { accessList: [{ address: hex(randomBytes(20)), storageKeys: [hex(randomBytes(32))] }] }),
        ...(type === 'eip7702' ? { authorizationList: [authorization] } : {}),
    }
    const signature = { r: hex(randomBytes(32)), s: hex(randomBytes(32)), yParity: randomInt(0, 2), v: 27n }
    return [serializeTransaction(transaction), serializeTransaction(transaction, signature)]
}

function l1Fee(fastLz) {
    const { base_fee_scalar: scalar, blob_base_fee_scalar: blobScalar } = attributes
    const size = 836_500n * BigInt(fastLz) - 42_585_600n
    const price = 16n * BigInt(scalar) * BigInt(attributes.l1_base_fee) + BigInt(blobScalar) * BigInt(attributes.l1_blob_base_fee)
    return ((size > 100_000_000n ? size : 100_000_000n) * price) / 10n ** 12n
}

const length = (hex) => (LibZip.flzCompress(hex).length - 2) / 2

async function ask(transaction, balance) {
    const body = JSON.stringify({ gas: '21000', transaction, balance: String(balance) })
    const response = await fetch(`${service}/v1/a/cost`, { method: 'POST', body, signal: AbortSignal.timeout(60_000) })
    assert.equal(response.status, 200, `${transaction}: ${await response.clone().text()}`)
    return response.json()
}

async function compare() {
    const [unsigned, signed] = randomTransaction()
    const balance = amount()
    const exact = await ask(signed, balance)
    const fee = l1Fee(length(signed))
    assert.equal(exact.data_fee.fee, String(fee), signed)
    assert.equal(exact.data_fee.exact, true)
    // The others are compared with the exact fees alone.
    if (left % 10) return checkFunds(exact, fee, balance, signed)
    const bound = await ask(unsigned, balance)
    assert.equal(bound.data_fee.fee, String(l1Fee(length(unsigned) + 72)), unsigned)
    assert(BigInt(bound.data_fee.fee) >= fee, unsigned)
    checkFunds(exact, fee, balance, signed)
}

/** Checks the rule of op-geth: value + gas limit × max fee + L1 fee + operator fee is at most the balance. */
function checkFunds(exact, fee, balance, signed) {
    for (const tier of Object.values(exact.tiers)) {
        const [send, cap] = [BigInt(tier.max_send), BigInt(tier.max_fee_per_gas)]
        const demanded = 21_000n * cap + fee + BigInt(exact.data_fee.operator_fee.max)
        assert(send === 0n || send + demanded <= balance, signed)
        const left = balance - send - demanded
        const room = (3n * fee + 9n) / 10n
        assert(send === 0n || left === room, `${left} is left, not ${room}`)
    }
}

let left = TRANSACTIONS
await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
        while (left-- > 0) await compare()
    }),
)
for (let bytes = 1; bytes <= 4000; bytes += 37) {
    const response = await fetch(`${service}/v1/a/cost?gas=21000&bytes=${bytes}`)
    const { data_fee: bound } = await response.json()
    assert(BigInt(bound.fee) >= l1Fee(length(hex(randomBytes(bytes)))), `${bytes} bytes`)
}
console.log(`${TRANSACTIONS} transactions`)
