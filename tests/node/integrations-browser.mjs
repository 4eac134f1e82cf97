// Runs the examples of docs/integrations.md as web pages in Chromium: `node integrations-browser.mjs SETTINGS`.
//
// SETTINGS is JSON. `folders` has a folder with the examples for each of four services: `plain`; `full`, limited to one
// stream; `stalled`, whose chain's head does not move; `empty`, without data. `service` is the URL of `plain`,
// `metrics` that of its metrics, `full` and `stalled` are those of these services, and `node` is that of their anvil,
// which mines on request. This script serves the pages, so their origin differs from the service's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import net from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { DEADLINE_MS, launch } from "./browser.mjs";

const settings = JSON.parse(process.argv[2]);
const SUGGESTION = "/v1/ronin/gas-suggestion";
const ETHERS = new URL("node_modules/ethers/dist/ethers.js", import.meta.url);

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser?.close());

async function listening(server) {
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server.address().port;
}

async function eventually(read, expected) {
    for (const deadline = Date.now() + DEADLINE_MS; ; ) {
        const found = await read();
        if (found === expected) return;
        if (Date.now() > deadline) assert.equal(found, expected);
        // The pause leaves the processor to the browser.
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

async function call(method) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [] });
    const headers = { "content-type": "application/json" };
    const { error, result } = await (await fetch(settings.node, { method: "POST", headers, body })).json();
    assert.equal(error, undefined);
    return result;
}

const suggestion = () => fetch(`${settings.service}${SUGGESTION}`);

// Mines a block and returns the suggestion once the service has read it.
async function mine() {
    await call("anvil_mine");
    const head = String(Number(await call("eth_blockNumber")));
    await eventually(async () => (await suggestion()).headers.get("x-newest-block"), head);
    return (await suggestion()).json();
}

const parseFees = ({ medium }) => ({
    maxFeePerGas: BigInt(medium.max_fee_per_gas),
    maxPriorityFeePerGas: BigInt(medium.max_priority_fee_per_gas),
});

// Opens a page of another origin that serves the folder's files. If `service` is given, it replaces the service's URL
// in them.
async function open(t, folder, service) {
    const server = createServer(({ url }, response) => {
        const type = url === "/" ? "text/html" : "text/javascript";
        response.setHeader("content-type", type);
        response.setHeader("cache-control", "no-store");
        if (url === "/") {
            // The viem example only needs these imports to exist.
            const nothing = "data:text/javascript,export const http = () => {}, ronin = {}";
            const dist = "/node_modules/gas-suggestion/dist";
            const imports = {
                imports: {
                    "ethers": "/ethers.js", "viem": nothing, "viem/chains": nothing,
                    "gas-suggestion/ethers": `${dist}/ethers.js`, "gas-suggestion/viem": `${dist}/viem.js`,
                },
            };
            return response.end(`<!doctype html><title>A dApp</title><link rel="icon" href="data:,">
                <script type="importmap">${JSON.stringify(imports)}</script>`);
        }
        if (url === "/ethers.js") return response.end(readFileSync(ETHERS));
        const text = readFileSync(join(settings.folders[folder], url), "utf8");
        return response.end(service ? text.replaceAll(settings.service, service) : text);
    });
    const port = await listening(server);
    t.after(() => server.close());
    const context = await browser.newContext();
    t.after(() => context.close());
    context.setDefaultTimeout(DEADLINE_MS);
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    await page.clock.install();
    await page.addInitScript(() => {
        Object.assign(window, { sources: 0, refusals: 0 });
        window.EventSource = class extends EventSource {
            constructor(...more) {
                super(...more);
                window.sources += 1;
                this.addEventListener("error", () => {
                    window.refusals += Number(this.readyState === EventSource.CLOSED);
                });
            }
        };
    });
    await page.goto(`http://127.0.0.1:${port}/`);
    return { page, errors };
}

// Calls the export `name` of `file` in the page; returns its result or its error message.
const run = (page, file, name) => page.evaluate(
    async ([file, name]) => {
        const { [name]: exported } = await import(file);
        return exported().catch((error) => error.message);
    }, [`/${file}`, name]);

const watch = (page) => page.evaluate(async () => {
    const { watchGas } = await import("/watch-gas.js");
    window.shown = [];
    window.end = watchGas((suggestion) => window.shown.push(suggestion));
});
const shows = (page, count) => page.waitForFunction((count) => window.shown.length >= count, count);
const shown = (page) => page.evaluate(() => window.shown);

// A TCP proxy in front of the service whose connections can be cut. Records what the browser sends.
async function cuttableProxy(t) {
    const target = new URL(settings.service);
    const open = new Set();
    const sent = [];
    const server = net.createServer((client) => {
        const upstream = net.connect(target.port, target.hostname);
        open.add(client);
        client.on("data", (bytes) => sent.push(String(bytes)));
        for (const [one, other] of [[client, upstream], [upstream, client]]) {
            one.on("error", () => {});
            one.on("close", () => other.destroy());
            one.pipe(other);
        }
    });
    const port = await listening(server);
    const cut = () => { for (const client of open) client.destroy(); };
    t.after(() => { server.close(); cut(); });
    return { url: `http://127.0.0.1:${port}`, sent, cut };
}

