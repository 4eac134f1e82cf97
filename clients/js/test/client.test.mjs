// The client against the real service and against servers that misbehave.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { GasSuggestionError, createGasClient, estimateCost, formatCoin, formatGwei, formatUsd } from "gas-suggestion";

import { Nodes, Proxy, Service, binary, chainSection, folder, nowhere, serve, stopAll, until } from "./rig.mjs";

let nodes, ronin, service, url;
before(async () => {
    nodes = await Nodes.start();
    // More than 2^53 wei.
    ronin = nodes.chain(2020, { baseFee: 9_007_199_254_740_993n, reward: 3n });
    nodes.chain(88, { baseFee: 0n });
    const config = [["ronin", 2020], ["old", 88]].map(([key, id]) => chainSection(key, id, nodes.url(id))).join("");
    service = await Service.start({ binary, folder, config });
    url = service.url;
});
after(stopAll);

const raw = async (path) => (await fetch(`${url}/v1/${path}`)).json();
const gas = (options) => createGasClient({ url, chain: "ronin", ...options });
const failure = (promise) => promise.then(assert.fail, (error) => error);

test("amounts are exact", async () => {
    const { medium, high, ...rest } = await gas().suggestion();
    const body = await raw("ronin/gas-suggestion");
    for (const [tier, expected] of [[medium, body.medium], [high, body.high]]) {
        assert.deepEqual(tier, {
            maxFeePerGas: BigInt(expected.max_fee_per_gas),
            maxPriorityFeePerGas: BigInt(expected.max_priority_fee_per_gas),
        });
    }
    assert.ok(medium.maxFeePerGas > BigInt(Number.MAX_SAFE_INTEGER));
    const { age } = rest;
    assert.ok(Number.isInteger(age) && age >= 0);
    const baseFeePerGas = BigInt(body.base_fee_per_gas);
    const expected = { chainName: "ronin", type: "eip-1559", baseFeePerGas, block: ronin.newest, age, isStale: false };
    assert.deepEqual(rest, expected);
});

test("legacy tiers have one price under three names", async () => {
    const { type, medium, baseFeePerGas } = await gas({ chain: 88 }).suggestion();
    const price = BigInt((await raw("old/gas-suggestion")).medium.max_fee_per_gas);
    assert.deepEqual([type, baseFeePerGas], ["legacy", 0n]);
    assert.deepEqual(medium, { maxFeePerGas: price, maxPriorityFeePerGas: price, gasPrice: price });
});

test("the market has the members of the body", async () => {
    const market = await gas().market();
    const body = await raw("ronin/fee-market");
    const camelCase = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
    const names = [...Object.keys(body).map(camelCase), "block", "age", "isStale"];
    assert.deepEqual(Object.keys(market).sort(), names.sort());
    assert.equal(market.averageBaseFeePerGas, BigInt(body.average_base_fee_per_gas));
    assert.equal(market.expectedPricePerGas.low, BigInt(body.expected_price_per_gas.low));
    assert.equal(market.low.maxPriorityFeePerGas, BigInt(body.low.max_priority_fee_per_gas));
    assert.equal(market.averageRewardPerGas[0], BigInt(body.average_reward_per_gas[0]));
    assert.equal(market.suggestion.medium.maxFeePerGas, BigInt(body.suggestion.medium.max_fee_per_gas));
    const { baseFeeChangeDenominator, emptyBlockDenominator, minimumBaseFee } = market.chainParameters;
    const { base_fee_change_denominator, empty_block_denominator, minimum_base_fee } = body.chain_parameters;
    const parameters = [base_fee_change_denominator, empty_block_denominator, minimum_base_fee];
    assert.deepEqual([baseFeeChangeDenominator, emptyBlockDenominator, minimumBaseFee], parameters.map(BigInt));
    assert.deepEqual(market.window.rewardPercentiles, body.window.reward_percentiles);
    assert.deepEqual([market.chainName, market.block], ["ronin", market.newestBlock]);
});

