// viem and ethers as in the README, with transactions on a real node.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { JsonRpcProvider, Wallet } from "ethers";
import { gasSuggestionPlugin } from "gas-suggestion/ethers";
import { useCost, useSuggestion } from "gas-suggestion/react";
import { gasFees, userOperationFees } from "gas-suggestion/viem";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { createPublicClient, createWalletClient, custom, defineChain, http, publicActions } from "viem";
import { createBundlerClient, toSimple7702SmartAccount } from "viem/account-abstraction";
import { privateKeyToAccount } from "viem/accounts";
import * as chains from "viem/chains";

import {
    Service, binary, chainSection, folder, installed, nowhere, readmeBlock, serve, startAnvil, stopAll, until,
} from "./rig.mjs";

// Anvil's first account.
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const { base, mainnet } = chains;
const folderUrl = new URL("readme/", installed);

let anvil, legacy, service, away;
before(async () => {
    mkdirSync(fileURLToPath(folderUrl), { recursive: true });
    anvil = await startAnvil(1);
    legacy = await startAnvil(1, "--hardfork", "berlin");
    const config = chainSection("ethereum", 1, anvil.url) + chainSection("legacy", 4242, legacy.url);
    await anvil.call("anvil_mine", "0x3");
    // The service checks the chain id of its nodes.
    await legacy.call("anvil_setChainId", 4242);
    service = await Service.start({ binary, folder, config });
    away = await nowhere();
});
after(stopAll);

// Writes the block of the README with these addresses as a module that exports `names`, and imports it.
let count = 0;
async function readme(heading, names, { url = service.url, node = anvil.url, network = "'ethereum', 1" } = {}) {
    const text = readmeBlock(heading, {
        "http://localhost:8080": url, "http://localhost:8545": node, "'ethereum', 1": network,
    });
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

const WARNING = /^no gas suggestion, the node sets the fees: the service is unreachable: fetch failed: [ -~]*ECONNREFUSED[ -~]*$/;
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
        assert.equal(written.warnings[0].length, 1);
        assert.match(written.warnings[0][0], WARNING);
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
    const options = { node: legacy.url, network: "'legacy', 4242" };
    await upToDate(legacy, "legacy");
    const [price] = await suggested("legacy");
    const written = await captured(async () => {
        await readme("ethers", "provider", options);
    });
    assert.equal(written.logs[0][0].gasPrice, price);
    assert.equal(written.logs[0][0].maxFeePerGas, null);
});

