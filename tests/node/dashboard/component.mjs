// The web component for pages of other origins.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

import { price } from "../../../src/extras/pages/dashboard/amounts.js";
import { tierFees, waitText } from "../../../src/extras/pages/dashboard/tiers.js";
import { rowView } from "../../../src/extras/pages/dashboard/view.js";
import { DEADLINE_MS, until } from "../browser.mjs";
import { Proxy } from "../services.mjs";
import { known } from "./fixtures.mjs";
import { hide } from "./page.mjs";

const TIERS = ["low", "medium", "high"];
const PATHS = { markets: "/fee-market", fees: "/fees", chains: "/v1/chains" };
const CHAINS = [{ chain: "ronin", chain_id: 2020, block_time_ms: 12_000 }];
const MARKET = { ...known().market, chain_name: "Ronin", chain_id: 2020, level: "high", level_deviation: 0.31 };
// Fees that a tier reaches within three blocks.
const cell = (within, fees, probability = 0.8) => ({ within, probability, ...fees });
const DEAR = { max_priority_fee_per_gas: "99000000000000", max_fee_per_gas: "99000000000000" };
const inThree = (market, tier) => ({ cells: [cell(1, DEAR), cell(2, DEAR), cell(3, tierFees(market, tier)), cell(2, tierFees(market, tier), 0.5)] });

// Runs in the page: returns the visible texts of each component.
function shownComponents() {
    return [...document.querySelectorAll("gas-suggestion")].map((node) => {
        const parts = [...node.shadowRoot.querySelectorAll("[part]")].filter((part) => part.checkVisibility());
        const texts = parts.map((part) => [part.part[0], part.textContent]);
        return { state: node.getAttribute("state"), wei: node.shadowRoot.querySelector("b").title, ...Object.fromEntries(texts) };
    });
}

// Runs in the page before its scripts: shortens the interval of 5 s, and lets a test advance the clock of ages.
function fastReads() {
    const { setInterval } = window;
    window.setInterval = (run, delay) => setInterval(run, Math.min(delay, 300));
    const now = performance.now.bind(performance);
    window.skipped = 0;
    performance.now = () => now() + window.skipped;
}

