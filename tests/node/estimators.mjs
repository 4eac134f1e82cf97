// Prints the fee estimates of web3 libraries: `node estimators.mjs viem|ethers WINDOWS`.
//
// WINDOWS is a file with a list of windows, written by backtest/src/external_programs.rs. For each window, the library
// estimates the fees with a mock node at the window's newest block, and the script prints a line with its tip and max
// fee.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const [, , library, path] = process.argv;
const windows = JSON.parse(readFileSync(path, "utf8"));
let window;

const HASH = `0x${"11".repeat(32)}`;
const ADDRESS = `0x${"22".repeat(20)}`;

function block() {
    return {
        number: "0x10", hash: HASH, parentHash: HASH, timestamp: "0x60000000", nonce: "0x0000000000000000",
        difficulty: "0x0", gasLimit: "0x1c9c380", gasUsed: "0xe4e1c0", stateRoot: HASH, receiptsRoot: HASH,
        transactionsRoot: HASH, sha3Uncles: HASH, logsBloom: `0x${"00".repeat(256)}`, miner: ADDRESS,
        extraData: "0x", size: "0x220", mixHash: HASH, uncles: [], transactions: [],
        baseFeePerGas: window.baseFee,
    };
}

function respond({ id, method }) {
    const results = {
        eth_chainId: () => "0x1",
        eth_blockNumber: () => "0x10",
        eth_getBlockByNumber: block,
        eth_maxPriorityFeePerGas: () => window.tip,
        eth_gasPrice: () => `0x${(BigInt(window.baseFee) + BigInt(window.tip)).toString(16)}`,
    };
    assert(method in results, `unexpected method ${method}`);
    return { jsonrpc: "2.0", id, result: results[method]() };
}

const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const call = JSON.parse(Buffer.concat(parts));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(Array.isArray(call) ? call.map(respond) : respond(call)));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}`;

const estimators = {
    async viem() {
        const { createPublicClient, http } = await import("viem");
        const client = createPublicClient({ transport: http(url), cacheTime: 0 });
        return () => client.estimateFeesPerGas();
    },
    async ethers() {
        const { JsonRpcProvider } = await import("ethers");
        // The cache would return results of the previous window.
        const provider = new JsonRpcProvider(url, 1, { staticNetwork: true, cacheTimeout: -1, batchMaxCount: 1 });
        return () => provider.getFeeData();
    },
};

const fees = await estimators[library]();
for (window of windows) {
    const { maxPriorityFeePerGas, maxFeePerGas } = await fees();
    console.log(`${maxPriorityFeePerGas} ${maxFeePerGas}`);
}
server.closeAllConnections();
server.close();
process.exit(0);
