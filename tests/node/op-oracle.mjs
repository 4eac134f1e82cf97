// Compares the service's costs on OP Stack chains with viem's op-stack actions, to the wei: `node op-oracle.mjs SETTINGS`.
//
// SETTINGS is JSON: `binary` is the service, `folder` is for its configuration, `node` is the URL of an anvil that takes
// deposits and mines on request, and `hardhat` is a folder with Hardhat 3, whose EDR has the code of Optimism's contracts.
//
// The blocks begin with L1 attributes deposits, as those of OP Stack chains do. Optimism's L1Block parses a deposit and its
// GasPriceOracle computes fees from that, while the service parses the deposit itself. All parameters change from block to
// block, and the chain goes from Fjord to Isthmus to Jovian.
//
// The service reads a deposit every 12 s. So it has many chains with anvil as their node. Each chain sees one of the blocks
// as the newest, and the following block after a while. viem sees the same.

import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createPublicClient, custom, decodeFunctionData, encodePacked, numberToHex, toFunctionSelector } from 'viem'
import { parseAbi, parseTransaction, serializeTransaction } from 'viem'
import { chainConfig, publicActionsL2 } from 'viem/op-stack'

import { until } from './browser.mjs'
import { Service, stopAll } from './services.mjs'

const { LibZip } = createRequire(import.meta.url)('solady')
const { binary, node, folder, hardhat } = JSON.parse(process.argv[2])
const edr = createRequire(join(hardhat, 'node_modules/'))('@nomicfoundation/edr')

const CHAINS = 16
const BLOCKS = 2 * CHAINS
const FIRST_ID = 910_000
const FIRST_L1_BLOCK = 23_000_000
// Bounds of the data of the transactions in each block, in bytes before repetition.
const MOST_DATA = [100, 400, 800]
const DEADLINE_MS = 30_000
const ORACLE = chainConfig.contracts.gasPriceOracle.address
const L1_BLOCK = chainConfig.contracts.l1Block.address
// Sender of the deposits (OP Stack specification, "L1 attributes depositor account").
const DEPOSITOR = '0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001'
const SENDER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
// Contract that returns true from each call, such as `isJovian`.
const ALWAYS_TRUE = '0x00000000000000000000000000000000000000aa'
const GET_L1_FEE = toFunctionSelector('getL1Fee(bytes)')
const ORACLE_ABI = parseAbi([
    'function getL1Fee(bytes) view returns (uint256)',
    'function getL1FeeUpperBound(uint256) view returns (uint256)',
    'function getOperatorFee(uint256) view returns (uint256)',
])

// Selector of the deposit, first block, and contracts of each fork. The second and third fork begin between the two blocks of
// a chain. Ecotone is left out: its deposit is that of Fjord, and the service takes it for that.
const FORKS = [
    { name: 'fjord', from: 0, selector: '0x440a5e20', contracts: 'Fjord' },
    { name: 'isthmus', from: 11, selector: '0x098999be', contracts: 'Isthmus' },
    // No npm package has the contracts of Jovian: see `depositsOf` and `operatorFees`.
    { name: 'jovian', from: 21, selector: '0x3db6be2b', contracts: 'Isthmus' },
]
const forkAt = (index) => FORKS.findLast(({ from }) => from <= index)

const hex = (bytes) => `0x${Buffer.from(bytes).toString('hex')}`
const slot = (number) => numberToHex(number, { size: 32 })
const random = (bits) => BigInt(hex(randomBytes(16))) >> BigInt(128 - randomInt(1, bits + 1))
const fastLz = (data) => (LibZip.flzCompress(data).length - 2) / 2

/** Calls anvil. */
async function call(method, params) {
    const [body, signal] = [JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), AbortSignal.timeout(DEADLINE_MS)]
    const headers = { 'content-type': 'application/json' }
    const { error, result } = await (await fetch(node, { method: 'POST', headers, body, signal })).json()
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), error)
    return result
}