test("amounts are rounded half up to four significant digits, or to as many as are asked for", () => {
    const gwei = 10n ** 9n;
    const cases = [
        [0n, "0"], [1n, "0.000000001"], [1_500_000_000n, "1.5"], [20n * gwei, "20"], [-(10n ** 8n), "-0.1"],
        [1_234_567_890n, "1.235"], [1_234_499_999n, "1.234"], [999_950_000n, "1"], [999_949_999n, "0.9999"],
        [12_345n * gwei, "12350"], [-1_234_500_000n, "-1.235"],
    ];
    for (const [wei, text] of cases) assert.equal(formatGwei(wei), text);
    assert.equal(formatGwei(9_007_199_254_740_993n, Infinity), "9007199.254740993");
    assert.deepEqual([1, 2, 9].map((digits) => formatGwei(1_250_000_000n, digits)), ["1", "1.3", "1.25"]);
    assert.equal(formatCoin(1_234_567_890_123_456_789n), "1.235");
    assert.equal(formatCoin(1n), "0.000000000000000001");
    assert.equal(formatCoin(1_234_567_890_123_456_789n, Infinity), "1.234567890123456789");
    assert.equal(formatUsd(21_000n * gwei, "3012.55"), "0.06326");
    assert.equal(formatUsd(10n ** 18n, "3012.55"), "3013");
    assert.equal(formatUsd(10n ** 18n, "3012.55", Infinity), "3012.55");
    assert.equal(formatUsd(1n, "0.00000001"), "0.00000000000000000000000001");
    assert.equal(formatUsd(10n ** 18n, "7"), "7");
    for (const digits of [0, -1, NaN, 0.5]) assert.throws(() => formatGwei(1n, digits), TypeError);
    for (const price of ["", "-1", "1e3", ".5", "1.", "x", undefined, null]) assert.throws(() => formatUsd(1n, price), TypeError);
});

test("the most that gas can cost is exact", () => {
    assert.equal(estimateCost({ maxFeePerGas: 9_007_199_254_740_993n }, 21_000), 189_151_184_349_560_853_000n);
});

test("a base path and a trailing slash are accepted", async () => {
    const proxy = await Proxy.start(service.url, { prefix: "/gas" });
    for (const slash of ["", "/"]) {
        assert.equal((await gas({ url: proxy.url + slash }).suggestion()).chainName, "ronin");
    }
    assert.deepEqual([...new Set(proxy.received)], ["/gas/v1/ronin/gas-suggestion"]);
});

test("an unknown chain is an error in spite of a fallback", async () => {
    const error = await failure(gas({ chain: "ronni", fallback: null }).suggestion());
    assert.ok(error instanceof GasSuggestionError && error instanceof Error);
    assert.deepEqual([error.name, error.code, error.status], ["GasSuggestionError", "unknown_chain", 404]);
    assert.match(error.message, /^404 unknown_chain: .*did you mean `ronin`\?.* \(chain: `ronni`\)$/);
    const doubled = await failure(gas({ url: `${url}/v1` }).suggestion());
    assert.equal(doubled.message, "404 not_found: no such route; is `url` the base of the service, without /v1?");
});

test("a service that is away has an error or the fallback", async () => {
    const away = { url: await nowhere() };
    const error = await failure(gas(away).suggestion());
    assert.deepEqual([error.code, error.status], ["network_error", undefined]);
    assert.ok(error.cause instanceof TypeError);
    assert.equal(await gas({ ...away, fallback: null }).suggestion(), null);
    assert.equal(await gas({ ...away, fallback: ({ code }) => code }).suggestion(), "network_error");
    assert.equal((await failure(gas({ ...away, fallback: null }).market())).code, "network_error");
});

