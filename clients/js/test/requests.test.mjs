// Prices, costs, fees and waits, against the real service and against servers that respond as it does.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { createGasClient, formatGwei, formatUsd } from "gas-suggestion";
import { serializeTransaction } from "viem";

import { Service, binary, folder, installed, readmeBlock, serve, stopAll, until } from "./rig.mjs";

const TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const TIERS = ["low", "medium", "high"];

let service, gas;
before(async () => {
    // Blocks so rare that nothing changes during a test.
    service = await Service.start({ binary, folder, demo: ["--block-time", "1h"] });
    gas = createGasClient({ url: service.url, chain: "ethereum" });
});
after(stopAll);

const raw = async (path) => (await fetch(`${service.url}/v1/ethereum/${path}`)).json();
const failure = (promise) => promise.then(assert.fail, (error) => error);

// A client whose service responds with this body.
function withResponse(body, options) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const respond = async () => new Response(text, { headers: { "X-Newest-Block": "1" } });
    return createGasClient({ url: "http://localhost", chain: 1, fetch: respond, ...options });
}

test("the price is the expected price of each tier", async () => {
    // At first the level changes with each old block that the trend reads.
    const read = async () => [await raw("fee-market"), await gas.price(), await raw("fee-market")];
    const [, { block, age, isStale, ...price }, market] =
        await until(read, ([one, , other]) => one.level_deviation === other.level_deviation);
    const { low, medium, high } = market.expected_price_per_gas;
    assert.deepEqual(price, {
        chainName: "ethereum", chainId: 1, low: BigInt(low), medium: BigInt(medium), high: BigInt(high), currency: "ETH",
        level: market.level, levelDeviation: market.level_deviation, usdPerCoin: null,
    });
    assert.deepEqual([block, isStale], [market.newest_block, false]);
    assert.ok(age >= 0 && price.low <= price.medium && price.medium < price.high);
    assert.match(formatGwei(price.medium), /^\d+(\.\d+)?$/);
});

test("the price has the dollars of the market", async () => {
    const usd_per_coin = { price: "3012.55", observed_at: "2026-11-20T17:31:34Z", source: "ETH / USD" };
    const { usdPerCoin, medium } = await withResponse({ ...(await raw("fee-market")), usd_per_coin }).price();
    assert.deepEqual(usdPerCoin, { price: "3012.55", observedAt: "2026-11-20T17:31:34Z", source: "ETH / USD" });
    assert.ok(Number(formatUsd(medium * 21_000n, usdPerCoin.price)) > 0);
});

// Converts a tier of the body by hand.
const tierOf = (tier) => ({
    maxPriorityFeePerGas: BigInt(tier.max_priority_fee_per_gas), maxFeePerGas: BigInt(tier.max_fee_per_gas),
    expected: BigInt(tier.expected), max: BigInt(tier.max), maxSend: tier.max_send && BigInt(tier.max_send),
});

test("the cost has the members of the body, with exact amounts", async () => {
    const balance = 10n ** 18n + 1n;
    const cost = await gas.cost({ gas: 21_000n, balance, bytes: 130 });
    const body = await raw(`cost?gas=21000&balance=${balance}&bytes=130`);
    assert.deepEqual([cost.gas, cost.bytes, cost.currency, cost.chainId], [21_000n, 130, "ETH", 1]);
    for (const name of TIERS) {
        assert.deepEqual(cost.tiers[name], tierOf(body.tiers[name]));
        assert.equal(cost.tiers[name].maxSend, balance - cost.tiers[name].max);
        assert.equal(cost.tiers[name].max, 21_000n * cost.tiers[name].maxFeePerGas);
    }
    const operatorFee = { expected: 0n, max: 0n };
    assert.deepEqual(cost.dataFee, {
        kind: "none", exact: true, fee: 0n, max: 0n, operatorFee, l1Block: null, observedAt: null,
    });
    const names = Object.keys(body).map((name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()));
    assert.deepEqual(Object.keys(cost).sort(), [...names, "block", "age", "isStale"].sort());
    assert.equal((await gas.cost({ gas: 21_000 })).tiers.medium.maxSend, null);
    assert.equal((await gas.cost({ gas: 21_000, balance: 1n })).tiers.medium.maxSend, 0n);
});