/** Sets the code of the two contracts, and the oracle's storage, which says what fork it is. */
async function setContracts({ contracts }) {
    for (const { address, code, storage } of edr.opGenesisState(edr.opHardforkFromString(contracts))) {
        const account = hex(address)
        if (![ORACLE.toLowerCase(), L1_BLOCK].includes(account)) continue
        await call('anvil_setCode', [account, hex(code)])
        for (const { index, value } of account.endsWith('0f') ? storage : []) {
            await call('anvil_setStorageAt', [account, slot(index), slot(value)])
        }
    }
}

/** Returns the data of the deposits at the beginning of a block. */
function depositsOf(index) {
    const { name, selector } = forkAt(index)
    // A sixth of the parameters is 0.
    const amount = (bits) => (randomInt(0, 6) ? random(bits) : 0n)
    // The oracle multiplies the first scalar by 16 in 32 bits, and fails above 28 bits. Nodes and the service do not.
    const scalars = [Number(amount(28)), Number(amount(32))]
    const values = [...scalars, random(64), random(64), BigInt(FIRST_L1_BLOCK + index), amount(50), amount(50)]
    const parameters = (ofFork) =>
        encodePacked(
            ['bytes4', 'uint32', 'uint32', 'uint64', 'uint64', 'uint64', 'uint256', 'uint256', 'bytes32', 'bytes32'],
            [ofFork, ...values, slot(index + 1), slot(7n)],
        )
    if (name === 'fjord') return [parameters(selector)]
    const operator = encodePacked(['uint32', 'uint64'], [Number(amount(32)), amount(64)]).slice(2)
    if (name === 'isthmus') return [parameters(selector) + operator]
    // L1Block of Isthmus rejects the deposit of Jovian, so that of Isthmus with the same parameters follows.
    return [parameters(selector) + operator + '0190', parameters(FORKS[1].selector) + operator]
}

/** Mines a block and returns its number. */
async function mine(index) {
    if (forkAt(index).from === index) await setContracts(forkAt(index))
    const deposits = depositsOf(index)
    for (const [position, data] of deposits.entries()) {
        const origin = { from: DEPOSITOR, sourceHash: slot(2 * index + position + 1), mint: '0x0', isSystemTx: false }
        await call('eth_sendTransaction', [{ type: '0x7e', ...origin, to: L1_BLOCK, gas: '0xf4240', data }])
    }
    await call('evm_mine', [])
    const receipts = await call('eth_getBlockReceipts', ['latest'])
    assert.equal(receipts.length, deposits.length)
    assert.equal(receipts.at(-1).status, '0x1', 'L1Block takes the deposit')
    return receipts[0].blockNumber
}

/** Makes a call to a chain's node. */
async function callOf(chain, method, params = []) {
    if (method === 'eth_chainId') return numberToHex(FIRST_ID + chain)
    // viem leaves the block of an estimate out.
    const all = method === 'eth_estimateGas' ? [params[0], 'latest'] : params
    return call(method, all.map((value) => (value === 'latest' ? blocks[seen[chain]] : value)))
}

/** Starts the chains' nodes for the service. The path of a request is the chain. */
async function startNodes() {
    const server = createServer(async (request, response) => {
        const { id, method, params } = JSON.parse(Buffer.concat(await request.toArray()))
        const chain = Number(request.url.slice(1))
        const index = seen[chain]
        const failed = ({ code, message }) => ({ error: { code, message } })
        const outcome = await callOf(chain, method, params).then((result) => ({ result }), failed)
        response.end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }))
        if (method === 'eth_getTransactionByBlockNumberAndIndex') reads.add(index)
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return server
}

/** Returns a viem client, and the list of the transactions that it sends to `getL1Fee`. */
function viemClient(chain) {
    const compared = []
    const request = ({ method, params }) => {
        if (method === 'eth_call' && params[0].data.startsWith(GET_L1_FEE)) {
            compared.push(decodeFunctionData({ abi: ORACLE_ABI, data: params[0].data }).args[0])
        }
        return callOf(chain, method, params)
    }
    const transport = custom({ request }, { retryCount: 0 })
    const client = createPublicClient({ chain: { ...chainConfig, id: FIRST_ID + chain }, transport })
    return { client: client.extend(publicActionsL2()), compared }
}