test("viem changes neither suggested fees nor those of a transaction", async () => {
    let block;
    await captured(async () => {
        block = await readme("viem and wagmi", "chain, transport");
    });
    const { transport } = block;
    const chain = { ...block.chain, fees: { ...block.chain.fees, baseFeeMultiplier: 5 } };
    const wallet = createWalletClient({ account: privateKeyToAccount(KEY), chain, transport }).extend(publicActions);
    await upToDate();
    const [maxFeePerGas, maxPriorityFeePerGas] = await suggested();
    const fees = { maxFeePerGas, maxPriorityFeePerGas };
    assert.deepEqual(await wallet.estimateFeesPerGas(), fees);
    assert.deepEqual(await wallet.estimateFeesPerGas({ type: "legacy" }), { gasPrice: maxFeePerGas });
    for (const own of [{ maxFeePerGas: 9n, maxPriorityFeePerGas: 8n }, { maxFeePerGas: 10n ** 12n }, { maxPriorityFeePerGas: 7n }]) {
        const prepared = await wallet.prepareTransactionRequest({ to: TO, value: 1n, gas: 21_000n, ...own });
        assert.deepEqual([prepared.maxFeePerGas, prepared.maxPriorityFeePerGas], Object.values({ ...fees, ...own }));
    }
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

// A service of two chains that records what it is asked for. The fees of chain N are N gwei.
async function twoChains() {
    const chains = { 1: 1, ethereum: 1, 8453: 8453, base: 8453 };
    const rig = { paths: [], status: 200 };
    const { url } = await serve((request, response) => {
        const [, , name, route] = request.url.split("/");
        rig.paths.push(`${name}/${route}`);
        const id = chains[name];
        if (!id) return response.writeHead(404).end('{"code":"unknown_chain","detail":"unknown\\nchain"}');
        if (rig.status !== 200) return response.writeHead(rig.status).end("<html>\n<p>Away</p>\n</html>");
        const price = `${id}000000000`;
        const tier = { max_fee_per_gas: price, max_priority_fee_per_gas: price };
        const suggestion = { chain_name: name, type: "eip-1559", base_fee_per_gas: price, medium: tier, high: tier };
        const prices = { low: price, medium: price, high: price };
        const market = { chain_id: id, suggestion, average_base_fee_per_gas: price, expected_price_per_gas: prices };
        response.writeHead(200, { "X-Newest-Block": 1, "Age": 0 });
        return response.end(JSON.stringify(route === "fee-market" ? market : suggestion));
    });
    return Object.assign(rig, { url });
}

// The functions of the package that return the fees for a chain id: `null`, or `NODE` from the node, if there are none.
const NODE = { baseFeePerGas: "0x64", gasPrice: "0x6a" };
const fromNode = { maxFeePerGas: 252n, maxPriorityFeePerGas: 12n };
const nodeOf = (id) => ({
    chain: { id },
    request: async ({ method }) => {
        if (method === "eth_getBlockByNumber") return NODE;
        if (method === "eth_gasPrice") return NODE.gasPrice;
        throw new Error(`the node has no ${method}`);
    },
});
const PLUGINS = {
    gasFees: (options) => {
        const { estimateFeesPerGas } = gasFees(options);
        return (id) => estimateFeesPerGas({ client: nodeOf(id), type: "eip1559" });
    },
    userOperationFees: (options) => {
        const fees = userOperationFees(options);
        return (id) => fees({ bundlerClient: { chain: { id }, client: nodeOf(id) } });
    },
    gasSuggestionPlugin: (options) => {
        const { processFunc } = gasSuggestionPlugin(options);
        return (id) => processFunc(async () => null, { getNetwork: async () => ({ chainId: BigInt(id) }) });
    },
};

for (const [name, plugin] of Object.entries(PLUGINS)) {
    const none = name === "userOperationFees" ? fromNode : null;
    const price = async (fees, id) => (await fees(id))?.maxFeePerGas;

    test(`${name}: the chain is that of the library`, async () => {
        const rig = await twoChains();
        const fees = plugin({ url: rig.url });
        assert.deepEqual([await price(fees, 1), await price(fees, 8453)], [10n ** 9n, 8453n * 10n ** 9n]);
        assert.deepEqual(rig.paths, ["1/gas-suggestion", "8453/gas-suggestion"]);
    });

    test(`${name}: the fees of another chain are refused`, async () => {
        const rig = await twoChains();
        for (const chain of [8453, 8453n, "8453", " 8453 ", "0x2105"]) {
            const fees = plugin({ url: rig.url, chain });
            await assert.rejects(fees(1), /^TypeError: these are the fees of chain 8453, not of chain 1$/);
        }
        assert.deepEqual(rig.paths, []);
        for (const [chain, id, other] of [["base", 8453, 1], ["ethereum", 1, 8453]]) {
            const fees = plugin({ url: rig.url, chain });
            await assert.rejects(fees(other), TypeError);
            await assert.rejects(fees(other), TypeError);
            assert.equal(await price(fees, id), BigInt(id) * 10n ** 9n);
        }
        // The id of a key is requested once.
        assert.equal(rig.paths.filter((path) => path === "base/fee-market").length, 1);
    });

    test(`${name}: a key whose id is not known yet has no fees`, async () => {
        const rig = await twoChains();
        rig.status = 503;
        const fees = plugin({ url: rig.url, chain: "base" });
        await captured(async () => assert.deepEqual(await fees(1), none));
        rig.status = 200;
        await assert.rejects(fees(1), TypeError);
        assert.equal(await price(fees, 8453), 8453n * 10n ** 9n);
    });

    test(`${name}: an outage is one warning of one line for each chain`, async () => {
        const rig = await twoChains();
        const fees = plugin({ url: rig.url });
        const { warnings } = await captured(async () => {
            rig.status = 502;
            for (const id of [1, 1, 8453, 8453, 5]) assert.deepEqual(await fees(id), none);
            rig.status = 200;
            for (const id of [1, 5]) await fees(id);
            rig.status = 500;
            for (const id of [1, 1]) await fees(id);
        });
        const because = (text) => [`no gas suggestion, the node sets the fees: ${text}`];
        const [first, again] = [502, 500].map((status) => because(`${status}: <html> <p>Away</p> </html>`));
        assert.deepEqual(warnings, [first, first, because("404 unknown_chain: unknown chain (chain: `5`)"), again]);
    });

    test(`${name}: options that cannot be right throw a TypeError at once`, () => {
        const { url } = service;
        const wrong = [
            {}, { url: undefined }, { url: "localhost:8080" }, { url, chain: null }, { url, chain: "" }, { url, chain: mainnet },
            { url, tier: "low" }, { url, tier: null }, { url, timeout: 0 }, { url, fetch: "fetch" },
        ];
        for (const options of wrong) assert.throws(() => plugin(options), TypeError, JSON.stringify(options.url));
        assert.throws(() => plugin(), TypeError);
    });
}

test("viem: the chain is that of the request, of the client, or of the node", async () => {
    const rig = await twoChains();
    const fees = gasFees({ url: rig.url });
    const chain = defineChain({ ...base, fees });
    const methods = [];
    const transport = custom({
        async request({ method, params }) {
            methods.push(method);
            if (method === "eth_chainId") return "0x2105";
            if (method === "eth_getBlockByNumber") return { baseFeePerGas: "0x64", number: "0x1", transactions: [] };
            throw new Error(`${method} ${params}`);
        },
    });
    // A wallet that was made without a chain.
    const wallet = createWalletClient({ account: privateKeyToAccount(KEY), transport });
    const request = { chain, to: TO, value: 1n, nonce: 0, gas: 21_000n, type: "eip1559" };
    const { maxFeePerGas } = await wallet.prepareTransactionRequest(request);
    assert.equal(maxFeePerGas, 8453n * 10n ** 9n);
    assert.deepEqual(rig.paths, ["8453/gas-suggestion"]);
    methods.length = 0;
    await fees.estimateFeesPerGas({ client: wallet, type: "eip1559" });
    assert.deepEqual(methods, ["eth_chainId"]);
    assert.equal(rig.paths.length, 2);
    await assert.rejects(fees.estimateFeesPerGas({ type: "eip1559" }), /^TypeError: chain is required/);
    assert.ok(await gasFees({ url: rig.url, chain: "base" }).estimateFeesPerGas({ type: "eip1559" }));
});

// A node of any chain whose fees depend on the token and on the data. It records the methods that it is asked for.
function nodeOfTokens() {
    const methods = [];
    const transport = custom({
        async request({ method, params = [] }) {
            methods.push(method);
            if (method === "eth_getBlockByNumber") return { baseFeePerGas: "0x64", number: "0x1", transactions: [] };
            if (method === "eth_gasPrice") return params[0] ? "0x1000000" : "0x6a";
            if (method === "eth_maxPriorityFeePerGas") return params[0] ? "0x1234" : "0x7";
            if (method === "linea_estimateGas") {
                const { from, to, data = "0x", value = "0x0" } = params[0];
                assert.deepEqual([from.toLowerCase(), to], [privateKeyToAccount(KEY).address.toLowerCase(), TO]);
                const priorityFeePerGas = `0x${(1000 + data.length + Number(value)).toString(16)}`;
                return { baseFeePerGas: "0x65", gasLimit: "0x5208", priorityFeePerGas };
            }
            throw new Error(`the node has no ${method}`);
        },
    }, { retryCount: 0 });
    return { methods, transport };
}

test("the fees that viem has for a chain are kept where they read the transaction", async () => {
    const body = (price) => ({ max_fee_per_gas: `${price}`, max_priority_fee_per_gas: "1" });
    const suggestion = { chain_name: "a", type: "eip-1559", base_fee_per_gas: "0", medium: body(5), high: body(9) };
    const { url } = await serve((_, response) => {
        response.writeHead(200, { "X-Newest-Block": 1, "Age": 0 }).end(JSON.stringify(suggestion));
    });
    const account = privateKeyToAccount(KEY);
    // Returns the fees of a transaction with these members, and the methods that the node is asked for.
    const feesOn = async (chain, members) => {
        const { methods, transport } = nodeOfTokens();
        const client = createWalletClient({ account, chain, transport });
        const request = { to: TO, value: 1n, nonce: 0, gas: 21_000n, type: "eip1559", ...members };
        const { maxFeePerGas, maxPriorityFeePerGas } = await client.prepareTransactionRequest(request);
        return { fees: [maxFeePerGas, maxPriorityFeePerGas], methods };
    };
    const FEE_CURRENCY = { feeCurrency: TO };
    const DATA = { data: `0x${"ab".repeat(5000)}` };
    const EXPECTED = [5n, 1n];
    const kept = {};
    for (const [name, chain] of Object.entries(chains).filter(([, chain]) => chain.fees)) {
        const ours = { ...chain, fees: gasFees({ url }) };
        const kinds = { plain: {}, data: DATA, ...(name.startsWith("celo") && { feeCurrency: FEE_CURRENCY }) };
        const theirs = [];
        for (const [kind, members] of Object.entries(kinds)) {
            const { fees, methods } = await feesOn(ours, members);
            const own = await feesOn(chain, members);
            if (String(fees) === String(EXPECTED)) continue;
            assert.deepEqual(fees, own.fees, `${name}, ${kind}`);
            if (kind === "data") assert.ok(methods.includes("linea_estimateGas"), name);
            theirs.push(kind);
        }
        // Without the service all are viem's.
        const without = { ...chain, fees: gasFees({ url: away }) };
        for (const members of Object.values(kinds)) {
            await captured(async () => {
                assert.deepEqual((await feesOn(without, members)).fees, (await feesOn(chain, members)).fees, name);
            });
        }
        kept[name] = theirs.join();
    }
    const celo = Object.fromEntries(["celo", "celoAlfajores", "celoSepolia"].map((name) => [name, "feeCurrency"]));
    const linea = ["linea", "lineaSepolia", "statusNetworkSepolia", "statusSepolia"].map((name) => [name, "data"]);
    const hyper = ["hyperEvm", "hyperliquid", "hyperliquidEvmTestnet"].map((name) => [name, ""]);
    assert.deepEqual(kept, { ...celo, ...Object.fromEntries([...linea, ...hyper]) });
});

// A bundler that records user operations. The account's code and nonce are its own, so no entry point is needed.
async function bundler() {
    const operations = [];
    const gas = { preVerificationGas: "0x1", verificationGasLimit: "0x1", callGasLimit: "0x1" };
    const { url } = await serve(async (request, response) => {
        let text = "";
        for await (const chunk of request) text += chunk;
        const { id, method, params } = JSON.parse(text);
        if (method === "eth_sendUserOperation") operations.push(params[0]);
        const results = { eth_sendUserOperation: `0x${"1".repeat(64)}`, eth_estimateUserOperationGas: gas, eth_chainId: "0x1" };
        const result = results[method];
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error: { code: -32601, message: method } }) }));
    });
    const client = createPublicClient({ chain: mainnet, transport: http(anvil.url) });
    const account = await toSimple7702SmartAccount({ client, owner: privateKeyToAccount(KEY), getNonce: async () => 0n });
    const send = async (options, more, config = { client }) => {
        const userOperation = { estimateFeesPerGas: userOperationFees(options) };
        const { sendUserOperation } = createBundlerClient({ account, ...config, transport: http(url), userOperation });
        const parameters = ["fees", "gas", "nonce", "signature"];
        await sendUserOperation({ calls: [{ to: TO, value: 1n }], parameters, ...more });
        const { maxFeePerGas, maxPriorityFeePerGas } = operations.at(-1);
        return [BigInt(maxFeePerGas), BigInt(maxPriorityFeePerGas)];
    };
    return { client, account, send };
}

