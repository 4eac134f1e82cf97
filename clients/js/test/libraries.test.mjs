// viem and ethers as in the README, with transactions on a real node.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { JsonRpcProvider, Wallet } from "ethers";
import { gasSuggestionPlugin } from "gas-suggestion/ethers";
import { gasFees } from "gas-suggestion/viem";
import { createPublicClient, createWalletClient, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { mainnet } from "viem/chains";

import {
    Service, binary, chainSection, folder, installed, nowhere, readmeBlock, serve, startAnvil, stopAll, until,
} from "./rig.mjs";

// Anvil's first account.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const folderUrl = new URL("readme/", installed);

let anvil, legacy, service, away;
before(async () => {
    mkdirSync(fileURLToPath(folderUrl), { recursive: true });
    anvil = await startAnvil(1);
    legacy = await startAnvil(1, "--hardfork", "berlin");
    const config = chainSection("ethereum", 1, anvil.url) + chainSection("legacy", 2, legacy.url);
    await anvil.call("anvil_mine", "0x3");
    // The service checks the chain id of its nodes.
    await legacy.call("anvil_setChainId", 2);
    service = await Service.start({ binary, folder, config });
    away = await nowhere();
});
after(stopAll);

// Writes the block of the README with these addresses as a module that exports `names`, and imports it.
let count = 0;
async function readme(heading, names, { url = service.url, node = anvil.url, chain = "ethereum" } = {}) {
    const text = readmeBlock(heading, "js")
        .replaceAll("http://localhost:8080", url).replaceAll("http://localhost:8545", node)
        .replaceAll("chain: 'ethereum'", `chain: '${chain}'`);
    const file = new URL(`block-${(count += 1)}.mjs`, folderUrl);
    writeFileSync(file, `${text}\nexport { ${names} }\n`);
    return import(file);
}

// Runs `run` and returns what it writes to the console.
async function captured(run) {
    const { log, warn } = console;
    const written = { logs: [], warnings: [] };
    console.log = (...values) => written.logs.push(values);
    console.warn = (...values) => written.warnings.push(values);
    try {
        await run(written);
    } finally {
        Object.assign(console, { log, warn });
    }
    return written;
}

// Returns the fees of a transaction as the node has them.
async function feesOf(hash, node = anvil) {
    const { maxFeePerGas, maxPriorityFeePerGas, gasPrice, type } = await node.call("eth_getTransactionByHash", hash);
    return type === "0x0" ? [BigInt(gasPrice)] : [BigInt(maxFeePerGas), BigInt(maxPriorityFeePerGas)];
}

// Returns the suggested fees.
async function suggested(chain = "ethereum") {
    const { medium } = await (await fetch(`${service.url}/v1/${chain}/gas-suggestion`)).json();
    return [BigInt(medium.max_fee_per_gas), BigInt(medium.max_priority_fee_per_gas)];
}

// Waits until the service has read the newest block.
async function upToDate(node = anvil, chain = "ethereum") {
    const head = String(BigInt(await node.call("eth_blockNumber")));
    for (const deadline = Date.now() + 20_000; ; ) {
        const response = await fetch(`${service.url}/v1/${chain}/gas-suggestion`);
        if (response.headers.get("x-newest-block") === head) return;
        assert.ok(Date.now() < deadline, `the service does not reach block ${head}`);
    }
}

async function viemSend({ chain, transport }) {
    const wallet = createWalletClient({ account: privateKeyToAccount(KEY), chain, transport });
    const hash = await wallet.sendTransaction({ to: TO, value: 1n });
    const receipt = await createPublicClient({ chain, transport }).waitForTransactionReceipt({ hash, pollingInterval: 50 });
    assert.equal(receipt.status, "success");
    return hash;
}

async function ethersSend({ provider }) {
    provider.pollingInterval = 50;
    const transaction = await new Wallet(KEY, provider).sendTransaction({ to: TO, value: 1n });
    assert.equal((await transaction.wait()).status, 1);
    return transaction.hash;
}

const LIBRARIES = [["viem and wagmi", "chain, transport", viemSend], ["ethers", "provider", ethersSend]];

for (const [heading, names, send] of LIBRARIES) {
    test(`${heading}: a transaction pays the suggestion`, async () => {
        await upToDate();
        const expected = await suggested();
        let hash;
        const written = await captured(async () => {
            hash = await send(await readme(heading, names));
        });
        assert.deepEqual(await feesOf(hash), expected);
        const { maxFeePerGas, maxPriorityFeePerGas } = written.logs[0][0];
        assert.deepEqual([maxFeePerGas, maxPriorityFeePerGas], expected);
        assert.deepEqual(written.warnings, []);
    });

    test(`${heading}: without the service the node sets the fees, with one warning`, async () => {
        let hash, own;
        // The README reads the fees once, before the transaction.
        const written = await captured(async () => {
            const block = await readme(heading, names, { url: away });
            own = await ownEstimate[heading]();
            hash = await send(block);
        });
        assert.deepEqual(await feesOf(hash), own);
        assert.equal(written.warnings.length, 1, String(written.warnings));
        const [text, error] = written.warnings[0];
        assert.equal(text, "no gas suggestion, the node sets the fees:");
        assert.equal(error.code, "network_error");
    });
}

// The estimates of the libraries without the package.
const ownEstimate = {
    async "viem and wagmi"() {
        const client = createPublicClient({ chain: mainnet, transport: http(anvil.url) });
        const { maxFeePerGas, maxPriorityFeePerGas } = await client.estimateFeesPerGas();
        return [maxFeePerGas, maxPriorityFeePerGas];
    },
    async ethers() {
        const provider = new JsonRpcProvider(anvil.url, 1, { staticNetwork: true });
        const { maxFeePerGas, maxPriorityFeePerGas } = await provider.getFeeData();
        return [maxFeePerGas, maxPriorityFeePerGas];
    },
};

test("legacy chains get a gas price", async () => {
    const options = { node: legacy.url, chain: "legacy" };
    await upToDate(legacy, "legacy");
    const [price] = await suggested("legacy");
    const written = await captured(async () => {
        await readme("ethers", "provider", options);
    });
    assert.equal(written.logs[0][0].gasPrice, price);
    assert.equal(written.logs[0][0].maxFeePerGas, null);
});

test("viem keeps fees that a transaction has", async () => {
    let block;
    await captured(async () => {
        block = await readme("viem and wagmi", "chain, transport");
    });
    const { estimateFeesPerGas } = block.chain.fees;
    const [maxFeePerGas, maxPriorityFeePerGas] = await suggested();
    assert.deepEqual(await estimateFeesPerGas({ type: "legacy" }), { gasPrice: maxFeePerGas });
    const own = { maxFeePerGas: 7n };
    assert.deepEqual(await estimateFeesPerGas({ type: "eip1559", request: own }), { ...own, maxPriorityFeePerGas });
});

test("the tier can be chosen", async () => {
    const tier = (price) => ({ max_fee_per_gas: `${price}`, max_priority_fee_per_gas: `${price - 1}` });
    const body = { chain_name: "a", type: "eip-1559", base_fee_per_gas: "0", medium: tier(5), high: tier(9) };
    const { url } = await serve((_, response) => {
        response.writeHead(200, { "X-Newest-Block": 1, "Age": 0 }).end(JSON.stringify(body));
    });
    for (const [options, price] of [[{}, 5n], [{ tier: "medium" }, 5n], [{ tier: "high" }, 9n]]) {
        const all = { url, chain: "a", ...options };
        const fees = { maxFeePerGas: price, maxPriorityFeePerGas: price - 1n };
        assert.deepEqual(await gasFees(all).estimateFeesPerGas({ type: "eip1559" }), fees);
        assert.deepEqual(await gasSuggestionPlugin(all).processFunc(), { gasPrice: price, ...fees });
    }
});

test("the snippets of the client run as they are", async () => {
    await upToDate();
    const fees = await captured(() => readme("Fees", "gas"));
    assert.match(fees.logs[0][0], /^\d+(\.\d+)? gwei, \d+ s old$/);
    const without = await captured(() => readme("Errors", "gas", { url: away }));
    assert.equal(without.logs[0][0], "let the node decide");
    const stream = await captured(async ({ logs }) => {
        const { unsubscribe } = await readme("Follow the chain", "unsubscribe");
        await until(() => logs.length, (length) => length > 0);
        unsubscribe();
    });
    assert.equal(stream.logs[0].length, 2);
    assert.equal(stream.logs[0][0], Number(await anvil.call("eth_blockNumber")));
});