/** Returns a transfer with data of up to so many bytes that compress well, badly, or in parts. */
function randomTransfer(most) {
    const bytes = randomBytes(randomInt(0, most))
    const kind = randomInt(0, 3)
    if (kind === 1) bytes.forEach((_, at) => at % 9 && (bytes[at] = 0))
    const data = kind === 2 ? Buffer.concat([bytes, Buffer.alloc(bytes.length), bytes]) : bytes
    return { account: SENDER, to: hex(randomBytes(20)), value: random(70), data: hex(data) }
}

/**
 * Returns a transaction like this one, signed or not, with some bytes more in its data, whose FastLZ length is larger by this
 * number. `undefined`: none was found, because FastLZ skips some lengths.
 */
function longer(unsigned, by, isSigned = false) {
    const transaction = parseTransaction(unsigned)
    const length = fastLz(unsigned) + by
    for (let tries = 0; tries < 200; tries++) {
        const data = (transaction.data ?? '0x') + randomBytes(randomInt(0, 9)).toString('hex')
        const [r, s] = [randomInt(28, 33), randomInt(28, 33)].map((size) => hex(randomBytes(size)))
        const found = serializeTransaction({ ...transaction, data }, isSigned ? { r, s, yParity: randomInt(0, 2) } : undefined)
        if (fastLz(found) === length) return found
    }
}

/** Returns a transfer, its L1 fee by viem, what viem serialised, and the two transactions that are compared with it. */
async function sample(client, compared, most) {
    for (;;) {
        const transfer = randomTransfer(most)
        const fee = await client.estimateL1Fee(transfer)
        const unsigned = compared.pop()
        const [signed, longerByFour] = [longer(unsigned, 68, true), longer(unsigned, 4)]
        if (signed && longerByFour) return { transfer, fee, unsigned, signed, longerByFour }
    }
}

/** Returns the unsigned size for which `getL1FeeUpperBound` assumes the length that the service assumes for these bytes. */
function sizeForBytes(bytes) {
    // GasPriceOracle.sol of Fjord: 68 bytes for the signature, and the longest output of FastLZ according to its authors.
    const ofContract = (size) => size + 68 + Math.floor((size + 68) / 255) + 16
    // Data that does not compress grows by a byte for each 32. The service's bound is never below that. The contract's is, from
    // about 500 bytes on.
    const assumed = Math.max(ofContract(bytes - 68), bytes + Math.ceil(bytes / 32))
    let size = bytes - 68
    while (ofContract(size) < assumed) size++
    // The contract skips a length at each multiple of 255.
    return ofContract(size) === assumed ? size : undefined
}

/** Returns the operator fee of a transfer, which needs this gas, according to viem. */
async function operatorFees(client, fork, transfer, gas) {
    const estimate = (parameters) => client.estimateOperatorFee({ ...transfer, ...parameters })
    // Fjord's oracle has no operator fee.
    if (fork === 'fjord') return 0n
    // Isthmus's oracle does not have Jovian's rule. viem has it, if it reads the parameters from L1Block.
    if (fork === 'jovian') return estimate({ l1BlockAddress: L1_BLOCK, gasPriceOracleAddress: ALWAYS_TRUE })
    const fee = await estimate({})
    assert.equal(await estimate({ l1BlockAddress: L1_BLOCK }), fee)
    assert.equal(await readOracle(client, 'getOperatorFee', gas), fee)
    return fee
}

const readOracle = (client, functionName, argument) =>
    client.readContract({ address: ORACLE, abi: ORACLE_ABI, functionName, args: [argument] })

async function ask(chain, query, body) {
    const options = { signal: AbortSignal.timeout(DEADLINE_MS), ...(body && { method: 'POST', body: JSON.stringify(body) }) }
    const response = await fetch(`${service.url}/v1/op${chain}/${query}`, options)
    assert.equal(response.status, 200, await response.clone().text())
    return response.json()
}

