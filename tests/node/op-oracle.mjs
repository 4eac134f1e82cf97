// Compares the service's costs on OP Stack chains with viem's op-stack actions, to the wei: `node op-oracle.mjs SETTINGS`.
//
// SETTINGS is JSON: `binary` is the service, `folder` is for its configuration, `node` is the URL of an anvil that takes deposits
// and mines in their order when it is asked to, and `hardhat` is a folder with Hardhat 3, whose EDR has the code of Optimism's
// contracts.
//
// Anvil mines blocks that begin with L1 attributes deposits, as those of OP Stack chains do. Optimism's own L1Block parses a
// deposit and its GasPriceOracle computes fees from that, while the service parses the deposit itself. All parameters
// change from block to block, and the chain goes from Fjord to Isthmus to Jovian.
//
// The service reads the deposit every 12 s. So it has many chains with anvil as their node, each of which sees one of the
// blocks as the newest, and the following block after a while. viem sees the same.

import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import {
    createPublicClient, custom, decodeFunctionData, encodePacked, numberToHex, parseAbi, parseTransaction, serializeTransaction,
} from 'viem'
import { chainConfig, publicActionsL2 } from 'viem/op-stack'

import { until } from './browser.mjs'
import { Service, stopAll } from './services.mjs'

const { LibZip } = createRequire(import.meta.url)('solady')
const { binary, node, folder, hardhat } = JSON.parse(process.argv[2])
const edr = createRequire(join(hardhat, 'node_modules/'))('@nomicfoundation/edr')

const CHAINS = 20
const BLOCKS = 2 * CHAINS
const FIRST_ID = 910_000
// Bytes of the transactions in each block.
const MOST_DATA = [100, 400, 800]
const DEADLINE_MS = 30_000
const ORACLE = chainConfig.contracts.gasPriceOracle.address
const L1_BLOCK = chainConfig.contracts.l1Block.address
// Sender of the deposits (OP Stack specification, "L1 attributes depositor account").
const DEPOSITOR = '0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001'
const SENDER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
// Contract that answers each call with `true`. viem asks the oracle for `isJovian` alone if it is to compute a fee itself.
const ALWAYS_TRUE = '0x00000000000000000000000000000000000000aa'
const ALWAYS_TRUE_CODE = '0x600160005260206000f3'
const ORACLE_ABI = parseAbi([
    'function getL1Fee(bytes) view returns (uint256)',
    'function getL1FeeUpperBound(uint256) view returns (uint256)',
    'function getOperatorFee(uint256) view returns (uint256)',
])

// The deposit's selector and length, and the first blocks of each fork. Both are in the middle of a chain's two blocks. No
// fork has the number of Ecotone: its deposit is that of Fjord, and the service knows no chain that is before Fjord.
const FORKS = [
    { name: 'fjord', from: 0, selector: '0x440a5e20', code: edr.opHardforkFromString('Fjord') },
    { name: 'isthmus', from: 13, selector: '0x098999be', code: edr.opHardforkFromString('Isthmus') },
    // No package has the contracts of Jovian: see `depositsOf` and `operatorFees`.
    { name: 'jovian', from: 27, selector: '0x3db6be2b', code: edr.opHardforkFromString('Isthmus') },
]
const forkAt = (index) => FORKS.findLast(({ from }) => from <= index)

const hex = (bytes) => `0x${Buffer.from(bytes).toString('hex')}`
const slot = (number) => numberToHex(number, { size: 32 })
const random = (bits) => BigInt(hex(randomBytes(16))) >> BigInt(128 - randomInt(1, bits + 1))
const fastLz = (data) => (LibZip.flzCompress(data).length - 2) / 2

// Calls anvil.
async function call(method, params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(node, { method: 'POST', headers, body, signal: AbortSignal.timeout(DEADLINE_MS) })
    const { error, result } = await response.json()
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), error)
    return result
}

/** Sets the code of the two contracts, and the oracle's storage, which says what fork it is. */
async function setContracts({ code: fork }) {
    for (const { address, code, storage } of edr.opGenesisState(fork)) {
        const account = hex(address)
        if (![ORACLE, L1_BLOCK].some((wanted) => wanted.toLowerCase() === account)) continue
        await call('anvil_setCode', [account, hex(code)])
        for (const { index, value } of account.endsWith('0f') ? storage : []) {
            await call('anvil_setStorageAt', [account, slot(index), slot(value)])
        }
    }
}