test("a service without data has its own code", async () => {
    const config = chainSection("ronin", 2020, "http://127.0.0.1:9");
    const proxy = await Proxy.start(service.url);
    proxy.rule = () => 502;
    const bad = await failure(gas({ url: proxy.url }).suggestion());
    assert.deepEqual([bad.code, bad.status, bad.message], ["invalid_response", 502, "502: no"]);
    const empty = await emptyService(config);
    const error = await failure(gas({ url: empty }).suggestion());
    assert.deepEqual([error.code, error.status], ["no_data", 503]);
    assert.equal(await gas({ url: empty, fallback: 1n }).suggestion(), 1n);
});

// Starts a service that has no data of `ronin`, and is ready by a second chain.
async function emptyService(config) {
    const own = nodes.chain(6);
    const both = config + chainSection("other", own.id, nodes.url(own.id));
    return (await Service.start({ binary, folder, config: both })).url;
}

test("a silent service is a timeout, also in the middle of a body", async () => {
    for (const body of ["", '{"chain_name":']) {
        const silent = await serve((_, response) => body && response.write(body));
        const begin = performance.now();
        const error = await failure(gas({ url: silent.url, timeout: 100 }).suggestion());
        assert.equal(error.code, "timeout");
        assert.ok(performance.now() - begin < 2000);
        silent.stop();
    }
});

// Returns the error of `suggestion()`, or its result, for a response with this body and these headers.
async function responseTo(body, headers = { "X-Newest-Block": "1", "Age": "0" }, call = "suggestion") {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const respond = () => new Response(text, { headers });
    return gas({ fetch: async () => respond() })[call]().catch((error) => error);
}

// A suggestion, with these members in its medium tier.
function suggestionWith(medium) {
    const tier = { max_priority_fee_per_gas: "1", max_fee_per_gas: "2" };
    return { chain_name: "a", type: "eip-1559", base_fee_per_gas: "0", medium: { ...tier, ...medium }, high: tier };
}

test("a response that is no suggestion is an error", async () => {
    const whole = suggestionWith({});
    assert.equal((await responseTo(whole)).medium.maxFeePerGas, 2n);
    const without = (name) => Object.fromEntries(Object.entries(whole).filter(([key]) => key !== name));
    const bodies = [
        "<p>Hi</p>", "", "{}", "null", "[]", "1", ...Object.keys(whole).map(without),
        { ...whole, medium: null }, { ...whole, high: [] }, { ...whole, high: "2" }, { ...whole, high: { ...whole.high, max_fee_per_gas: null } },
        { ...whole, type: "eip-4844" }, { ...whole, chain_name: 1 }, { ...whole, base_fee_per_gas: null },
        { ...whole, base_fee_per_gas: {} },
    ];
    for (const body of bodies) {
        const { code, status } = await responseTo(body);
        assert.deepEqual([code, status], ["invalid_response", 200], JSON.stringify(body));
    }
});

test("only a decimal integer in a string is an amount", async () => {
    const amounts = [
        "", " ", "-5", "+5", "0x10", "1.5", "1e9", "1n", "1_000", " 1", "1 ", "1\n", "\u0661", "9".repeat(79), 5, 1e30, true, null, ["1"],
        { valueOf: 1 },
    ];
    for (const amount of amounts) {
        for (const member of ["max_fee_per_gas", "max_priority_fee_per_gas"]) {
            const { code, message } = await responseTo(suggestionWith({ [member]: amount }));
            assert.equal(code, "invalid_response", JSON.stringify(amount));
            assert.ok(!message.includes("\n") && message.length <= 300, message);
        }
    }
    const largest = String(2n ** 256n - 1n);
    assert.equal((await responseTo(suggestionWith({ max_fee_per_gas: largest }))).medium.maxFeePerGas, BigInt(largest));
});

