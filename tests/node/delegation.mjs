// Claims with delegations as applications do. Each command prints one JSON object or fails:
//
// - `deploy-claim NODE`: deploys docs/examples/Claim.sol. Prints `{"address"}`.
// - `claim NODE CLAIM CALLER VAULT`: claims for VAULT, or for CALLER if VAULT is `0x0`. Prints
//   `{"claimed": true, "for"}`, or `{"claimed": false, "reason"}` when the contract reverts with a reason.
//
// NODE is an anvil that mines automatically.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import * as ethers from "ethers";

// Timeout for every awaited event.
const DEADLINE_MS = 60_000;

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

const commands = {
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