/** Returns the data of the deposits at the beginning of a block. */
function depositsOf(index) {
    const { name, selector } = forkAt(index)
    // Every sixth of the parameters is 0.
    const amount = (bits) => (randomInt(0, 6) ? random(bits) : 0n)
    // The oracle multiplies the first scalar by 16 in 32 bits, and fails above 28 bits. Nodes and the service do not.
    const [scalar, blobScalar] = [Number(amount(28)), Number(amount(32))]
    const values = [scalar, blobScalar, random(64), random(64), firstL1Block + BigInt(index), amount(50), amount(50)]
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

async function mine(index) {
    if (forkAt(index).from === index) await setContracts(forkAt(index))
    const deposits = depositsOf(index)
    for (const [position, data] of deposits.entries()) {
        const sourceHash = slot(BigInt(2 * index + position + 1))
        const deposit = { type: '0x7e', from: DEPOSITOR, to: L1_BLOCK, gas: '0xf4240', mint: '0x0', isSystemTx: false, sourceHash, data }
        await call('eth_sendTransaction', [deposit])
    }
    await call('evm_mine', [])
    const { number, transactions } = await call('eth_getBlockByNumber', ['latest', false])
    assert.equal(transactions.length, deposits.length)
    const last = await call('eth_getTransactionReceipt', [transactions.at(-1)])
    assert.equal(last.status, '0x1', 'L1Block takes the deposit')
    return number
}

/** Makes a call of a chain, whose newest block is the one that it sees. */
async function callOf(chain, method, params = []) {
    if (method === 'eth_chainId') return numberToHex(FIRST_ID + chain)
    const isWithoutBlock = ['eth_call', 'eth_estimateGas'].includes(method) && params.length === 1
    const all = isWithoutBlock ? [...params, 'latest'] : params
    return call(method, all.map((value) => (value === 'latest' ? blocks[seen[chain]] : value)))
}

/** The chains' nodes for the service: the path is the chain. */
async function startNodes() {
    const server = createServer(async (request, response) => {
        const { id, method, params } = JSON.parse(Buffer.concat(await request.toArray()))
        const [chain, index] = [Number(request.url.slice(1)), seen[Number(request.url.slice(1))]]
        const outcome = await callOf(chain, method, params).then(
            (result) => ({ result }),
            ({ code, message }) => ({ error: { code, message } }),
        )
        response.end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }))
        if (method === 'eth_getTransactionByBlockNumberAndIndex') reads.add(index)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return server
}