test("the market is checked like the suggestion", async () => {
    const market = await raw("ronin/fee-market");
    const read = (changes) => responseTo({ ...market, ...changes }, undefined, "market");
    assert.equal((await read({})).chainId, 2020);
    // Members that may be `null`, and members of later versions of the service.
    const more = { next_base_fee_per_gas: null, average_reward_per_gas: [null], usd_per_coin: { price: "0.5", observed_at: "2026-11-20T17:31:34Z", source: "a feed" }, later: { gas: null } };
    assert.equal((await read(more)).nextBaseFeePerGas, null);
    const wrong = [
        { average_base_fee_per_gas: null }, { average_base_fee_per_gas: 5 }, { next_base_fee_per_gas: "" },
        { average_reward_per_gas: ["0x1"] }, { expected_price_per_gas: { low: "1", medium: "1" } },
        { expected_price_per_gas: undefined }, { suggestion: {} }, { chain_id: "2020" }, { chain_id: 1.5 }, { chain_id: undefined },
        { usd_per_coin: {} }, { usd_per_coin: { price: 3012.55 } }, { usd_per_coin: { price: "-1" } }, { usd_per_coin: { price: "<b>" } },
    ];
    for (const changes of wrong) assert.equal((await read(changes)).code, "invalid_response", JSON.stringify(changes));
});

test("a block or an age that is no number is an error", async () => {
    for (const value of ["abc", "", "-1", "1.5", "0x10", "1e3", "1, 2", "9".repeat(16)]) {
        for (const name of ["X-Newest-Block", "Age"]) {
            const error = await responseTo(suggestionWith({}), { "X-Newest-Block": "1", "Age": "0", [name]: value });
            assert.equal(error.code, "invalid_response", `${name}: ${value}`);
        }
    }
    assert.equal((await responseTo(suggestionWith({}), { Age: "0" })).code, "invalid_response");
    // HTTP has no `Age` on a response that comes from no cache.
    assert.equal((await responseTo(suggestionWith({}), { "X-Newest-Block": "1" })).age, 0);
});

test("an error is one line, whatever the response contains", async () => {
    const page = `<html>\r\n<h1>Bad gateway\u001b[2J</h1>\u2028${"x".repeat(1000)}`;
    const bodies = [page, JSON.stringify({ code: "no_data", detail: page })];
    for (const text of bodies) {
        const error = await failure(gas({ fetch: async () => new Response(text, { status: 503 }) }).suggestion());
        assert.match(error.message, /^503[ -~]{20,297}$/);
    }
    const error = await failure(gas({ url: await nowhere() }).suggestion());
    assert.match(error.message, /^the service is unreachable: fetch failed: .*ECONNREFUSED/);
});

test("options that cannot be right throw a TypeError at once", () => {
    const urls = [
        undefined, null, "", " ", "127.0.0.1:18410", "localhost:8080", "gas.example", "ftp://gas.example", "ws://gas.example", "http:gas",
        "http://", "http://:8080", "http://a b", "http://gas.example:port", "http://gas.example:99999", "https://user:word@gas.example",
        "http://gas.example/?key=1", "http://gas.example/#", "/gas", 8080, {},
    ];
    for (const value of urls) assert.throws(() => gas({ url: value }), TypeError, String(value));
    const chains = [undefined, null, "", " ", "undefined", "null", "NaN", "..", "a/b", "a?b", "a b", NaN, 0, -1, 1.5, 1e21, Infinity, {}, [1], true];
    for (const value of chains) assert.throws(() => gas({ chain: value }), TypeError, String(value));
    const others = [
        { timeout: 0 }, { timeout: -1 }, { timeout: NaN }, { timeout: "500" }, { timeout: null }, { fetch: "fetch" }, { fetch: {} },
    ];
    for (const options of others) assert.throws(() => gas(options), TypeError, JSON.stringify(options));
    // A fallback does not hide the mistake.
    assert.throws(() => gas({ url: "localhost:8080", fallback: null }), /^TypeError: url must begin with http:\/\/ or https:\/\/$/);
    assert.throws(() => gas({ chain: undefined, fallback: null }), /^TypeError: chain must be a key or a chain id, not `undefined`$/);
});