test("a transaction is sent as it is, without a preflight", async () => {
    const requests = [];
    const send = (input, init) => (requests.push([input, init]), fetch(input, init));
    const own = createGasClient({ url: service.url, chain: 1, fetch: send });
    const transaction = serializeTransaction({ type: "eip1559", chainId: 1, to: TO, value: 1n, gas: 21_000n, maxFeePerGas: 1n });
    const cost = await own.cost({ gas: 21_000n, transaction, balance: 10n ** 18n });
    assert.equal(cost.bytes, (transaction.length - 2) / 2 + 68);
    assert.equal(cost.tiers.high.maxSend, 10n ** 18n - cost.tiers.high.max);
    const [[url, { method, body, headers }]] = requests;
    assert.deepEqual([url, method, headers], [`${service.url}/v1/1/cost`, "POST", undefined]);
    assert.deepEqual(JSON.parse(body), { gas: "21000", transaction, balance: String(10n ** 18n) });
    // The query and the body take the same hold.
    const hold = { gas: 21_000n, balance: 10n ** 18n, hold: "30s", probability: 0.999 };
    const held = [await own.cost(hold), await own.cost({ ...hold, transaction })];
    for (const { holdSeconds, tiers } of held) {
        assert.equal(holdSeconds, 30);
        assert.ok(tiers.high.maxSend > cost.tiers.high.maxSend && tiers.high.maxFeePerGas > tiers.high.maxPriorityFeePerGas);
    }
});

test("dollars of a cost stay decimal numbers", async () => {
    const tiers = (amounts) => Object.fromEntries(TIERS.map((name) => [name, { ...amounts }]));
    const body = { ...(await raw("cost?gas=21000")), usd: tiers({ expected: "0.0012", max: "3" }) };
    assert.deepEqual((await withResponse(body).cost({ gas: 21_000 })).usd, body.usd);
    for (const amounts of [{ expected: "0.0012" }, { expected: "1", max: "1e3" }, { expected: "1", max: 3 }, { expected: "<b>", max: "1" }]) {
        const error = await failure(withResponse({ ...body, usd: tiers(amounts) }).cost({ gas: 21_000 }));
        assert.equal(error.code, "invalid_response", JSON.stringify(amounts));
    }
});

test("a cost that is not known is null", async () => {
    const body = await raw("cost?gas=21000&balance=1");
    for (const name of TIERS) Object.assign(body.tiers[name], { expected: null, max: null, max_send: null });
    const cost = await withResponse({ ...body, data_fee: null, data_fee_reason: "not_read" }).cost({ gas: 21_000 });
    assert.deepEqual([cost.dataFee, cost.dataFeeReason], [null, "not_read"]);
    const { expected, max, maxSend } = cost.tiers.medium;
    assert.deepEqual([expected, max, maxSend], [null, null, null]);
});

test("a cost that is no cost is an error", async () => {
    const body = await raw("cost?gas=21000&balance=1");
    const tier = (changes) => ({ tiers: { ...body.tiers, high: { ...body.tiers.high, ...changes } } });
    const wrong = [
        { tiers: null }, { tiers: { low: body.tiers.low } }, tier({ max_send: "-1" }), tier({ max_send: 5 }), tier({ max_send: undefined }),
        tier({ max: undefined }), tier({ expected: "0x1" }), tier({ max_fee_per_gas: null }), tier({ max_priority_fee_per_gas: undefined }),
        { gas: "x" }, { data_fee: {} }, { data_fee: { ...body.data_fee, max: undefined } }, { data_fee: { ...body.data_fee, operator_fee: null } },
        { blob_fee: {} }, { blob_fee: { expected: "1", max: "1.5" } }, { usd: {} },
    ];
    for (const changes of wrong) {
        const error = await failure(withResponse({ ...body, ...changes }).cost({ gas: 21_000 }));
        assert.equal(error.code, "invalid_response", JSON.stringify(changes));
    }
    for (const text of ["", "[]", "null", "{}", "<p>"]) {
        assert.equal((await failure(withResponse(text).cost({ gas: 21_000 }))).code, "invalid_response", text);
    }
});

