// A user operation of a smart account, sent with permissionless to the bundler Alto, whose only node is the service:
// `node user-operation.mjs SETTINGS`, where SETTINGS is JSON with the URL of the service's `rpc` route, that of the
// `node` behind it, that of the `suggestion`, and a free `port` for the bundler.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { createSmartAccountClient } from "permissionless";
import { toSimpleSmartAccount } from "permissionless/accounts";
import { createPimlicoClient } from "permissionless/clients/pimlico";
import { createPublicClient, createTestClient, createWalletClient, http, parseEther } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { ronin } from "viem/chains";

import { until } from "../browser.mjs";

const { rpc, node, suggestion, port } = JSON.parse(process.argv[2]);
const DEADLINE_MS = 60_000;
const ALTO = fileURLToPath(new URL("node_modules/@pimlico/alto/esm/cli/alto.js", import.meta.url));
const BUNDLER = `http://127.0.0.1:${port}`;
const RECIPIENT = "0x00000000000000000000000000000000c0ffee00";

// The chain as seen at the node, where this script prepares it.
const direct = { chain: ronin, transport: http(node), pollingInterval: 50 };
const chain = createPublicClient(direct);

// Returns a new account with 100 coins, and its key.
async function funded() {
    const key = generatePrivateKey();
    const account = privateKeyToAccount(key);
    const anvil = createTestClient({ ...direct, mode: "anvil" });
    await anvil.setBalance({ address: account.address, value: parseEther("100") });
    return { key, account };
}

// Deploys a contract of ERC-4337 0.7 and returns its address.
async function deploy({ account }, name, args) {
    const file = `node_modules/@account-abstraction/contracts/artifacts/${name}.json`;
    const { abi, bytecode } = JSON.parse(readFileSync(new URL(file, import.meta.url)));
    const hash = await createWalletClient({ ...direct, account }).deployContract({ abi, bytecode, args });
    return (await chain.waitForTransactionReceipt({ hash })).contractAddress;
}

// Starts Alto with these keys for its bundles and for its own contracts. Ready when this returns.
async function startBundler(entryPoint, executor, utility) {
    const options = {
        "rpc-url": rpc, "port": port, "entrypoints": entryPoint, "executor-private-keys": executor.key,
        "utility-private-key": utility.key, "deploy-simulations-contract": true, "safe-mode": false, "block-time": 200,
        "log-level": "warn", "json": true,
    };
    const more = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    // Its environment could hold further options.
    const bundler = spawn(process.execPath, [ALTO, "run", ...more], { stdio: ["ignore", "pipe", "pipe"], env: {} });
    const ended = once(bundler, "exit");
    after(async () => {
        bundler.kill("SIGKILL");
        await ended;
    });
    let log = "";
    for (const stream of [bundler.stdout, bundler.stderr]) stream.on("data", (bytes) => (log += bytes));
    await until(
        () => fetch(`${BUNDLER}/health`).then(({ status }) => status, (error) => error.message),
        (status) => {
            assert.equal(bundler.exitCode, null, log);
            return status === 200;
        },
    ).catch((error) => assert.fail(`${error.message}\n${log}`));
    return () => log;
}

test("a user operation is mined at the suggested price", { timeout: 150_000 }, async () => {
    const [owner, executor, utility] = await Promise.all([funded(), funded(), funded()]);
    const address = await deploy(owner, "EntryPoint", []);
    const factoryAddress = await deploy(owner, "SimpleAccountFactory", [address]);
    const entryPoint = { address, version: "0.7" };
    const log = await startBundler(address, executor, utility);

    const { medium } = await (await fetch(suggestion)).json();
    const suggested = {
        maxFeePerGas: BigInt(medium.max_fee_per_gas),
        maxPriorityFeePerGas: BigInt(medium.max_priority_fee_per_gas),
    };
    // The service answers what bundlers answer.
    const prices = createPimlicoClient({ transport: http(rpc), entryPoint });
    const { standard } = await prices.getUserOperationGasPrice();
    assert.deepEqual(standard, suggested);

    const account = await toSimpleSmartAccount({
        client: createPublicClient({ chain: ronin, transport: http(rpc) }), owner: owner.account, factoryAddress, entryPoint,
    });
    await createTestClient({ ...direct, mode: "anvil" }).setBalance({ address: account.address, value: parseEther("10") });
    const client = createSmartAccountClient({
        account, chain: ronin, bundlerTransport: http(BUNDLER), pollingInterval: 100,
        userOperation: { estimateFeesPerGas: async () => (await prices.getUserOperationGasPrice()).standard },
    });
    const hash = await client.sendUserOperation({ calls: [{ to: RECIPIENT, value: 42n }] });
    const { success, receipt, actualGasCost, actualGasUsed } = await client.waitForUserOperationReceipt({ hash, timeout: DEADLINE_MS })
        .catch((error) => assert.fail(`${error.message}\n${log()}`));
    assert(success, log());
    assert.equal(await chain.getBalance({ address: RECIPIENT }), 42n);

    const { userOperation } = await client.getUserOperation({ hash });
    assert.equal(userOperation.maxFeePerGas, suggested.maxFeePerGas);
    assert.equal(userOperation.maxPriorityFeePerGas, suggested.maxPriorityFeePerGas);
    // The bundle, too: its tip is what the service answers to `eth_maxPriorityFeePerGas`.
    const bundle = await chain.getTransaction({ hash: receipt.transactionHash });
    assert.equal(bundle.from, executor.account.address.toLowerCase());
    assert.equal(bundle.maxPriorityFeePerGas, suggested.maxPriorityFeePerGas);
    const { baseFeePerGas } = await chain.getBlock({ blockHash: bundle.blockHash });
    const paid = baseFeePerGas + suggested.maxPriorityFeePerGas;
    assert.equal(receipt.effectiveGasPrice, paid);
    assert.equal(actualGasCost, actualGasUsed * paid);
});