test("a runtime without `fetch` is a TypeError at once", (t) => {
    const { fetch: original } = globalThis;
    t.after(() => Object.assign(globalThis, { fetch: original }));
    delete globalThis.fetch;
    assert.throws(() => gas(), TypeError);
    assert.ok(gas({ fetch: original }));
});

test("a URL object, a path in a page, blanks around and ids of any kind are accepted", async (t) => {
    const asked = async (options) => {
        const urls = [];
        await gas({ ...options, fetch: async (input) => urls.push(input) }).suggestion().catch(() => {});
        return urls[0];
    };
    const at = "/v1/ronin/gas-suggestion";
    const cases = [
        [new URL("http://gas.example"), `http://gas.example${at}`], [" http://gas.example/gas/\n", `http://gas.example/gas${at}`],
        ["HTTPS://gas.example", `HTTPS://gas.example${at}`], ["http://[::1]:8080", `http://[::1]:8080${at}`],
    ];
    for (const [value, expected] of cases) assert.equal(await asked({ url: value }), expected);
    for (const chain of [2020, 2020n, "2020", " 2020\n"]) {
        assert.equal(await asked({ url: "http://gas.example", chain }), "http://gas.example/v1/2020/gas-suggestion");
    }
    globalThis.location = new URL("https://page.example");
    t.after(() => delete globalThis.location);
    assert.equal(await asked({ url: "/gas" }), `/gas${at}`);
    assert.equal(await asked({ url: "/" }), at);
});

test("a runtime without `AbortSignal.timeout`, or whose requests have no cache, works", async (t) => {
    const { timeout } = AbortSignal;
    const { Request: original } = globalThis;
    t.after(() => {
        AbortSignal.timeout = timeout;
        Object.assign(globalThis, { Request: original });
    });
    delete AbortSignal.timeout;
    assert.equal((await gas().suggestion()).chainName, "ronin");
    const silent = await serve(() => {});
    assert.equal((await failure(gas({ url: silent.url, timeout: 50 }).suggestion())).code, "timeout");
    const strict = (input, init) => {
        if ("cache" in init) throw new TypeError("the field `cache` is not implemented");
        return fetch(input, init);
    };
    globalThis.Request = class {
        constructor() {
            throw new TypeError("the field `cache` is not implemented");
        }
    };
    assert.equal((await gas({ fetch: strict }).suggestion()).chainName, "ronin");
    delete globalThis.Request;
    assert.equal((await gas({ fetch: strict }).market()).chainName, "ronin");
});

test("the timeout holds whatever `fetch` does, and a very long one is long", async () => {
    const never = () => new Promise(() => {});
    const error = await failure(gas({ fetch: never, timeout: 50 }).suggestion());
    assert.deepEqual([error.code, error.message], ["timeout", "timeout: no response within 50 ms"]);
    for (const timeout of [Infinity, 2 ** 40]) assert.equal((await gas({ timeout }).suggestion()).chainName, "ronin");
    // The signal ends what is under way.
    let signal;
    await failure(gas({ fetch: (_, init) => ((signal = init.signal), never()), timeout: 20 }).suggestion());
    assert.equal(signal.aborted, true);
});

test("a stalled head is stale", async () => {
    nodes.chain(7);
    const stall = 'stall_after = "1s"\n';
    const config = chainSection("still", 7, nodes.url(7)).replace(/stall_after.*\n/, stall);
    const stalled = await Service.start({ binary, folder, config });
    const still = createGasClient({ url: stalled.url, chain: 7 });
    await until(async () => (await still.suggestion()).isStale, (isStale) => isStale);
    assert.equal((await still.market()).isStale, true);
});

test("the given fetch is used", async () => {
    const urls = [];
    const fetchOnce = (input, init) => (urls.push(input), fetch(input, init));
    await gas({ fetch: fetchOnce }).suggestion();
    assert.deepEqual(urls, [`${url}/v1/ronin/gas-suggestion`]);
});