test("requests that cannot be right are a TypeError, and send nothing", async () => {
    const nothing = withResponse("", { fetch: () => assert.fail("a request") });
    const costs = [
        { gas: 1.5 }, { gas: -1n }, { gas: NaN }, { gas: 2 ** 53 }, { gas: "0x5208" }, { gas: "" }, { gas: null }, { gas: {} }, { gas: 21_000, balance: -1n },
        { gas: 21_000, balance: "1 ETH" }, { gas: 21_000, bytes: 1.5 }, { gas: 21_000, blobs: "x&y=1" }, { gas: 21_000, transaction: "" },
        { gas: 21_000, transaction: "02f8" }, { gas: 21_000, transaction: "0x123" }, { gas: 21_000, transaction: {} }, { gas: 10n ** 39n }, { gas: 21_000, hold: "30" },
    ];
    for (const request of costs) {
        const error = await failure(nothing.cost(request));
        assert.ok(error instanceof TypeError, String(error));
    }
    const fees = [{ within: 1.5, probability: 0.9 }, { within: 3, probability: 1.5 }, { within: 3, probability: -0.5 }, { within: -1, probability: 0.5 }, { within: "3 s", hold: "1m" }, { hold: 30 }];
    for (const request of fees) assert.ok((await failure(nothing.fees(request))) instanceof TypeError, JSON.stringify(request));
    const waits = [
        { below: -1n }, { below: 1.5 }, { below: "p0" }, { below: "p100" }, { below: "20 gwei" }, { below: null }, { below: 1n, timeout: 60 },
        { below: 1n, timeout: 120_001 }, { below: 1n, timeout: NaN }, { below: 1n, timeout: "x" },
    ];
    for (const request of waits) assert.ok((await failure(nothing.wait(request))) instanceof TypeError, String(request.below));
});

test("requests that the service refuses have its error", async () => {
    for (const request of [{ gas: 0 }, { gas: 21_000, bytes: 0 }, { gas: 21_000, transaction: "0x00" }, { gas: 21_000, blobs: 22 }, {}]) {
        const { code, status } = await failure(gas.cost(request));
        assert.deepEqual([code, status], ["invalid_parameter", 400]);
    }
});

const cell = (within, probability, price) => ({
    within, probability, max_priority_fee_per_gas: String(price), max_fee_per_gas: String(3n * price),
    expected_price_per_gas: String(2n * price), kept: null, judged: 0,
});
const fees = (...cells) => ({ chain_name: "a", chain_id: 1, newest_block: 9, rewards_to: 8, percentile: 10, cells });

// Starts a server that responds to each request with this status and body, and notes their paths.
async function mock(status, body) {
    const paths = [];
    const { url } = await serve((request, response) => {
        paths.push(request.url);
        response.writeHead(status, { "X-Newest-Block": "9", "Age": "1" }).end(status === 204 ? undefined : JSON.stringify(body));
    });
    return { url, paths, client: createGasClient({ url, chain: "a" }) };
}

test("fees for a horizon and a probability are one cell, without them they are all", async () => {
    const price = 2n ** 60n;
    const { paths, client } = await mock(200, fees(cell(3, 0.95, price)));
    assert.deepEqual(await client.fees({ within: 4, probability: 0.9 }), {
        chainName: "a", chainId: 1, newestBlock: 9, rewardsTo: 8, percentile: 10, within: 3, probability: 0.95,
        maxPriorityFeePerGas: price, maxFeePerGas: 3n * price, expectedPricePerGas: 2n * price, kept: null, judged: 0,
        block: 9, age: 1, isStale: false,
    });
    assert.equal((await client.fees({ within: "30s", hold: "60s" })).maxFeePerGas, 3n * price);
    for (const request of [undefined, { hold: "60s", probability: 0.999 }]) {
        const { cells } = await client.fees(request);
        assert.deepEqual([cells.length, cells[0].maxFeePerGas], [1, 3n * price]);
    }
    assert.deepEqual(paths.map((path) => path.split("fees")[1]), [
        "?within=4&probability=0.9", "?within=30s&hold=60s", "", "?hold=60s&probability=0.999",
    ]);
});