/** Compares all fees in a block, which a chain sees, as soon as the service has read its deposit. */
async function compare(index, chain) {
    await until(() => reads.has(index), Boolean)
    const isRead = ({ data_fee: fee }) => fee?.l1_block === FIRST_L1_BLOCK + index
    const { data_fee: parameters } = await until(() => ask(chain, 'fee-market'), isRead)
    assert.equal(parameters.rule, forkAt(index).name)
    const { client, compared } = viemClient(chain)
    for (const most of MOST_DATA) {
        const { transfer, fee, unsigned, signed, longerByFour } = await sample(client, compared, most)
        const gas = await client.estimateGas(transfer)
        const about = `block ${index}, ${unsigned}, ${JSON.stringify(parameters)}`

        // For the signature that `getL1Fee` does not see, it adds 68 to the FastLZ length (GasPriceOracle.sol of Fjord,
        // `_getL1FeeFjord`). Real signatures add 68 or some more, so the signed transaction is one with exactly that length.
        const cost = await ask(chain, 'cost', { gas: String(gas), transaction: signed })
        assert.equal(cost.data_fee.fee, String(fee), about)
        const operatorFee = await operatorFees(client, forkAt(index).name, transfer, gas)
        assert.equal(cost.data_fee.operator_fee.expected, String(operatorFee), about)
        for (const { max, max_fee_per_gas: price } of Object.values(cost.tiers)) {
            assert.equal(BigInt(max), gas * BigInt(price) + fee + (3n * fee + 9n) / 10n + operatorFee, about)
        }

        // The service adds 72 for a signature that it does not see, because its fee is a bound.
        const ofUnsigned = await ask(chain, 'cost', { gas: String(gas), transaction: unsigned })
        const { data } = parseTransaction(longerByFour)
        assert.equal(ofUnsigned.data_fee.fee, String(await client.estimateL1Fee({ ...transfer, data })), about)
        assert.deepEqual([cost.data_fee.exact, ofUnsigned.data_fee.exact], [true, false])

        let bytes = randomInt(68, 4000)
        while (sizeForBytes(bytes) === undefined) bytes++
        const bound = await readOracle(client, 'getL1FeeUpperBound', BigInt(sizeForBytes(bytes)))
        const ofBytes = await ask(chain, `cost?gas=21000&bytes=${bytes}`)
        assert.equal(ofBytes.data_fee.fee, String(bound), `${bytes} bytes, ${about}`)
        if (fee > 0n) fees.add(fee)
    }
}

const fees = new Set()
// Indexes of the blocks whose deposit the service has read.
const reads = new Set()
// Numbers of the blocks, and the index of the block that each chain sees.
const blocks = []
const seen = Array.from({ length: CHAINS }, (_, chain) => 2 * chain)
const nodes = await startNodes()
let service
try {
    await call('anvil_impersonateAccount', [DEPOSITOR])
    await call('anvil_setCode', [ALWAYS_TRUE, '0x600160005260206000f3'])
    // Anvil demands the fees of calls too. viem calls contracts from the zero address.
    for (const account of [SENDER, `0x${'0'.repeat(40)}`]) await call('anvil_setBalance', [account, numberToHex(10n ** 30n)])
    await call('anvil_mine', ['0x14'])
    for (let index = 0; index < BLOCKS; index++) blocks.push(await mine(index))

    const chains = seen.map((_, chain) => {
        const url = `http://127.0.0.1:${nodes.address().port}/${chain}`
        const ids = `[chains.op${chain}]\nchain_id = ${FIRST_ID + chain}\nrpc_urls = ["${url}"]\n`
        return `${ids}data_fee = "op-stack"\nblock_time = "12s"\nmax_block_age = "0s"\nstall_after = "0s"\n`
    })
    service = await Service.start({ binary, folder, config: chains.join('') })
    await Promise.all(seen.map(compare))
    seen.forEach((index, chain) => (seen[chain] = index + 1))
    await Promise.all(seen.map(compare))
} finally {
    await stopAll()
    nodes.close()
    nodes.closeAllConnections()
}
assert(fees.size > (BLOCKS * MOST_DATA.length) / 2, 'the fees differ')
console.log(`${BLOCKS} blocks`)