/** Returns a client of viem, and the arguments that its newest call of `getL1Fee` had. */
function viemClient(index) {
    const compared = []
    const request = ({ method, params }) => {
        if (method === 'eth_call' && params[0].data.startsWith('0x49948e0e')) {
            compared.push(decodeFunctionData({ abi: ORACLE_ABI, data: params[0].data }).args[0])
        }
        return callOf(index >> 1, method, params)
    }
    const id = FIRST_ID + (index >> 1)
    const nativeCurrency = { name: 'Ether', symbol: 'ETH', decimals: 18 }
    const chain = { id, name: 'op', nativeCurrency, rpcUrls: { default: { http: [] } }, contracts: chainConfig.contracts }
    const client = createPublicClient({ chain, transport: custom({ request }, { retryCount: 0 }), cacheTime: 0 })
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
 * Returns a transaction like this unsigned one, with some bytes more in its data, whose FastLZ length is larger by this
 * number; with `isSigned`, one with a signature. `undefined`: none was found, because FastLZ skips some lengths.
 */
function longer(unsigned, by, isSigned) {
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
    for (const deadline = Date.now() + DEADLINE_MS; Date.now() < deadline; ) {
        const transfer = randomTransfer(most)
        const fee = await client.estimateL1Fee(transfer)
        const unsigned = compared.pop()
        const [signed, longerByFour] = [longer(unsigned, 68, true), longer(unsigned, 4, false)]
        if (signed && longerByFour) return { transfer, fee, unsigned, signed, longerByFour }
    }
    return assert.fail('FastLZ skips all lengths')
}

/** Returns the unsigned size for which `getL1FeeUpperBound` assumes the length that the service assumes for these bytes. */
function sizeForBytes(bytes) {
    // GasPriceOracle.sol: 68 bytes for the signature, and the worst case of FastLZ by its authors.
    const ofContract = (size) => size + 68 + Math.floor((size + 68) / 255) + 16
    // What does not compress is longer: a byte for each 32. The service never assumes less, which the contract does from about
    // 500 bytes on.
    const assumed = Math.max(ofContract(bytes - 68), bytes + Math.ceil(bytes / 32))
    let size = bytes - 68
    while (ofContract(size) < assumed) size += 1
    // The contract's length is none of 255.
    return ofContract(size) === assumed ? size : undefined
}

/** Compares the operator fees of this gas. Returns that of viem. */
async function operatorFees(client, fork, transfer, gas) {
    const operatorFee = (parameters) => client.estimateOperatorFee({ ...transfer, ...parameters })
    // There is no operator fee before Isthmus, and no function for it.
    if (fork === 'fjord') return 0n
    // The contract of Isthmus has no rule of Jovian, so viem computes the fee from the parameters in L1Block.
    if (fork === 'jovian') return operatorFee({ l1BlockAddress: L1_BLOCK, gasPriceOracleAddress: ALWAYS_TRUE })
    const fee = await operatorFee({})
    assert.equal(await operatorFee({ l1BlockAddress: L1_BLOCK }), fee)
    assert.equal(await client.readContract({ address: ORACLE, abi: ORACLE_ABI, functionName: 'getOperatorFee', args: [gas] }), fee)
    return fee
}

async function ask(chain, query, body) {
    const options = body && { method: 'POST', body: JSON.stringify(body) }
    const response = await fetch(`${service.url}/v1/op${chain}/${query}`, { ...options, signal: AbortSignal.timeout(DEADLINE_MS) })
    assert.equal(response.status, 200, await response.clone().text())
    return response.json()
}

/** Compares all fees in a block. */
async function compare(index) {
    const chain = index >> 1
    const { name } = forkAt(index)
    const { data_fee: parameters } = await until(() => ask(chain, 'fee-market'), (it) => it.data_fee?.l1_block === Number(firstL1Block) + index)
    assert.equal(parameters.rule, name)
    const { client, compared } = viemClient(index)
    for (const most of MOST_DATA) {
        const { transfer, fee, unsigned, signed, longerByFour } = await sample(client, compared, most)
        const gas = await client.estimateGas(transfer)
        const about = `block ${index}, ${unsigned}, ${JSON.stringify(parameters)}`

        // For the signature that `getL1Fee` does not see, it adds 68 to the FastLZ length (GasPriceOracle.sol of Fjord,
        // `_getL1FeeFjord`). Real signatures add 68 or some more, so the signed transaction is one with exactly that length.
        const cost = await ask(chain, 'cost', { gas: String(gas), transaction: signed })
        assert.equal(cost.data_fee.fee, String(fee), about)
        assert.equal(cost.data_fee.exact, true)
        const operatorFee = await operatorFees(client, name, transfer, gas)
        assert.equal(cost.data_fee.operator_fee.expected, String(operatorFee), about)
        for (const { max, max_fee_per_gas: price } of Object.values(cost.tiers)) {
            assert.equal(BigInt(max), gas * BigInt(price) + fee + (3n * fee + 9n) / 10n + operatorFee, about)
        }

        // The service adds 72 for a signature that it does not see, because its fee is a bound.
        const bound = await ask(chain, 'cost', { gas: String(gas), transaction: unsigned })
        const { data } = parseTransaction(longerByFour)
        assert.equal(bound.data_fee.fee, String(await client.estimateL1Fee({ ...transfer, data })), about)
        assert.equal(bound.data_fee.exact, false)

        let bytes = randomInt(68, 4000)
        while (sizeForBytes(bytes) === undefined) bytes += 1
        const upper = { address: ORACLE, abi: ORACLE_ABI, functionName: 'getL1FeeUpperBound', args: [BigInt(sizeForBytes(bytes))] }
        const ofBytes = await ask(chain, `cost?gas=21000&bytes=${bytes}`)
        assert.equal(ofBytes.data_fee.fee, String(await client.readContract(upper)), `${bytes} bytes, ${about}`)
        if (fee > 0n) fees.add(fee)
    }
}

const fees = new Set()
// Indexes of the blocks whose deposit the service has read.
const reads = new Set()
const firstL1Block = 23_000_000n
// Numbers of the blocks, and the index of the block that each chain sees.
const blocks = []
const seen = Array.from({ length: CHAINS }, (_, chain) => 2 * chain)
const nodes = await startNodes()
let service
try {
    await call('anvil_impersonateAccount', [DEPOSITOR])
    await call('anvil_setCode', [ALWAYS_TRUE, ALWAYS_TRUE_CODE])
    // Anvil demands the fees of calls too. viem calls contracts from the zero address.
    for (const account of [SENDER, `0x${'0'.repeat(40)}`]) await call('anvil_setBalance', [account, numberToHex(10n ** 30n)])
    await call('anvil_mine', ['0x14'])
    for (let index = 0; index < BLOCKS; index++) blocks.push(await mine(index))

    const chains = seen.map((_, chain) =>
        `[chains.op${chain}]\nchain_id = ${FIRST_ID + chain}\nrpc_urls = ["http://127.0.0.1:${nodes.address().port}/${chain}"]\n` +
        'data_fee = "op-stack"\nblock_time = "2s"\nmax_block_age = "0s"\nstall_after = "0s"\n')
    const comparisons = () =>
        Promise.all(
            seen.map(async (index) => {
                await until(() => reads.has(index), Boolean)
                await compare(index)
            }),
        )
    service = await Service.start({ binary, folder, config: chains.join('') })
    await comparisons()
    seen.forEach((index, chain) => (seen[chain] = index + 1))
    await comparisons()
} finally {
    await stopAll()
    nodes.close()
    nodes.closeAllConnections()
}
assert(fees.size > (BLOCKS * MOST_DATA.length) / 2, 'the fees differ')
console.log(`${BLOCKS} blocks`)