test("a user operation pays the suggestion", async () => {
    await upToDate();
    const expected = await suggested();
    const { send } = await bundler();
    assert.deepEqual(await send({ url: service.url }), expected);
    assert.deepEqual(await send({ url: service.url }, { maxFeePerGas: 10n ** 12n }), [10n ** 12n, expected[1]]);
    assert.deepEqual(await send({ url: service.url }, { maxPriorityFeePerGas: 7n }), [expected[0], 7n]);
    await assert.rejects(send({ url: service.url, chain: "legacy" }), /these are the fees of chain 4242, not of chain 1/);
});

test("without the service a user operation pays what viem estimates, with one warning", async () => {
    const { client, account, send } = await bundler();
    const plain = createBundlerClient({ account, client, transport: http("http://localhost:1") });
    const own = await plain.prepareUserOperation({ calls: [{ to: TO, value: 1n }], parameters: ["fees"] });
    // Without a client of its own, the account's is the node.
    for (const config of [{ client }, { chain: mainnet }]) {
        let fees;
        const { warnings } = await captured(async () => {
            fees = await send({ url: away }, {}, config);
        });
        assert.deepEqual(fees, [own.maxFeePerGas, own.maxPriorityFeePerGas]);
        assert.equal(warnings.length, 1);
        assert.match(warnings[0][0], WARNING);
    }
});

