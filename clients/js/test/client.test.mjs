// The client against the real service and against servers that misbehave.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { GasSuggestionError, createGasClient, estimateCost, formatGwei } from "gas-suggestion";

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
    assert.equal(market.averageRewardPerGas[0], BigInt(body.average_reward_per_gas[0]));
    assert.equal(market.suggestion.medium.maxFeePerGas, BigInt(body.suggestion.medium.max_fee_per_gas));
    const { baseFeeChangeDenominator, emptyBlockDenominator, minimumBaseFee } = market.chainParameters;
    const { base_fee_change_denominator, empty_block_denominator, minimum_base_fee } = body.chain_parameters;
    const parameters = [base_fee_change_denominator, empty_block_denominator, minimum_base_fee];
    assert.deepEqual([baseFeeChangeDenominator, emptyBlockDenominator, minimumBaseFee], parameters.map(BigInt));
    assert.deepEqual(market.window.rewardPercentiles, body.window.reward_percentiles);
    assert.deepEqual([market.chainName, market.block], ["ronin", market.newestBlock]);
});

test("gwei and costs are exact", () => {
    const cases = [[0n, "0"], [1n, "0.000000001"], [1_500_000_000n, "1.5"], [20n * 10n ** 9n, "20"], [-(10n ** 8n), "-0.1"]];
    for (const [wei, text] of cases) assert.equal(formatGwei(wei), text);
    assert.equal(formatGwei(9_007_199_254_740_993n), "9007199.254740993");
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
    assert.match(error.message, /^404 unknown_chain: .*did you mean `ronin`\?/);
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
    assert.deepEqual([bad.code, bad.status, bad.message], ["invalid_response", 502, "502: no\n"]);
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

test("a response that is no suggestion is an error", async () => {
    const tier = '{"max_fee_per_gas":"1.5","max_priority_fee_per_gas":"1"}';
    const half = `{"chain_name":"a","type":"legacy","base_fee_per_gas":"0","medium":${tier},"high":${tier}}`;
    const whole = half.replaceAll("1.5", "1");
    const cases = [["<p>Hi</p>", "1"], ["{}", "1"], ["null", "1"], [half, "1"], [whole, undefined]];
    for (const [body, block] of cases) {
        const server = await serve((_, response) => {
            if (block) response.setHeader("X-Newest-Block", block);
            response.end(body);
        });
        const error = await failure(gas({ url: server.url }).suggestion());
        assert.deepEqual([error.code, error.status], ["invalid_response", 200], body);
        server.stop();
    }
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
