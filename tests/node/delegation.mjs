// Uses delegation as applications do. Each command prints one JSON object or fails:
//
// - `ethers-send SERVICE NODE CHAIN REQUEST`, also `ethers-sign` and `viem-send`: requests the
//   transaction of REQUEST on CHAIN (the chain's key) from the service and sends it unchanged. Prints
//   `{"hash", "gasUsed", "gas"}`. `ethers-sign` signs for anvil's first account only.
// - `deploy-claim NODE`: deploys docs/examples/Claim.sol. Prints `{"address"}`.
// - `claim NODE CLAIM CALLER VAULT`: claims for VAULT, or for CALLER if VAULT is `0x0`. Prints
//   `{"claimed": true, "for"}`, or `{"claimed": false, "reason"}` when the contract reverts with a reason.
//
// NODE is an anvil that mines automatically. Only the request for the transaction goes to the service, all other
// requests go to NODE.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import * as ethers from "ethers";

// Key of anvil's first default account.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
// Timeout for every awaited event.
const DEADLINE_MS = 60_000;

const FEES = { "0x2": ["maxFeePerGas", "maxPriorityFeePerGas"], "0x0": ["gasPrice"] };
const quantities = (tx) => ["chainId", "value", "gas", ...FEES[tx.type]];

async function transaction(service, chain, request) {
    const response = await fetch(`${service}/v1/${chain}/delegations/transactions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: request,
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    assert.equal(response.headers.get("content-type"), "application/json");
    const tx = JSON.parse(text);
    const first = ["chainId", "from", "to", "data", "value", "type", "gas"];
    assert.deepEqual(Object.keys(tx), [...first, ...(FEES[tx.type] ?? [])]);
    for (const name of quantities(tx)) assert.match(tx[name], /^0x(0|[1-9a-f][0-9a-f]*)$/, name);
    return tx;
}

function connect(node) {
    // By default ethers caches responses, and would cache a missing receipt.
    return new ethers.JsonRpcProvider(node, undefined, { cacheTimeout: -1 });
}

// Polls for the receipt, because ethers would wait for the next block, which may never come.
async function waitForReceipt(provider, hash) {
    for (;;) {
        const receipt = await provider.getTransactionReceipt(hash);
        if (receipt) return receipt;
    }
}

const send = (submit) => async (service, node, chain, request) => {
    const tx = await transaction(service, chain, request);
    const provider = connect(node);
    const hash = await submit(tx, provider, node);
    const { status, gasUsed } = await waitForReceipt(provider, hash);
    assert.equal(status, 1);
    const mined = await provider.send("eth_getTransactionByHash", [hash]);
    for (const name of quantities(tx)) assert.equal(mined[name], tx[name], name);
    assert.deepEqual(
        [mined.from, mined.to, mined.input, mined.type],
        [tx.from.toLowerCase(), tx.to.toLowerCase(), tx.data, tx.type],
    );
    return { hash, gasUsed: Number(gasUsed), gas: Number(tx.gas) };
};

const commands = {
    "ethers-send": send((tx, provider) => provider.send("eth_sendTransaction", [tx])),

    "ethers-sign": send(async (tx, provider) => {
        const wallet = new ethers.Wallet(KEY, provider);
        // ethers expects `gasLimit` and ignores `gas`.
        const { gas: gasLimit, ...others } = tx;
        return (await wallet.sendTransaction({ ...others, gasLimit })).hash;
    }),

    "viem-send": send(async (tx, _, node) => {
        // Here, because each command is a process of its own, and its start takes as long as its imports.
        const { createWalletClient, defineChain, http, transactionType } = await import("viem");
        const { from: account, to, data, type } = tx;
        const amounts = Object.fromEntries(quantities(tx).map((name) => [name, BigInt(tx[name])]));
        const chain = defineChain({
            id: Number(tx.chainId),
            name: "Chain of the transaction",
            nativeCurrency: { name: "RON", symbol: "RON", decimals: 18 },
            rpcUrls: { default: { http: [node] } },
        });
        const wallet = createWalletClient({ account, chain, transport: http() });
        return wallet.sendTransaction({ to, data, type: transactionType[type], ...amounts });
    }),

    async "deploy-claim"(node) {
        const { compile } = await import("./compile.mjs");
        const provider = connect(node);
        const example = new URL("../../docs/examples/Claim.sol", import.meta.url);
        const { abi, creation } = compile(fileURLToPath(example)).Claim;
        const factory = new ethers.ContractFactory(abi, creation, await provider.getSigner());
        const { hash } = (await factory.deploy()).deploymentTransaction();
        const { status, contractAddress } = await waitForReceipt(provider, hash);
        assert.equal(status, 1);
        return { address: contractAddress };
    },

    async claim(node, address, caller, vault) {
        const provider = connect(node);
        const abi = [
            "function claim(address vault)",
            "event Claimed(address indexed account, address indexed by)",
        ];
        const contract = new ethers.Contract(address, abi, await provider.getSigner(caller));
        try {
            const { hash } = await contract.claim(ethers.toBeHex(vault, 20));
            const { status, logs } = await waitForReceipt(provider, hash);
            assert.equal(status, 1);
            assert.equal(logs.length, 1);
            const { account, by } = contract.interface.parseLog(logs[0]).args;
            assert.equal(by, ethers.getAddress(caller));
            return { claimed: true, for: account };
        } catch (error) {
            if (error.revert?.name !== "Error") throw error;
            return { claimed: false, reason: error.reason };
        }
    },
};

const [, , name, ...values] = process.argv;
setTimeout(() => {
    console.error(`${name} timed out`);
    process.exit(1);
}, DEADLINE_MS).unref();
console.log(JSON.stringify(await commands[name](...values)));
