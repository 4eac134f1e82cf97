// What applications do with delegations, each a command that prints one JSON object or fails:
//
// - `ethers-send SERVICE NODE CHAIN REQUEST`, also `ethers-sign` and `viem-send`: asks the service
//   for the transaction of REQUEST on CHAIN, the chain's key, and sends it as it was given. Prints
//   `{"hash", "gasUsed", "gas"}`. `ethers-sign` signs for the first of anvil's accounts alone.
// - `deploy-claim NODE`: deploys docs/examples/Claim.sol. Prints `{"address"}`.
// - `claim NODE CLAIM CALLER VAULT`: claims for VAULT, or for CALLER where it is `0x0`. Prints
//   `{"claimed": true, "for"}`, or `{"claimed": false, "reason"}` when the contract says why not.
//
// NODE is an anvil that mines by itself. The service is asked for nothing but the transaction.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import * as ethers from "ethers";
import { createWalletClient, defineChain, http, transactionType } from "viem";

import { compile } from "./compile.mjs";

// The first of anvil's accounts, which are the same everywhere.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
// Nothing that is waited for takes this long unless it never comes.
const DEADLINE_MS = 20_000;

const FEES = { "0x2": ["maxFeePerGas", "maxPriorityFeePerGas"], "0x0": ["gasPrice"] };
const quantities = (tx) => ["chainId", "value", "gas", ...FEES[tx.type]];

async function transaction(service, chain, request) {
    const reply = await fetch(`${service}/v1/${chain}/delegations/transactions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: request,
    });
    const text = await reply.text();
    assert.equal(reply.status, 200, text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    const tx = JSON.parse(text);
    const first = ["chainId", "from", "to", "data", "value", "type", "gas"];
    assert.deepEqual(Object.keys(tx), [...first, ...(FEES[tx.type] ?? [])]);
    for (const name of quantities(tx)) assert.match(tx[name], /^0x(0|[1-9a-f][0-9a-f]*)$/, name);
    return tx;
}

function connect(node) {
    // A receipt that was missing is asked for again at once.
    return new ethers.JsonRpcProvider(node, undefined, { cacheTimeout: -1 });
}

// ethers itself looks for a receipt at each new block, and the one that it waits for may have come.
async function receiptOf(provider, hash) {
    for (;;) {
        const receipt = await provider.getTransactionReceipt(hash);
        if (receipt) return receipt;
    }
}

const send = (through) => async (service, node, chain, request) => {
    const tx = await transaction(service, chain, request);
    const provider = connect(node);
    const hash = await through(tx, provider, node);
    const { status, gasUsed } = await receiptOf(provider, hash);
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
        // ethers has another name for it, and passes over the one that nodes have.
        const { gas: gasLimit, ...others } = tx;
        return (await wallet.sendTransaction({ ...others, gasLimit })).hash;
    }),

    "viem-send": send((tx, _, node) => {
        const { from: account, to, data, type } = tx;
        const amounts = Object.fromEntries(quantities(tx).map((name) => [name, BigInt(tx[name])]));
        const chain = defineChain({
            id: Number(tx.chainId),
            name: "The chain that the transaction is for",
            nativeCurrency: { name: "RON", symbol: "RON", decimals: 18 },
            rpcUrls: { default: { http: [node] } },
        });
        const wallet = createWalletClient({ account, chain, transport: http() });
        return wallet.sendTransaction({ to, data, type: transactionType[type], ...amounts });
    }),

    async "deploy-claim"(node) {
        const provider = connect(node);
        const example = new URL("../../docs/examples/Claim.sol", import.meta.url);
        const { abi, creation } = compile(fileURLToPath(example)).Claim;
        const factory = new ethers.ContractFactory(abi, creation, await provider.getSigner());
        const { hash } = (await factory.deploy()).deploymentTransaction();
        const { status, contractAddress } = await receiptOf(provider, hash);
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
            const { status, logs } = await receiptOf(provider, hash);
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
    console.error(`${name} did not come to an end`);
    process.exit(1);
}, DEADLINE_MS).unref();
console.log(JSON.stringify(await commands[name](...values)));
