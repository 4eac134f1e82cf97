// Checks pending state as web3 applications see it through the service:
// `node clients.mjs viem|ethers|ethers-5|web3 ROUTE NODE CREATION RUNTIME`.
//
// Reads go to ROUTE, the service's `/rpc/{chain}`. Transactions and requests to mine go to NODE, an anvil with
// an empty queue and no automatic mining. CREATION and RUNTIME are the code of the contract in
// tests/system/test_contract.rs. Prints a line for each check, and exits with status 1 at the first that fails.

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
// Key of anvil's first default account.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const RECIPIENT = "0x00000000000000000000000000000000c0ffee00";
const GWEI = 1_000_000_000n;
// Timeout for every awaited event.
const DEADLINE_MS = 60_000;

function checked(claim) {
    console.log(`${client}: ${claim}`);
}

async function mine() {
    const call = { jsonrpc: "2.0", id: 1, method: "anvil_mine", params: [] };
    const headers = { "content-type": "application/json" };
    const response = await fetch(node, { method: "POST", headers, body: JSON.stringify(call) });
    assert.equal((await response.json()).error, undefined);
}

// Repeats `read` until it returns the expected value. Earlier reads may come from the cache: the service caches
// `pending` results and reverts for a flashblock, and `latest` results until it has read the next block.
async function eventually(read, expected) {
    for (const deadline = Date.now() + DEADLINE_MS; ; ) {
        const found = await read().catch((error) => error);
        if (isDeepStrictEqual(found, expected)) return;
        if (Date.now() > deadline) assert.deepEqual(found, expected);
    }
}

// Mines a block once `isWaiting` returns true, which is after the client's first look-up found nothing. Returns the
// value of the promise.
async function minedMeanwhile(promise, isWaiting) {
    for (const deadline = Date.now() + DEADLINE_MS; !isWaiting(); ) {
        assert(Date.now() < deadline, "the client does not wait");
        await new Promise((resolve) => setImmediate(resolve));
    }
    await mine();
    return promise;
}

