// The client without a service. `npm test` runs it on the built package.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { createGasClient, estimateCost, formatCoin, formatGwei, formatUsd } from "gas-suggestion";

import { market, serve, stopServers } from "./server.mjs";

after(stopServers);

// The system test sets CLIENT, because it runs a copy beside the installed package.
const client = process.env.CLIENT ?? fileURLToPath(new URL("..", import.meta.url));
const document = JSON.parse(readFileSync(join(client, "../../docs/openapi.json"), "utf8"));
const example = (path) => document.paths[path].get.responses[200].content["application/json"].example;
const gas = (options) => createGasClient({ url: "http://gas.example", chain: "ronin", ...options });

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

test("the market is checked like the suggestion", async () => {
    const market = example("/v1/{chain}/fee-market");
    const read = (changes) => responseTo({ ...market, ...changes }, undefined, "market");
    assert.equal((await read({})).chainId, market.chain_id);
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

// A server that responds to `/v1/{chain}/gas-suggestion` as `respond` does, and its client's error.
async function errorFrom(respond, chain = "ronin", call = "suggestion") {
    const { url } = await serve(respond);
    return createGasClient({ url, chain, timeout: 20_000 })[call]().then(assert.fail, (error) => error);
}

test("a body that is too long is given up, also that of an error", async () => {
    const part = Buffer.alloc(2 ** 16, " ");
    for (const status of [200, 503]) {
        const before = process.memoryUsage().rss;
        let sent = 0;
        const error = await errorFrom(async (_, response) => {
            response.writeHead(status, { "X-Newest-Block": "1" });
            const isOver = once(response, "close");
            while (!response.destroyed && sent < 200e6) {
                sent += part.length;
                if (!response.write(part)) await Promise.race([once(response, "drain"), isOver]);
            }
            response.end();
        });
        assert.deepEqual([error.code, error.message, error.status], ["invalid_response", "the body is too long", status]);
        const grown = (process.memoryUsage().rss - before) / 2 ** 20;
        assert.ok(grown < 50 && sent < 20e6, `${grown} MiB after ${sent} bytes`);
    }
});

test("redirects are not followed", async () => {
    for (const status of [301, 302, 303, 307, 308]) {
        const paths = [];
        const error = await errorFrom((request, response) => {
            paths.push(request.url);
            if (request.url === "/inside") return response.end('{"code":"secret","detail":"inside"}');
            return response.writeHead(status, { location: "/inside" }).end();
        });
        assert.deepEqual([error.code, error.message, paths.length], ["invalid_response", `${status}: a redirect`, 1]);
    }
});

test("a response for another chain is an error", async () => {
    const respond = (_, response) => response.writeHead(200, { "X-Newest-Block": "1" }).end(JSON.stringify(market(1, 5)));
    const { code, message } = await errorFrom(respond, 1, "price");
    assert.deepEqual([code, message], ["invalid_response", "the response is not a suggestion: Error: it is that of chain 5"]);
});