// Opens a page of another origin with this content, which loads the component from `service`. `requests` are the paths of
// requests, `bodies` the responses by name.
async function embed(browser, service, body, run, { policy = "", init = fastReads } = {}) {
    const html = `<!doctype html><html lang="en"><meta name="color-scheme" content="light dark"><title>Gas</title><main><h1>Gas</h1>${body}</main>
        <script type="module" src="${service.url}/gas-suggestion.js"></script>`;
    const server = createServer((_, response) =>
        response.writeHead(200, { "content-type": "text/html", "content-security-policy": policy }).end(html)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const context = await browser.newContext();
    context.setDefaultTimeout(DEADLINE_MS);
    try {
        const page = await context.newPage();
        const [requests, errors, bodies] = [[], [], { markets: [], fees: [], chains: [] }];
        page.on("pageerror", (error) => errors.push(error));
        page.on("request", (request) => requests.push(new URL(request.url()).pathname));
        page.on("response", async (response) => {
            const name = Object.keys(PATHS).find((name) => response.url().endsWith(PATHS[name]));
            if (name && response.ok()) bodies[name].push(await response.json().catch(() => ({})));
        });
        if (init) await context.addInitScript(init);
        await page.goto(`http://localhost:${server.address().port}/`);
        const shown = () => page.evaluate(shownComponents);
        const becomes = (index, expected) => until(shown, (all) => Object.entries(expected).every(([part, text]) =>
            text instanceof RegExp ? text.test(all[index][part]) : text === all[index][part]));
        const count = (end) => requests.filter((path) => path.endsWith(end)).length;
        await run({ page, shown, becomes, count, bodies });
        assert.deepEqual(errors, []);
    } finally {
        await context.close();
        server.close();
        server.closeAllConnections();
    }
}

// Starts a service with a mock chain behind a proxy whose replies a test decides. `replies` has them by the end of the path:
// an object, a status, "hold" or "pass".
async function behindProxy({ config, nodes, start }, id) {
    const service = await start({ config: config({ ronin: nodes.chain(id) }) });
    const proxy = await Proxy.start(service.url);
    const replies = {};
    proxy.rule = (path) => Object.entries(replies).find(([end]) => path.endsWith(end))?.[1] ?? "pass";
    return { proxy, replies };
}

const verdictOnDashboard = (market) => rowView({ ...known(), market: { ...known().market, ...market } }, "live", 130).verdict?.text;

export default {
    "the component shows a price in pages of other origins": async ({ browser, config, nodes, start }) => {
        const node = nodes.chain(402);
        // Stale from 2 to 12 s after the last reply: a busy machine must not miss it.
        const more = 'block_time = "1s"\nmax_age = "12s"\nstall_after = "0s"';
        const service = await start({ config: config({ ronin: { ...node, more } }) });
        const body = `<gas-suggestion chain="ronin"></gas-suggestion>
            <gas-suggestion service="${service.url}" chain="ronin" tier="high" verdict wait></gas-suggestion>
            <gas-suggestion chain="unknown"></gas-suggestion><gas-suggestion service="${service.url}/v0" chain="ronin"></gas-suggestion>`;
        const policy = `default-src 'none'; script-src ${service.url}; connect-src ${service.url}; require-trusted-types-for 'script'`;
        await embed(browser, service, body, async ({ page, becomes }) => {
            await becomes(0, { state: "live", price: "21 gwei", age: /^(just now|\d s ago)$/, verdict: undefined, wait: undefined });
            await becomes(1, { state: "live", price: "25 gwei", age: /ago|now/ });
            await becomes(2, { state: "unknown", price: "–", age: "unknown chain" });
            // A path that the service does not have says nothing about the chain.
            await becomes(3, { state: "unavailable", price: "–", age: "unavailable" });
            node.isHealthy = false;
            await becomes(0, { state: "stale", price: "21 gwei", age: /^stale, \d+ s ago$/ });
            await becomes(0, { state: "unavailable", price: "21 gwei", age: /^unavailable, \d+ s ago$/ });
            node.isHealthy = true;
            node.newest += 1;
            await becomes(0, { state: "live", price: "21 gwei", age: /ago|now/ });
            await page.evaluate(() => document.querySelector("gas-suggestion").setAttribute("tier", "high"));
            await becomes(0, { state: "live", price: "25 gwei", age: /ago|now/ });
            await service.stop();
            for (const index of [0, 1]) {
                await becomes(index, { state: "disconnected", price: "25 gwei", age: /^no connection, \d+ s ago$/, verdict: undefined, wait: undefined });
            }
        }, { policy });
    },

    "price, verdict and waiting time of the component equal the API's": async ({ browser, start }) => {
        // The slower its blocks, the sooner the demo knows an hour of them, and so a level.
        const service = await start({ demo: ["--block-time", "5s"] });
        const isKnown = async () => {
            const bodies = await Promise.all(["fee-market", "fees"].map(async (path) => (await fetch(`${service.url}/v1/ethereum/${path}`)).json()));
            return bodies[0].level && bodies[1].cells;
        };
        await until(isKnown, Boolean);
        await embed(browser, service, '<gas-suggestion chain="ethereum" verdict wait></gas-suggestion>', async ({ page, becomes, shown, count, bodies }) => {
            await becomes(0, { state: "live", wait: /block/ });
            await until(() => Object.values(bodies).map(({ length }) => length), (counts) => counts.every((count) => count > 0));
            const [market] = bodies.markets;
            const { level } = market;
            for (const tier of TIERS) {
                await page.evaluate((tier) => document.querySelector("gas-suggestion").setAttribute("tier", tier), tier);
                const [{ price: text, wei, verdict, wait }] = await shown();
                assert.equal(wei, `${market.expected_price_per_gas[tier]} wei per gas on ethereum`);
                assert.equal(text, price(market.expected_price_per_gas[tier]));
                assert.equal(verdict, tier === "medium" ? verdictOnDashboard(market) : undefined, `${level} ${market.level_deviation}`);
                const { block_time_ms: blockTime } = bodies.chains[0].find(({ chain }) => chain === "ethereum");
                assert.equal(wait, waitText(bodies.fees[0].cells, tierFees(market, tier), blockTime));
            }
            // Another tier needs no request.
            assert.deepEqual([count("/fee-market"), count("/fees"), count("/v1/chains")], [1, 1, 1]);
        }, { init: () => (window.setInterval = () => 1) });
    },

    "verdict and waiting time of the component have the words of the dashboard": async (tools) => {
        const { proxy, replies } = await behindProxy(tools, 405);
        Object.assign(replies, { "/fee-market": MARKET, "/chains": CHAINS, "/fees": inThree(MARKET, "medium") });
        const load = async ({ page, becomes }, expected) => {
            await page.evaluate(() => {
                const node = document.querySelector("gas-suggestion");
                node.replaceWith(node.cloneNode());
            });
            return becomes(0, { state: "live", ...expected });
        };
        // The page has the proxy's own origin, because its replies have no CORS headers.
        await embedAt(tools.browser, proxy, '<gas-suggestion chain="ronin" verdict wait></gas-suggestion>', async (all) => {
            await all.becomes(0, { price: "21.1 gwei", verdict: "High: 31 % above usual", wait: "about 3 blocks, 36 s" });
            for (const [level, level_deviation] of [["high", 12.345], ["high", null], ["low", -0.31], ["low", null], ["normal", 0.01], [null, null]]) {
                replies["/fee-market"] = { ...MARKET, level, level_deviation };
                await load(all, { verdict: verdictOnDashboard({ level, level_deviation }) });
            }
            for (const block_time_ms of [100, 1000, 12_000, 30_000, 600_000]) {
                replies["/chains"] = [{ ...CHAINS[0], block_time_ms }];
                await load(all, { wait: waitText(inThree(MARKET, "medium").cells, tierFees(MARKET, "medium"), block_time_ms) });
            }
            replies["/fees"] = { cells: [cell(25, DEAR)] };
            await load(all, { wait: "more than 25 blocks" });
            const legacy = { ...MARKET.suggestion, type: "legacy" };
            for (const market of [MARKET, { ...MARKET, suggestion: legacy }]) {
                Object.assign(replies, { "/fee-market": market, "/fees": inThree(market, "low") });
                await all.page.evaluate(() => document.querySelector("gas-suggestion").setAttribute("tier", "low"));
                await load(all, { wait: "about 3 blocks, 30 min", price: price(market.expected_price_per_gas.low) });
            }
        });
    },

    "without current data the component has neither verdict nor waiting time": async (tools) => {
        const { proxy, replies } = await behindProxy(tools, 406);
        Object.assign(replies, { "/fee-market": MARKET, "/chains": CHAINS, "/fees": 404 });
        const body = '<gas-suggestion chain="ronin" verdict wait></gas-suggestion><gas-suggestion chain="ronin" compact></gas-suggestion>';
        await embedAt(tools.browser, proxy, body, async ({ page, becomes, count }) => {
            const none = { verdict: undefined, wait: undefined };
            const skip = (milliseconds) => page.evaluate((more) => (window.skipped += more), milliseconds);
            const reads = async (more) => {
                const before = count("/fee-market");
                await until(() => count("/fee-market"), (now) => now >= before + more);
            };
            // Asks once more for the waiting times, and waits for two more prices.
            const refused = async (reply, requests) => {
                replies["/fees"] = reply;
                await skip(60_000);
                await until(() => count("/fees"), (now) => now === requests);
                await reads(3);
                await becomes(0, { state: "live", price: "21.1 gwei", verdict: "High: 31 % above usual", wait: undefined });
            };
            // The route is off, refuses, or answers something else.
            await until(() => count("/fees"), (now) => now === 1);
            for (const [index, reply] of [404, 503, {}, { cells: [{ within: 1, probability: 0.8 }] }].entries()) await refused(reply, index + 2);
            replies["/fees"] = inThree(MARKET, "medium");
            await skip(60_000);
            await becomes(0, { state: "live", wait: "about 3 blocks, 36 s" });
            await reads(6);
            assert.deepEqual([count("/fees"), count("/v1/chains")], [6, 1]);
            // The next block costs more than the cap.
            replies["/fee-market"] = { ...MARKET, next_base_fee_per_gas: String(BigInt(tierFees(MARKET, "medium").max_fee_per_gas) + 1n) };
            await becomes(0, { state: "live", wait: undefined });
            replies["/fee-market"] = MARKET;
            await becomes(0, { state: "live", wait: "about 3 blocks, 36 s" });
            await becomes(1, { state: "live", price: "21.1 gwei", age: undefined });
            replies["/fee-market"] = { ...MARKET, stale: true };
            await becomes(0, { state: "stale", price: "21.1 gwei", age: /^stale, /, ...none });
            await becomes(1, { state: "stale", price: "21.1 gwei", age: /^stale, / });
            replies["/fee-market"] = 502;
            await becomes(0, { state: "unavailable", price: "21.1 gwei", age: /^unavailable, /, ...none });
            replies["/fee-market"] = MARKET;
            await becomes(0, { state: "live", verdict: "High: 31 % above usual" });
            // A hidden page sends no request. What it shows is not live any more.
            await hide(page, true);
            const before = count("");
            await skip(15_001);
            await becomes(0, { state: "stale", age: /^stale, /, ...none });
            // The waiting times are those of a minute ago.
            await skip(600_000);
            // The last request of each of the two components may be listed late.
            assert(count("") <= before + 2, "requests of a hidden page");
            replies["/fees"] = "hold";
            await hide(page, false);
            const [first] = await becomes(0, { state: "live", price: "21.1 gwei" });
            assert.equal(first.wait, undefined);
            await proxy.stop();
            await becomes(1, { state: "disconnected", price: "21.1 gwei", age: /^no connection, / });
        });
    },

    "the component follows themes and is accessible": async (tools) => {
        const { proxy, replies } = await behindProxy(tools, 407);
        Object.assign(replies, { "/fee-market": MARKET, "/fees": inThree(MARKET, "medium"), "/chains": CHAINS,
            "/cheap/fee-market": { ...MARKET, level: "low" }, "/old/fee-market": { ...MARKET, stale: true }, "/off/fee-market": 503 });
        const ordered = Object.entries(replies).sort(([one], [other]) => other.length - one.length);
        proxy.rule = (path) => ordered.find(([end]) => path.endsWith(end))?.[1] ?? "pass";
        const body = `<style>body { background: Canvas; color: CanvasText; } p { max-width: 340px }
            #themed { --gas-suggestion-price: rgb(1, 2, 3); --gas-suggestion-muted: rgb(4, 5, 6); --gas-suggestion-high: rgb(7, 8, 9); --gas-suggestion-gap: 20px; color-scheme: light; background: #fff }
            #themed::part(price) { font-size: 40px }</style>
            ${["ronin", "cheap", "old", "off"].map((chain) => `<p><gas-suggestion chain="${chain}" verdict wait></gas-suggestion></p>`).join("")}
            <p><gas-suggestion id="themed" chain="ronin" verdict wait></gas-suggestion></p>`;
        await embedAt(tools.browser, proxy, body, async ({ page, becomes }) => {
            for (const [index, state] of ["live", "live", "stale", "unavailable", "live"].entries()) await becomes(index, { state });
            for (const index of [0, 4]) await becomes(index, { verdict: "High: 31 % above usual", wait: "about 3 blocks, 36 s" });
            await tools.check.accessible({ page }, "component");
            const styles = await page.evaluate(() => ["price", "verdict", "wait", "age"].map((name) => {
                const node = document.querySelector("#themed").shadowRoot.querySelector(`[part~=${name}]`);
                return [getComputedStyle(node).color, getComputedStyle(node).fontSize];
            }));
            assert.deepEqual(styles.map(([color]) => color), ["rgb(1, 2, 3)", "rgb(7, 8, 9)", "rgb(4, 5, 6)", "rgb(4, 5, 6)"]);
            assert.equal(styles[0][1], "40px");
            const colors = {};
            for (const colorScheme of ["light", "dark"]) {
                await page.emulateMedia({ colorScheme });
                colors[colorScheme] = await page.evaluate(() => [...document.querySelectorAll("gas-suggestion")].slice(0, 2)
                    .map((node) => getComputedStyle(node.shadowRoot.querySelector("[part~=verdict]")).color));
            }
            assert.equal(new Set(Object.values(colors).flat()).size, 4, JSON.stringify(colors));
            // A screen reader gets a named group with the texts in order, and the keyboard has no stop there.
            const session = await page.context().newCDPSession(page);
            const { nodes } = await session.send("Accessibility.getFullAXTree");
            const groups = nodes.filter(({ role, name }) => role?.value === "group" && name?.value.startsWith("Gas price"));
            assert.deepEqual(groups.map(({ name }) => name.value), ["Ronin", "Ronin", "Ronin", "off", "Ronin"].map((name) => `Gas price of ${name}, medium`));
            const byId = new Map(nodes.map((node) => [node.nodeId, node]));
            const texts = (node) => node.role?.value === "StaticText" ? [node.name.value] : (node.childIds ?? []).flatMap((id) => texts(byId.get(id)));
            assert.deepEqual(texts(groups[0]).slice(0, 3), ["21.1 gwei", "High: 31 % above usual", "about 3 blocks, 36 s"]);
            await page.keyboard.press("Tab");
            assert.equal(await page.evaluate(() => document.activeElement.localName), "body");
            for (const width of [320, 1280]) {
                await page.setViewportSize({ width, height: 800 });
                assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} wide`);
            }
        });
    },
};

// Opens a page with this content at the origin of `proxy`.
async function embedAt(browser, proxy, body, run) {
    await embed(browser, proxy, "", async (all) => {
        const { page } = all;
        await page.route(`${proxy.url}/page`, (route) => route.fulfill({ contentType: "text/html", body:
            `<!doctype html><html lang="en"><meta name="color-scheme" content="light dark"><title>Gas</title><main><h1>Gas</h1>${body}</main>
            <script type="module" src="/gas-suggestion.js"></script>` }));
        await page.goto(`${proxy.url}/page`);
        await run(all);
    });
}
