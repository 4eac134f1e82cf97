// The client against the real service and against servers that misbehave.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { GasSuggestionError, createGasClient } from "gas-suggestion";

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
    const amounts = parameters.map((amount) => (amount === null ? null : BigInt(amount)));
    assert.deepEqual([baseFeeChangeDenominator, emptyBlockDenominator, minimumBaseFee], amounts);
    assert.deepEqual(market.window.rewardPercentiles, body.window.reward_percentiles);
    assert.deepEqual([market.chainName, market.block], ["ronin", market.newestBlock]);
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

test("a subscription follows blocks and survives a restart of the service", async () => {
    const chain = nodes.chain(2021);
    const config = chainSection("moving", 2021, nodes.url(2021));
    const start = (listen) => Service.start({ binary, folder, config, listen });
    const first = await start();
    const [suggestions, errors] = [[], []];
    const unsubscribe = gas({ url: first.url, chain: "moving" }).subscribe({
        onSuggestion: (value) => suggestions.push(value),
        onError: (error) => errors.push(error),
    });
    const reaches = (block) => until(() => suggestions.at(-1)?.block, (last) => last === block);
    await reaches(100);
    assert.equal(await first.streams(), 1);
    Object.assign(chain, { newest: 101, baseFee: 2n * chain.baseFee });
    await reaches(101);
    const [before, now] = [suggestions[0], suggestions.at(-1)];
    assert.ok(now.medium.maxFeePerGas > before.medium.maxFeePerGas);
    assert.deepEqual([now.age, now.isStale, now.chainName], [0, false, "moving"]);
    assert.deepEqual(errors, []);

    await first.stop();
    await until(() => errors.length, (count) => count > 0);
    assert.deepEqual([errors[0].code, errors[0].message], ["network_error", "the stream ended"]);
    chain.newest += 1;
    const second = await start(first.address);
    await reaches(102);
    assert.deepEqual([...new Set(suggestions.map(({ block }) => block))], [100, 101, 102]);

    unsubscribe();
    await until(() => second.streams(), (count) => count === 0);
    const count = errors.length + suggestions.length;
    await second.stop();
    assert.equal(errors.length + suggestions.length, count);
});