test("a user operation pays what nodes without tips or without EIP-1559 allow", async () => {
    const fees = userOperationFees({ url: away });
    const cases = [
        // The price is below the base fee.
        [{ block: { baseFeePerGas: "0x64" }, gasPrice: "0x0" }, [240n, 0n]],
        [{ block: {}, gasPrice: "0x7" }, [14n, 14n]],
        [{ block: { baseFeePerGas: "0x64" }, tip: "0x5", gasPrice: "0x0" }, [250n, 10n]],
    ];
    for (const [{ block, tip, gasPrice }, expected] of cases) {
        const results = { eth_getBlockByNumber: block, eth_maxPriorityFeePerGas: tip, eth_gasPrice: gasPrice };
        const request = async ({ method }) => results[method] ?? Promise.reject(new Error(method));
        await captured(async () => {
            const { maxFeePerGas, maxPriorityFeePerGas } = await fees({ bundlerClient: { chain: { id: 1 }, request } });
            assert.deepEqual([maxFeePerGas, maxPriorityFeePerGas], expected);
        });
    }
});

test("the hook throws a TypeError for options that cannot be right, when it is rendered", () => {
    const render = (options) => {
        const Price = () => String(useSuggestion(options).suggestion);
        return renderToString(createElement(Price));
    };
    for (const options of [{ chain: 1 }, { url: "localhost:8080", chain: 1 }, { url: service.url }, { url: service.url, chain: NaN }]) {
        assert.throws(() => render(options), TypeError, JSON.stringify(options));
    }
    const Cost = ({ request }) => String(useCost({ url: service.url, chain: 1 }, request).cost);
    const cost = (request) => renderToString(createElement(Cost, { request }));
    for (const request of [{ gas: 1.5 }, { gas: 21_000n, balance: -1n }, { gas: 21_000n, transaction: "0x0" }]) assert.throws(() => cost(request), TypeError);
    assert.deepEqual([cost({ gas: 21_000n }), cost(undefined)], ["undefined", "undefined"]);
    // On a server the hook sends nothing, so a path of the page's own origin is right.
    assert.equal(render({ url: "/gas", chain: 1 }), "undefined");
    assert.equal(render({ url: new URL(service.url), chain: 1n }), "undefined");
});