test("fees that are no fees are an error", async () => {
    const request = { within: 3, probability: 0.95 };
    const good = cell(3, 0.95, 1n);
    const wrong = [
        {}, { cells: null }, { ...fees(), cells: {} }, fees({ ...good, max_fee_per_gas: undefined }), fees({ ...good, max_priority_fee_per_gas: null }),
        fees({ ...good, expected_price_per_gas: 5 }), fees(null),
    ];
    for (const body of wrong) {
        for (const argument of [request, undefined]) {
            assert.equal((await failure(withResponse(body).fees(argument))).code, "invalid_response", JSON.stringify(body));
        }
    }
    for (const body of [fees(), fees(good, good)]) assert.equal((await failure(withResponse(body).fees(request))).code, "invalid_response");
});

test("a wait ends with the market, or with null", async () => {
    const market = await raw("fee-market");
    const found = await mock(200, market);
    for (const below of [10n ** 9n, "1000000000", "p20"]) {
        const { expectedPricePerGas, block } = await found.client.wait({ below, timeout: 1500 });
        assert.deepEqual([expectedPricePerGas.medium, block], [BigInt(market.expected_price_per_gas.medium), 9]);
    }
    await found.client.wait({ below: 0n });
    assert.deepEqual(found.paths, [
        "/v1/a/wait?below=1000000000&timeout=2", "/v1/a/wait?below=1000000000&timeout=2", "/v1/a/wait?below=p20&timeout=2",
        "/v1/a/wait?below=0&timeout=30",
    ]);
    const none = await mock(204);
    assert.equal(await none.client.wait({ below: 1n }), null);
    // A response without content is none to anything else.
    for (const call of ["suggestion", "market", "price", "fees"]) {
        assert.equal((await failure(none.client[call]())).code, "invalid_response");
    }
    const gone = await mock(503, { code: "not_ready", detail: "the service stops" });
    const { code, isTemporary } = await failure(gone.client.wait({ below: 1n }));
    assert.deepEqual([code, isTemporary], ["not_ready", true]);
});

test("the example of the README waits", async (t) => {
    const { url, paths } = await mock(200, await raw("fee-market"));
    const lines = [];
    const { log } = console;
    t.after(() => Object.assign(console, { log }));
    console.log = (line) => lines.push(line);
    const file = new URL("wait.mjs", installed);
    writeFileSync(file, readmeBlock("Wait for a low price", { "http://localhost:8080": url }));
    await import(file);
    assert.deepEqual(paths, ["/v1/ethereum/wait?below=20000000000&timeout=60"]);
    assert.match(lines[0], /^\d+(\.\d+)? gwei now$/);
});

test("a wait is longer than other requests, and ends by its signal or its own deadline", async () => {
    let closed = 0;
    const { url } = await serve((request, response) => response.on("close", () => (closed += 1)));
    const client = createGasClient({ url, chain: 1, timeout: 200 });
    const begin = performance.now();
    const { code, message } = await failure(client.wait({ below: 1n, timeout: 1000 }));
    assert.deepEqual([code, message], ["timeout", "timeout: no response within 1200 ms"]);
    assert.ok(performance.now() - begin >= 1100);
    const abort = new AbortController();
    const reason = new Error("enough");
    setTimeout(() => abort.abort(reason), 50);
    assert.equal(await failure(client.wait({ below: 1n, signal: abort.signal })), reason);
    assert.equal(await failure(client.wait({ below: 1n, signal: abort.signal })), reason);
    assert.equal((await failure(client.wait({ below: 1n, signal: AbortSignal.timeout(20) }))).name, "TimeoutError");
    // A `fetch` that ignores the signal does not hold the wait.
    const deaf = createGasClient({ url, chain: 1, fetch: () => new Promise(() => {}) });
    assert.equal((await failure(deaf.wait({ below: 1n, signal: AbortSignal.timeout(20) }))).name, "TimeoutError");
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(closed, 3);
});