async function streams() {
    const text = await (await fetch(settings.metrics)).text();
    return text.match(/^gas_suggestion_streams (\d+)$/m)?.[1];
}

const READERS = {
    fetch: async () => (await import("/suggested-fees.js")).suggestedFees(),
    viem: async () => {
        const { fees } = (await import("/ronin.js")).ronin;
        return fees.estimateFeesPerGas({ client: { chain: { id: 2020 } }, type: "eip1559" });
    },
    ethers: async () => {
        const { provider } = await import("/provider.js");
        const { maxFeePerGas, maxPriorityFeePerGas } = await provider.getFeeData();
        return { maxFeePerGas, maxPriorityFeePerGas };
    },
};

describe("web pages of another origin", () => {
    test("get the value, each block, and no block twice after a cut", async (t) => {
        const { url, sent, cut } = await cuttableProxy(t);
        const { page, errors } = await open(t, "plain", url);
        const expected = [await (await suggestion()).json()];
        await watch(page);
        await shows(page, 1);
        expected.push(await mine());
        await shows(page, 2);
        const head = String(Number(await call("eth_blockNumber")));
        const tag = (await suggestion()).headers.get("etag").replaceAll('"', "");
        cut();
        await eventually(() => sent.filter((text) => text.includes("/stream")).length, 2);
        const again = sent.findLast((text) => text.includes("/stream"));
        assert.match(again, new RegExp(`^last-event-id: ${head}-${tag}\r$`, "im"));
        expected.push(await mine());
        await shows(page, 3);
        assert.deepEqual(await shown(page), expected);
        assert.notDeepEqual(expected[0], expected[1]);
        await page.evaluate(() => window.end());
        await eventually(streams, "0");
        assert.deepEqual(errors, []);
    });

    test("reconnect 30 s after a refusal, unless they have unsubscribed", async (t) => {
        const { page, errors } = await open(t, "full");
        const hold = async () => {
            const held = new AbortController();
            const stream = () => fetch(`${settings.full}${SUGGESTION}/stream`, { signal: held.signal });
            await eventually(async () => (await stream()).status, 200);
            return held;
        };
        const refused = (count) => page.waitForFunction((count) => window.refusals === count, count);
        const held = await hold();
        await watch(page);
        await refused(1);
        // The clock of the page runs on besides.
        await page.clock.fastForward(25_000);
        assert.equal(await page.evaluate(() => window.sources), 1);
        held.abort();
        await eventually(async () => {
            await page.clock.fastForward(30_000);
            return (await shown(page)).length;
        }, 1);
        await page.evaluate(() => window.end());

        const again = await hold();
        t.after(() => again.abort());
        const before = await page.evaluate(() => window.refusals);
        await watch(page);
        await refused(before + 1);
        const sources = await page.evaluate(() => window.sources);
        await page.evaluate(() => window.end());
        await page.clock.fastForward(60_000);
        assert.equal(await page.evaluate(() => window.sources), sources);
        assert.deepEqual(errors, []);
    });

    // Each test has a new browser context, because the request of one library would refresh the cache for another.
    for (const [name, read] of Object.entries(READERS)) {
        test(`get the newest fees with ${name}, despite the browser cache`, async (t) => {
            const { page, errors } = await open(t, "plain");
            const seen = [await (await suggestion()).json()];
            for (let round = 0; round < 2; round += 1) {
                assert.deepEqual(await page.evaluate(read), parseFees(seen.at(-1)));
                seen.push(await mine());
                assert.notDeepEqual(seen.at(-1), seen.at(-2));
            }
            assert.deepEqual(errors, []);
        });
    }

    test("know the age of the data, and the reason when there is none", async (t) => {
        await mine();
        const head = Number(await call("eth_blockNumber"));
        const { page } = await open(t, "plain");
        let found;
        await eventually(async () => {
            found = await run(page, "freshness.js", "freshness");
            assert(found instanceof Object, found);
            return found.isStale;
        }, false);
        const { seconds, ...rest } = found;
        assert.deepEqual(rest, { block: head, isStale: false });
        assert(Number.isInteger(seconds) && seconds < 20, String(seconds));

        // The head of `stalled` does not move, so its data stays stale.
        const isStalled = async () => (await fetch(`${settings.stalled}${SUGGESTION}`)).headers.get("x-stale");
        await eventually(isStalled, "true");
        const stalled = await open(t, "stalled");
        const { isStale } = await run(stalled.page, "freshness.js", "freshness");
        assert.equal(isStale, true);

        const empty = await open(t, "empty");
        const why = await run(empty.page, "suggested-fees.js", "suggestedFees");
        assert.match(why, /^no gas suggestion: 503 \{.*"code":"no_data"/);
    });
});