test("the snippets of the client run as they are", async () => {
    await upToDate();
    const printed = async (heading) => (await captured(() => readme(heading, "gas"))).logs.map(([line]) => line);
    const [price, transfer] = await printed("Prices");
    assert.match(price, /^\d+(\.\d+)? gwei, \d+ s old$/);
    assert.match(transfer, /^a transfer costs 0\.0000\d+ ETH$/);
    assert.match((await printed("Fees"))[0], /^\d+(\.\d+)? gwei at most, \d+ s old$/);
    const [cost, sendable, ...none] = await printed("Cost");
    assert.match(cost, /^0\.0000\d+ ETH, at most 0\.000\d+ ETH$/);
    assert.match(sendable, /^0\.999\d+ ETH can be sent$/);
    assert.deepEqual(none, []);
    const { maxCost } = await readme("Cost without a request", "");
    assert.equal(maxCost(21_000n, 120), 21_000n * (await suggested())[0]);
    const without = await captured(() => readme("Errors", "gas", { url: away }));
    assert.equal(without.logs[0][0], "let the node decide");
    const { bundler: documented } = await readme("User operations", "bundler");
    const { account } = await bundler();
    const operation = { account, calls: [{ to: TO, value: 1n }], parameters: ["fees"] };
    const { maxFeePerGas, maxPriorityFeePerGas } = await documented.prepareUserOperation(operation);
    assert.deepEqual([maxFeePerGas, maxPriorityFeePerGas], await suggested());
    const stream = await captured(async ({ logs }) => {
        const { unsubscribe } = await readme("Follow the chain", "unsubscribe");
        await until(() => logs.length, (length) => length > 0);
        unsubscribe();
    });
    assert.equal(stream.logs[0].length, 2);
    assert.equal(stream.logs[0][0], Number(await anvil.call("eth_blockNumber")));
});
