// What applications see of pending state through the service:
// `node clients.mjs viem|viem-in-batches|ethers ROUTE NODE CREATION RUNTIME`.
//
// Reads go to ROUTE, the service's `/rpc/{chain}`. What a wallet sends and the order to mine go to NODE,
// an anvil with an empty queue that mines when it is told to. CREATION and RUNTIME are the code of the
// contract in tests/integration/contract.rs. Each line that this prints was found to be so; it ends with
// 1 at the first that was not.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";

import * as ethers from "ethers";
import {
    BaseError, ContractFunctionRevertedError, createPublicClient, createWalletClient, defineChain, http,
    parseAbi, parseEther,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";

const [, , client, route, node, creation, runtime] = process.argv;

const ABI = [
    "function stored() view returns (uint256)",
    "function store(uint256 value)",
    "function spend(address to, uint256 amount) view",
    "function refuse(uint256, uint256, uint256) view",
    "event Stored(uint256 value)",
    "error Refused(uint256 stored)",
];
// The first of anvil's accounts, which are the same everywhere.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const NOBODY = "0x00000000000000000000000000000000c0ffee00";
const GWEI = 1_000_000_000n;
// No event that is waited for takes this long unless it never comes.
const DEADLINE_MS = 20_000;

function checked(claim) {
    console.log(`${client}: ${claim}`);
}

async function mine() {
    const call = { jsonrpc: "2.0", id: 1, method: "anvil_mine", params: [] };
    const headers = { "content-type": "application/json" };
    const reply = await fetch(node, { method: "POST", headers, body: JSON.stringify(call) });
    assert.equal((await reply.json()).error, undefined);
}

// Reads until the value is as expected. What was read before may be answered so again: under `pending`
// for a flashblock, a revert too, and under `latest` until the service has seen the next block.
async function eventually(read, expected) {
    for (const deadline = Date.now() + DEADLINE_MS; ; ) {
        const found = await read().catch((error) => error);
        if (isDeepStrictEqual(found, expected)) return;
        if (Date.now() > deadline) assert.deepEqual(found, expected);
    }
}

// The promise's value; mines once `isWaiting`, so that there was nothing to find at first.
async function minedMeanwhile(promise, isWaiting) {
    for (const deadline = Date.now() + DEADLINE_MS; !isWaiting(); ) {
        assert(Date.now() < deadline, "nobody waits");
        await new Promise((resolve) => setImmediate(resolve));
    }
    await mine();
    return promise;
}

async function viem(batch) {
    const abi = parseAbi(ABI);
    const account = privateKeyToAccount(KEY);
    const asked = [];
    const refused = [];
    let widest = 1;
    const fetchFn = (url, init) => {
        const body = JSON.parse(init.body);
        if (Array.isArray(body)) widest = Math.max(widest, body.length);
        return fetch(url, init);
    };
    const transport = (options) => {
        const reads = http(route, { batch, fetchFn })(options);
        const writes = http(node)(options);
        const request = async (call, more) => {
            if (call.method === "eth_sendRawTransaction") return writes.request(call, more);
            asked.push(call.method);
            return reads.request(call, more).catch((error) => {
                if (error.code === -32601) refused.push(call.method);
                throw error;
            });
        };
        return { ...reads, request };
    };
    const chain = defineChain({
        id: 2020,
        name: "ronin",
        nativeCurrency: { name: "RON", symbol: "RON", decimals: 18 },
        rpcUrls: { default: { http: [route] } },
        experimental_preconfirmationTime: 250,
    });
    const reader = createPublicClient({ chain, transport });
    const wallet = createWalletClient({ chain, transport, account });
    const latest = { blockTag: "latest" };
    const pending = { blockTag: "pending" };
    const receiptOf = (hash) => {
        const before = asked.length;
        const isWaiting = () => asked.slice(before).includes("eth_getTransactionReceipt");
        return minedMeanwhile(reader.waitForTransactionReceipt({ hash }), isWaiting);
    };

    assert.equal(await reader.getChainId(), 2020);
    assert.equal(await reader.getBlockNumber(), 0n);
    checked("the chain's id and head");

    const created = await wallet.deployContract({ abi, bytecode: creation });
    const address = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
    assert.equal(await reader.getCode({ address, ...pending }), runtime);
    assert.equal(await reader.getCode({ address }), undefined);
    checked("the code of a queued contract is there under `pending` alone");

    const deployment = await receiptOf(created);
    assert.equal(deployment.status, "success");
    assert.equal(deployment.contractAddress, address.toLowerCase());
    assert.equal(deployment.blockNumber, 1n);
    await eventually(() => reader.getCode({ address }), runtime);
    checked("waitForTransactionReceipt sees a contract's creation");

    const spend = { address, abi, functionName: "spend", args: [NOBODY, 1n] };
    const refuse = { address, abi, functionName: "refuse", args: [1n, 2n, 3n] };
    const reverted = async (read) => {
        const error = await read.then(() => assert.fail("it did not revert"), (error) => error);
        assert(error instanceof BaseError, error);
        return error.walk((cause) => cause instanceof ContractFunctionRevertedError);
    };
    assert.equal((await reverted(reader.readContract(spend))).reason, "nothing stored");
    assert.equal((await reverted(reader.estimateContractGas({ ...spend, account }))).reason,
        "nothing stored");
    const { errorName, args } = (await reverted(reader.readContract(refuse))).data;
    assert.deepEqual([errorName, args], ["Refused", [0n]]);
    checked("a reason and a custom error reach the caller of a contract");

    const nonce = await reader.getTransactionCount({ address: account.address });
    assert.equal(nonce, 1);
    const stored = await wallet.writeContract({ address, abi, functionName: "store", args: [42n] });
    const sent = await wallet.sendTransaction({ to: NOBODY, value: parseEther("1") });
    const count = (block) => reader.getTransactionCount({ address: account.address, ...block });
    await eventually(() => count(pending), 3);
    assert.equal(await count(latest), 1);
    checked("a nonce counts two queued transactions under `pending`");

    const balance = (block) => reader.getBalance({ address: NOBODY, ...block });
    assert.deepEqual(await Promise.all([balance(), balance(latest)]), [parseEther("1"), 0n]);
    checked("a balance without a tag is the pending one");

    const word = (block) => reader.readContract({ address, abi, functionName: "stored", ...block });
    assert.deepEqual(await Promise.all([word(), word(latest)]), [42n, 0n]);
    const slot = (block) => reader.getStorageAt({ address, slot: "0x0", ...block });
    const [pendingSlot, latestSlot] = await Promise.all([slot(pending), slot(latest)]);
    assert.deepEqual([BigInt(pendingSlot), BigInt(latestSlot)], [42n, 0n]);
    await eventually(() => reader.readContract(spend), undefined);
    checked("a call without a tag sees pending state, and `latest` does not");

    const { results } = await reader.simulateCalls({
        calls: [{ to: address, abi, functionName: "stored" }],
    });
    assert.deepEqual([results[0].status, results[0].result], ["success", 42n]);
    checked("a simulation without a tag sees pending state");

    const block = await reader.getBlock();
    assert.equal(block.transactions.length, 2);
    assert.deepEqual(new Set(block.transactions), new Set([stored, sent]));
    assert.equal((await reader.getTransaction({ hash: sent })).blockHash, null);
    checked("a block without a tag is the pending one");

    const transfer = { account, to: NOBODY, value: 1n };
    assert.equal(await reader.estimateGas(transfer), 21000n);
    const ofNode = createPublicClient({ chain, transport: http(node) });
    const ofSpend = { ...spend, account };
    const gas = await ofNode.estimateContractGas(ofSpend);
    await eventually(() => reader.estimateContractGas(ofSpend), gas);
    checked("gas of a call that only queued state lets succeed");

    // Of the pending block, like all that viem asks for without a tag; viem adds a fifth.
    const { maxFeePerGas, maxPriorityFeePerGas } = await reader.estimateFeesPerGas();
    assert.equal(maxPriorityFeePerGas, GWEI);
    assert.equal(maxFeePerGas, block.baseFeePerGas * 12n / 10n + GWEI);
    assert.equal(await reader.getGasPrice(), await ofNode.getGasPrice());
    const history = { blockCount: 2, rewardPercentiles: [60] };
    assert.deepEqual(await reader.getFeeHistory(history), await ofNode.getFeeHistory(history));
    checked("estimateFeesPerGas, gas price and fee history");

    const event = abi.find((item) => item.name === "Stored");
    const logs = (range) => reader.getLogs({ address, event, ...range });
    assert.deepEqual(await logs(), []);
    const receipt = await receiptOf(stored);
    assert.deepEqual([receipt.status, receipt.blockNumber, receipt.logs.length], ["success", 2n, 1]);
    const [log, ...others] = await logs({ fromBlock: 2n, toBlock: 2n });
    assert.deepEqual([log.args, log.transactionHash, others], [{ value: 42n }, stored, []]);
    const found = async () => (await logs()).map((log) => log.transactionHash);
    await eventually(found, [stored]);
    checked("logs are there once their transaction is mined");

    await eventually(() => balance(latest), parseEther("1"));
    await eventually(() => word(latest), 42n);
    await eventually(() => count(latest), 3);
    checked("what was pending is latest once it is mined");

    // viem asks for this one before it works a transaction out by itself.
    assert.deepEqual([...new Set(refused)], ["eth_fillTransaction"]);
    if (batch) assert(widest >= 2, "nothing was sent in a batch");
    else assert.equal(widest, 1);
    checked(batch ? `batches of up to ${widest} calls` : "each call by itself");
}

async function ofEthers() {
    const asked = [];
    const refused = [];
    let widest = 1;
    const ofNode = new ethers.JsonRpcProvider(node);
    class Split extends ethers.JsonRpcProvider {
        async send(method, params) {
            const isWrite = method === "eth_sendRawTransaction";
            return isWrite ? ofNode.send(method, params) : super.send(method, params);
        }

        async _send(payload) {
            const calls = [payload].flat();
            asked.push(...calls.map((call) => call.method));
            if (Array.isArray(payload)) widest = Math.max(widest, payload.length);
            const answers = await super._send(payload);
            for (const { id, error } of answers) {
                if (error?.code === -32601) refused.push(calls.find((call) => call.id === id).method);
            }
            return answers;
        }
    }
    const provider = new Split(route);
    // Its own default, 4 s, suits blocks of an older time.
    provider.pollingInterval = 250;
    const wallet = new ethers.Wallet(KEY, provider);
    // ethers looks for a receipt at each block that is new to it after its first look at the head, so that
    // look has to come before the block: it has when the head is asked for again.
    const receiptOf = (wait) => {
        const before = asked.length;
        const isWaiting = () => {
            const heads = asked.slice(before).filter((method) => method === "eth_blockNumber");
            return asked.slice(before).includes("eth_getTransactionReceipt") && heads.length > 3;
        };
        return minedMeanwhile(wait(), isWaiting);
    };

    assert.equal((await provider.getNetwork()).chainId, 2020n);
    assert.equal(await provider.getBlockNumber(), 0);
    checked("the chain's id and head");

    const contract = await new ethers.ContractFactory(ABI, creation, wallet).deploy();
    const address = await contract.getAddress();
    const code = await Promise.all([provider.getCode(address, "pending"), provider.getCode(address)]);
    assert.deepEqual(code, [runtime, "0x"]);
    checked("the code of a queued contract is there under `pending` alone");

    const deployment = await receiptOf(() => contract.deploymentTransaction().wait());
    assert.deepEqual([deployment.status, deployment.contractAddress], [1, address]);
    assert.equal(deployment.blockNumber, 1);
    await eventually(() => provider.getCode(address), runtime);
    checked("wait() sees a contract's creation");

    const reverted = (call) => call.then(() => assert.fail("it did not revert"), (error) => error);
    for (const call of [contract.spend(NOBODY, 1n), contract.spend.estimateGas(NOBODY, 1n)]) {
        const { code, reason } = await reverted(call);
        assert.deepEqual([code, reason], ["CALL_EXCEPTION", "nothing stored"]);
    }
    const { revert } = await reverted(contract.refuse(1n, 2n, 3n));
    assert.deepEqual([revert.name, [...revert.args]], ["Refused", [0n]]);
    checked("a reason and a custom error reach the caller of a contract");

    // ethers itself keeps a nonce for 250 ms, so it is told the second one.
    const stored = await contract.store(42n, { nonce: 1 });
    const sent = await wallet.sendTransaction({ to: NOBODY, value: ethers.parseEther("1"), nonce: 2 });
    const count = (tag) => provider.getTransactionCount(wallet.address, tag);
    await eventually(() => count("pending"), 3);
    assert.equal(await count("latest"), 1);
    checked("a nonce counts two queued transactions under `pending`");

    const balance = (tag) => provider.getBalance(NOBODY, tag);
    const ether = ethers.parseEther("1");
    assert.deepEqual(await Promise.all([balance("pending"), balance("latest")]), [ether, 0n]);
    checked("a balance has a queued transfer under `pending` alone");

    const word = (blockTag) => contract.stored({ blockTag });
    assert.deepEqual(await Promise.all([word("pending"), word("latest")]), [42n, 0n]);
    const slot = (tag) => provider.getStorage(address, 0, tag);
    const [pendingSlot, latestSlot] = await Promise.all([slot("pending"), slot("latest")]);
    assert.deepEqual([BigInt(pendingSlot), BigInt(latestSlot)], [42n, 0n]);
    checked("a call and a slot show a queued word under `pending` alone");

    assert.equal(await provider.estimateGas({ from: wallet, to: NOBODY, value: 1n }), 21000n);
    const spend = { from: wallet.address, ...(await contract.spend.populateTransaction(NOBODY, 1n)) };
    const gas = await ofNode.estimateGas(spend);
    await eventually(() => provider.estimateGas(spend), gas);
    checked("gas of a call that only queued state lets succeed");

    const block = await provider.getBlock("pending");
    assert.deepEqual(new Set(block.transactions), new Set([stored.hash, sent.hash]));
    assert.equal((await provider.getTransaction(sent.hash)).blockHash, null);
    checked("the pending block lists what is queued");

    // ethers takes the newest block's base fee twice.
    const { baseFeePerGas } = await ofNode.getBlock("latest");
    const fees = await provider.getFeeData();
    assert.equal(fees.maxPriorityFeePerGas, GWEI);
    assert.equal(fees.maxFeePerGas, baseFeePerGas * 2n + GWEI);
    assert.equal(fees.gasPrice, BigInt(await ofNode.send("eth_gasPrice", [])));
    checked("getFeeData");

    // ethers asks for a filter first, and polls for logs where a node has none.
    const heard = new Promise((resolve) => contract.once("Stored", resolve));
    assert.deepEqual(await contract.queryFilter("Stored"), []);
    const receipt = await receiptOf(() => provider.waitForTransaction(stored.hash));
    assert.deepEqual([receipt.status, receipt.blockNumber, receipt.logs.length], [1, 2, 1]);
    const [log, ...others] = await contract.queryFilter("Stored", 2, 2);
    assert.deepEqual([[...log.args], log.transactionHash, others], [[42n], stored.hash, []]);
    assert.equal((await sent.wait()).status, 1);
    checked("logs are there once their transaction is mined");
    assert.equal(await heard, 42n);
    checked("a listener for an event hears of it");

    await eventually(() => balance("latest"), ether);
    await eventually(() => word("latest"), 42n);
    await eventually(() => count("latest"), 3);
    checked("what was pending is latest once it is mined");

    assert.deepEqual([...new Set(refused)], ["eth_newFilter"]);
    assert(widest >= 2, "nothing was sent in a batch");
    checked(`batches of up to ${widest} calls`);
    provider.destroy();
    ofNode.destroy();
}

const runs = { viem: () => viem(false), "viem-in-batches": () => viem(true), ethers: ofEthers };
setTimeout(() => {
    console.error(`${client} did not come to an end`);
    process.exit(1);
}, 3 * DEADLINE_MS).unref();
await runs[client]();