async function viemChecks() {
    const abi = parseAbi(ABI);
    const account = privateKeyToAccount(KEY);
    const requested = [];
    const refused = [];
    let largestBatch = 1;
    const fetchFn = (url, init) => {
        const body = JSON.parse(init.body);
        if (Array.isArray(body)) largestBatch = Math.max(largestBatch, body.length);
        return fetch(url, init);
    };
    const transport = (options) => {
        const reads = http(route, { fetchFn })(options);
        const writes = http(node)(options);
        const request = async (call, more) => {
            if (call.method === "eth_sendRawTransaction") return writes.request(call, more);
            requested.push(call.method);
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
    const mineAndGetReceipt = (hash) => {
        const before = requested.length;
        const isWaiting = () => requested.slice(before).includes("eth_getTransactionReceipt");
        return minedMeanwhile(reader.waitForTransactionReceipt({ hash }), isWaiting);
    };

    assert.equal(await reader.getChainId(), 2020);
    assert.equal(await reader.getBlockNumber(), 0n);
    checked("the chain's id and head");

    const created = await wallet.deployContract({ abi, bytecode: creation });
    const address = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
    assert.equal(await reader.getCode({ address, ...pending }), runtime);
    assert.equal(await reader.getCode({ address }), undefined);
    checked("the code of a queued contract is visible under `pending` only");

    const deployment = await mineAndGetReceipt(created);
    assert.equal(deployment.status, "success");
    assert.equal(deployment.contractAddress, address.toLowerCase());
    assert.equal(deployment.blockNumber, 1n);
    await eventually(() => reader.getCode({ address }), runtime);
    checked("waitForTransactionReceipt sees a contract's creation");

    const spend = { address, abi, functionName: "spend", args: [RECIPIENT, 1n] };
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
    checked("revert reasons and custom errors reach the caller");

    const nonce = await reader.getTransactionCount({ address: account.address });
    assert.equal(nonce, 1);
    const stored = await wallet.writeContract({ address, abi, functionName: "store", args: [42n] });
    const sent = await wallet.sendTransaction({ to: RECIPIENT, value: parseEther("1") });
    const count = (block) => reader.getTransactionCount({ address: account.address, ...block });
    await eventually(() => count(pending), 3);
    assert.equal(await count(latest), 1);
    checked("a nonce counts two queued transactions under `pending`");

    const balance = (block) => reader.getBalance({ address: RECIPIENT, ...block });
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

    const transfer = { account, to: RECIPIENT, value: 1n };
    assert.equal(await reader.estimateGas(transfer), 21000n);
    const nodeClient = createPublicClient({ chain, transport: http(node) });
    const spendCall = { ...spend, account };
    const gas = await nodeClient.estimateContractGas(spendCall);
    await eventually(() => reader.estimateContractGas(spendCall), gas);
    checked("gas estimate of a call that needs queued state");

    // viem reads the pending block without a tag and adds 20 % to its base fee.
    const { maxFeePerGas, maxPriorityFeePerGas } = await reader.estimateFeesPerGas();
    assert.equal(maxPriorityFeePerGas, GWEI);
    assert.equal(maxFeePerGas, block.baseFeePerGas * 12n / 10n + GWEI);
    assert.equal(await reader.getGasPrice(), await nodeClient.getGasPrice());
    const history = { blockCount: 2, rewardPercentiles: [60] };
    assert.deepEqual(await reader.getFeeHistory(history), await nodeClient.getFeeHistory(history));
    checked("estimateFeesPerGas, gas price and fee history");

    const event = abi.find((item) => item.name === "Stored");
    const logs = (range) => reader.getLogs({ address, event, ...range });
    assert.deepEqual(await logs(), []);
    const receipt = await mineAndGetReceipt(stored);
    assert.deepEqual([receipt.status, receipt.blockNumber, receipt.logs.length], ["success", 2n, 1]);
    const [log, ...others] = await logs({ fromBlock: 2n, toBlock: 2n });
    assert.deepEqual([log.args, log.transactionHash, others], [{ value: 42n }, stored, []]);
    const found = async () => (await logs()).map((log) => log.transactionHash);
    await eventually(found, [stored]);
    checked("logs are visible once their transaction is mined");

    await eventually(() => balance(latest), parseEther("1"));
    await eventually(() => word(latest), 42n);
    await eventually(() => count(latest), 3);
    checked("pending state becomes latest once mined");

    // viem tries this method before it fills a transaction itself.
    assert.deepEqual([...new Set(refused)], ["eth_fillTransaction"]);
}

async function ethersChecks() {
    const requested = [];
    const refused = [];
    let largestBatch = 1;
    const nodeClient = new ethers.JsonRpcProvider(node);
    class Split extends ethers.JsonRpcProvider {
        async send(method, params) {
            const isWrite = method === "eth_sendRawTransaction";
            return isWrite ? nodeClient.send(method, params) : super.send(method, params);
        }

        async _send(payload) {
            const calls = [payload].flat();
            requested.push(...calls.map((call) => call.method));
            if (Array.isArray(payload)) largestBatch = Math.max(largestBatch, payload.length);
            const responses = await super._send(payload);
            for (const { id, error } of responses) {
                if (error?.code === -32601) refused.push(calls.find((call) => call.id === id).method);
            }
            return responses;
        }
    }
    const provider = new Split(route);
    // The default of 4 s would slow the test down.
    provider.pollingInterval = 250;
    const wallet = new ethers.Wallet(KEY, provider);
    // ethers looks for a receipt at each block after the first head that it reads. So the test mines the block after
    // that read, which has happened when ethers requests the head again.
    const mineAndGetReceipt = (wait) => {
        const before = requested.length;
        const isWaiting = () => {
            const heads = requested.slice(before).filter((method) => method === "eth_blockNumber");
            return requested.slice(before).includes("eth_getTransactionReceipt") && heads.length > 3;
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
    checked("the code of a queued contract is visible under `pending` only");

    const deployment = await mineAndGetReceipt(() => contract.deploymentTransaction().wait());
    assert.deepEqual([deployment.status, deployment.contractAddress], [1, address]);
    assert.equal(deployment.blockNumber, 1);
    await eventually(() => provider.getCode(address), runtime);
    checked("wait() sees a contract's creation");

    const reverted = (call) => call.then(() => assert.fail("it did not revert"), (error) => error);
    for (const call of [contract.spend(RECIPIENT, 1n), contract.spend.estimateGas(RECIPIENT, 1n)]) {
        const { code, reason } = await reverted(call);
        assert.deepEqual([code, reason], ["CALL_EXCEPTION", "nothing stored"]);
    }
    const { revert } = await reverted(contract.refuse(1n, 2n, 3n));
    assert.deepEqual([revert.name, [...revert.args]], ["Refused", [0n]]);
    checked("revert reasons and custom errors reach the caller");

    // ethers caches a nonce for 250 ms, so the nonces are explicit.
    const stored = await contract.store(42n, { nonce: 1 });
    const sent = await wallet.sendTransaction({ to: RECIPIENT, value: ethers.parseEther("1"), nonce: 2 });
    const count = (tag) => provider.getTransactionCount(wallet.address, tag);
    await eventually(() => count("pending"), 3);
    assert.equal(await count("latest"), 1);
    checked("a nonce counts two queued transactions under `pending`");

    const balance = (tag) => provider.getBalance(RECIPIENT, tag);
    const ether = ethers.parseEther("1");
    assert.deepEqual(await Promise.all([balance("pending"), balance("latest")]), [ether, 0n]);
    checked("a queued transfer changes the balance under `pending` only");

    const word = (blockTag) => contract.stored({ blockTag });
    assert.deepEqual(await Promise.all([word("pending"), word("latest")]), [42n, 0n]);
    const slot = (tag) => provider.getStorage(address, 0, tag);
    const [pendingSlot, latestSlot] = await Promise.all([slot("pending"), slot("latest")]);
    assert.deepEqual([BigInt(pendingSlot), BigInt(latestSlot)], [42n, 0n]);
    checked("a call and a storage slot see a queued write under `pending` only");

    assert.equal(await provider.estimateGas({ from: wallet, to: RECIPIENT, value: 1n }), 21000n);
    const spend = { from: wallet.address, ...(await contract.spend.populateTransaction(RECIPIENT, 1n)) };
    const gas = await nodeClient.estimateGas(spend);
    await eventually(() => provider.estimateGas(spend), gas);
    checked("gas estimate of a call that needs queued state");

    const block = await provider.getBlock("pending");
    assert.deepEqual(new Set(block.transactions), new Set([stored.hash, sent.hash]));
    assert.equal((await provider.getTransaction(sent.hash)).blockHash, null);
    checked("the pending block lists the queued transactions");

    // ethers doubles the newest block's base fee.
    const { baseFeePerGas } = await nodeClient.getBlock("latest");
    const fees = await provider.getFeeData();
    assert.equal(fees.maxPriorityFeePerGas, GWEI);
    assert.equal(fees.maxFeePerGas, baseFeePerGas * 2n + GWEI);
    assert.equal(fees.gasPrice, BigInt(await nodeClient.send("eth_gasPrice", [])));
    checked("getFeeData");

    // ethers tries to create a filter first, and polls for logs if the node rejects that.
    const eventValue = new Promise((resolve) => contract.once("Stored", resolve));
    assert.deepEqual(await contract.queryFilter("Stored"), []);
    const receipt = await mineAndGetReceipt(() => provider.waitForTransaction(stored.hash));
    assert.deepEqual([receipt.status, receipt.blockNumber, receipt.logs.length], [1, 2, 1]);
    const [log, ...others] = await contract.queryFilter("Stored", 2, 2);
    assert.deepEqual([[...log.args], log.transactionHash, others], [[42n], stored.hash, []]);
    assert.equal((await sent.wait()).status, 1);
    checked("logs are visible once their transaction is mined");
    assert.equal(await eventValue, 42n);
    checked("an event listener is called");

    await eventually(() => balance("latest"), ether);
    await eventually(() => word("latest"), 42n);
    await eventually(() => count("latest"), 3);
    checked("pending state becomes latest once mined");

    assert.deepEqual([...new Set(refused)], ["eth_newFilter"]);
    assert(largestBatch >= 2, "nothing was sent in a batch");
    checked(`batches of up to ${largestBatch} calls`);
    provider.destroy();
    nodeClient.destroy();
}

async function ethers5Checks() {
    const { JsonRpcBatchProvider } = await import("@ethersproject/providers");
    const provider = new JsonRpcBatchProvider(route, 2020);
    // Calls of the same turn are sent in one batch, however many they are.
    const read = (count) => {
        const reads = Array.from({ length: count }, () => provider.send("eth_chainId", []));
        return Promise.allSettled(reads);
    };
    assert.deepEqual(new Set((await read(100)).map(({ value }) => value)), new Set(["0x7e4"]));
    checked("a batch of 100 calls");

    const errors = (await read(150)).map(({ reason }) => [reason?.code, reason?.message]);
    const message = "a batch may have at most 100 calls, not 150";
    assert.deepEqual(errors, Array(150).fill([-32600, message]));
    assert.equal((await read(1))[0].value, "0x7e4");
    checked("each of 150 calls in a batch gets an error, and the next call works");
}

async function web3Checks() {
    const { Web3 } = await import("web3");
    const web3 = new Web3(route);
    const wallet = new Web3(node);
    const { address } = web3.eth.accounts.privateKeyToAccount(KEY);

    assert.equal(await web3.eth.getChainId(), 2020n);
    assert.equal(await web3.eth.net.isListening(), true);
    assert.equal(await web3.eth.isSyncing(), false);
    assert.match(await web3.eth.getNodeInfo(), /^gas-suggestion\//);
    checked("the client connects");

    const gas = { gas: 21_000n, maxPriorityFeePerGas: 20n * GWEI, maxFeePerGas: 40n * GWEI };
    const nonce = await web3.eth.getTransactionCount(address, "pending");
    const transaction = { ...gas, to: RECIPIENT, value: 7n, chainId: 2020n, nonce };
    const { rawTransaction } = await web3.eth.accounts.signTransaction(transaction, KEY);
    const sent = wallet.eth.sendSignedTransaction(rawTransaction);
    await new Promise((resolve) => sent.once("transactionHash", resolve));
    await mine();
    const { transactionHash, blockHash, blockNumber } = await sent;
    checked("a signed transaction is mined");

    await eventually(() => web3.eth.getBalance(RECIPIENT), 7n);
    assert.equal((await web3.eth.getTransactionReceipt(transactionHash)).blockHash, blockHash);
    assert.equal((await web3.eth.getBlock(blockHash)).number, blockNumber);
    assert.equal(await web3.eth.getBlockTransactionCount(blockHash), 1n);
    assert.equal((await web3.eth.getTransactionFromBlock(blockHash, 0)).hash, transactionHash);
    assert.equal((await web3.eth.getProof(RECIPIENT, [`0x${"0".repeat(64)}`], blockNumber)).balance, 7n);
    checked("blocks, transactions and proofs by hash and number");

    const batch = new web3.BatchRequest();
    const replies = [1, 2, 3].map((id) => batch.add({ jsonrpc: "2.0", id, method: "eth_chainId", params: [] }));
    await batch.execute();
    assert.deepEqual(await Promise.all(replies), Array(3).fill("0x7e4"));
    checked("a batch");
}

const runs = {
    viem: viemChecks,
    ethers: ethersChecks,
    "ethers-5": ethers5Checks,
    web3: web3Checks,
};
setTimeout(() => {
    console.error(`${client} timed out`);
    process.exit(1);
}, 3 * DEADLINE_MS).unref();
await runs[client]();
