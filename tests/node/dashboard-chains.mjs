// Tests of the dashboard in Chromium with many chains: `node dashboard-chains.mjs '{"binary":…,"shots":…}'`. The table of
// chains, the history, notifications, the component for other pages, layout, accessibility and speed.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, focused, launch, until } from "./browser.mjs";
import { STILL, chainConfig, hide, openDashboard, trendBody } from "./dashboard-page.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, shots } = JSON.parse(process.argv[2]);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = { shots, widths: [360, 768, 1440, 1920] };

let browser;
let nodes;
const folder = mkdtempSync(join(tmpdir(), "dashboard-chains-"));
before(async () => {
    mkdirSync(shots, { recursive: true });
    browser = await launch();
    nodes = await Nodes.start();
});
after(async () => {
    await browser?.close();
    await stopAll();
    rmSync(folder, { recursive: true });
});

const start = (options) => Service.start({ binary, folder, ...options });
const open = (url, run, options) => openDashboard(browser, url, run, options);

const scenarios = [];
function scenario(name, run) {
    scenarios.push([name, run]);
}

// Returns this many mock chains by key, with ids from `first`.
function manyChains(count, first, more = STILL) {
    return Object.fromEntries(Array.from({ length: count }, (_, index) => {
        const fees = { baseFee: 10n ** BigInt(6 + (index % 6)), reward: 10n ** BigInt(3 + (index % 9)) };
        return [`chain-${index}`, { ...nodes.chain(first + index, fees), name: `Chain number ${index}`, more }];
    }));
}

// Checks the page with axe-core, in both colour schemes.
async function checkAccessibility(page, name) {
    await page.evaluate(AXE);
    for (const colorScheme of ["dark", "light"]) {
        await page.emulateMedia({ colorScheme });
        const violations = await page.evaluate(async () => {
            const options = { preload: false, resultTypes: ["violations"] };
            const { violations } = await window.axe.run(document, options);
            return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
        });
        assert.deepEqual(violations, [], `${name}, ${colorScheme}`);
    }
}

// Forwards to the service, with a history of fees for every chain.
async function withTrend(service, level = "low") {
    const proxy = await Proxy.start(service.url);
    proxy.level = level;
    proxy.rule = (path) => {
        const { pathname, searchParams } = new URL(path, "http://service");
        return pathname.endsWith("/fee-trend") ? trendBody(searchParams.get("period"), proxy.level) : "pass";
    };
    return proxy;
}

scenario("the table leads to each chain, by mouse, keyboard, address and history", async () => {
    const service = await start({ config: chainConfig(nodes, manyChains(12, 300)) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLiveRow("Chain number 11");
        const list = await (await fetch(`${service.url}/v1/chains`)).json();
        const names = async () => (await dashboard.rows()).map(({ name }) => name);
        assert.deepEqual(await names(), list.map(({ chain_name: name }) => name));
        const markets = await (await fetch(`${service.url}/v1/fee-markets`)).json();
        assert.deepEqual((await dashboard.rows()).map(({ exact }) => exact.replace(/[^0-9]/g, "")),
            markets.map(({ expected_price_per_gas: expected }) => expected.medium));
        // By keyboard alone.
        for (const expected of ["API", "JSON", "filter", "Chain number 0", "Chain number 1"]) {
            await page.keyboard.press("Tab");
            assert.deepEqual(await focused(page), [expected, true]);
        }
        await page.keyboard.press("Enter");
        await dashboard.waitForLive("Chain number 1");
        assert.equal(new URL(page.url()).hash, "#chain-1");
        await becomes(page, () => document.activeElement.textContent, "Chain number 1");
        assert.match(await page.title(), /on Chain number 1 – /);
        await page.goBack();
        await dashboard.waitForLiveRow("Chain number 1");
        await becomes(page, () => document.activeElement.textContent, "Chain number 1");
        await page.goForward();
        await dashboard.waitForLive("Chain number 1");
        await page.reload();
        await dashboard.waitForLive("Chain number 1");
        await page.getByRole("link", { name: "All chains" }).click();
        await page.getByLabel("Find a chain").fill("NUMBER 1");
        await until(names, (found) => String(found) === "Chain number 1,Chain number 10,Chain number 11");
        await page.getByLabel("Find a chain").fill("nothing");
        await page.getByText("No chain matches.").waitFor();
        await checkAccessibility(page, "no match");
        await page.goto(`${service.url}/#chain-99`);
        await page.getByText("This service has no chain “chain-99”.").waitFor();
    });
});

for (const [index, count] of [1, 2, 3, 12, 40].entries()) {
    scenario(`${count} chains fit at every width and in both colour schemes`, async () => {
        const chains = manyChains(count, 1000 + index * 100);
        const service = await start({ config: chainConfig(nodes, chains) });
        const proxy = await withTrend(service);
        const names = Object.values(chains).map(({ name }) => name);
        if (count > 1) {
            await open(`${proxy.url}/`, async (dashboard) => {
                for (const name of names) await dashboard.waitForLiveRow(name);
                await dashboard.checkLayout(`chains-${count}`, WIDTHS);
                await checkAccessibility(dashboard.page, `${count} chains`);
            });
        }
        const last = `#chain-${count - 1}`;
        await open(`${proxy.url}/${last}`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive(names.at(-1));
            await page.locator(".plot canvas").waitFor();
            await dashboard.checkLayout(`chain-of-${count}`, WIDTHS);
            for (const summary of await page.locator("summary").all()) await summary.click();
            await page.locator(".heat td").first().waitFor();
            await dashboard.checkLayout(`chain-of-${count}-details`, WIDTHS);
            await checkAccessibility(page, `a chain of ${count}`);
        });
    });
}

scenario("the longest names and numbers fit", async () => {
    const huge = 123456789012345678901234567890n;
    const limits = ["base", "priority"].map((fee) => `\npricing.max_${fee}_fee = "${huge * 10n} wei"`).join("");
    const chains = Object.fromEntries(Array.from({ length: 12 }, (_, index) => {
        const id = 9_000_000_000 + index;
        const chain = nodes.chain(id, { baseFee: index % 3 ? huge : 0n, reward: huge * BigInt(index % 4) });
        const name = index % 2 ? `סולם ${id}` : `A-chain-without-a-single-space-in-its-very-long-name-${id}`;
        return [`chain-${index}`, { ...chain, name, more: STILL + limits }];
    }));
    const service = await start({ config: chainConfig(nodes, chains) });
    await open(`${service.url}/`, async (dashboard) => {
        for (const { name } of Object.values(chains)) await dashboard.waitForLiveRow(name);
        await dashboard.checkLayout("longest-rows", { ...WIDTHS, widths: [320, ...WIDTHS.widths] });
        for (const index of [4, 5]) {
            await dashboard.page.goto(`${service.url}/#chain-${index}`);
            await dashboard.waitForLive(chains[`chain-${index}`].name);
            await dashboard.checkLayout(`longest-${index}`, { ...WIDTHS, widths: [320, ...WIDTHS.widths] });
        }
    });
});

scenario("the history is read by mouse, touch and keyboard, in three periods", async () => {
    const service = await start({ config: chainConfig(nodes, { ronin: { ...nodes.chain(400), more: STILL } }) });
    const proxy = await withTrend(service, "high");
    await open(`${proxy.url}/`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        const plot = page.locator(".plot");
        const readout = page.locator(".readout");
        await plot.locator("canvas").waitFor();
        await page.getByText("High: dearer than in most of the last 24 h").waitFor();
        await readout.filter({ hasText: "Price per gas in the last 24 hours: usually" }).waitFor();
        assert.equal(await page.locator("#chains img").filter({ visible: true }).count(), 0);
        await plot.scrollIntoViewIfNeeded();
        const { x, y, width } = await plot.boundingBox();
        await page.mouse.move(x + width / 2, y + 80);
        await readout.filter({ hasText: /^\d\d:\d0.*: [\d.]+ gwei, of which base fee [\d.]+ gwei .* blocks 50 % full$/ }).waitFor();
        await page.mouse.move(0, 0);
        await readout.filter({ hasText: "Price per gas in the last 24 hours" }).waitFor();
        await plot.focus();
        await page.keyboard.press("End");
        const newest = await readout.filter({ hasText: "of which" }).textContent();
        await page.keyboard.press("ArrowLeft");
        await becomes(page, new Function("return document.querySelector('.readout').textContent.includes('of which')"), true);
        assert.notEqual(await readout.textContent(), newest);
        assert.equal(await readout.getAttribute("role"), "status");
        await page.keyboard.press("Escape");
        await readout.filter({ hasText: "Price per gas" }).waitFor();
        for (const [period, text, rows] of [["1h", "1 hour", 60], ["7d", "7 days", 168]]) {
            await page.getByRole("button", { name: text }).press("Enter");
            await readout.filter({ hasText: `in the last ${text}` }).waitFor();
            assert(requests.some((request) => request.url().endsWith(`/fee-trend?period=${period}`)));
            if (!(await page.locator(".data").getAttribute("open") !== null)) await page.getByText("Show the numbers").press("Enter");
            await becomes(page, new Function("return document.querySelectorAll('.data tbody tr').length"), rows);
        }
        await page.getByText("Cheapest hours of the week").press("Enter");
        await becomes(page, () => document.querySelectorAll(".heat td[class^=shade]").length, 168);
        // Without the route, the chart of blocks comes back, and no verdict is shown.
        proxy.rule = (path) => (path.includes("/fee-trend") ? 404 : "pass");
        await page.getByRole("button", { name: "24 hours" }).click();
        await page.locator("#chains img").waitFor();
        assert.equal(await page.locator(".verdict").isVisible(), false);
        assert.equal(await plot.isVisible(), false);
        await checkAccessibility(page, "without a history");
    });
    // By touch.
    await open(`${proxy.url}/`, async ({ page }) => {
        proxy.rule = (path) => (path.includes("/fee-trend") ? trendBody("24h") : "pass");
        await page.reload();
        await page.locator(".plot canvas").waitFor();
        const { x, y, width } = await page.locator(".plot").boundingBox();
        await page.touchscreen.tap(x + width / 2, y + 80);
        await page.locator(".readout").filter({ hasText: "of which" }).waitFor();
    }, { hasTouch: true, viewport: { width: 360, height: 4000 } });
});

scenario("a notification is shown once, also for a hidden page", async () => {
    const chain = nodes.chain(401, { reward: 40n * 10n ** 9n });
    const times = 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"';
    const service = await start({ config: chainConfig(nodes, { ronin: { ...chain, more: times } }) });
    const init = () => {
        const { setInterval } = window;
        window.setInterval = (run, delay) => setInterval(run, delay === 60_000 ? 300 : delay);
        window.shown = [];
        window.asked = 0;
        window.permission = "denied";
        window.Notification = class {
            static requestPermission = async () => (window.asked += 1, window.permission);
            constructor(title) {
                window.shown.push(title);
            }
        };
    };
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        const limit = page.getByLabel("Tell me below");
        assert.equal(await page.evaluate(() => window.asked), 0);
        await limit.fill("x");
        await limit.press("Enter");
        await page.getByText("Type a price in gwei, such as 1.5.").first().waitFor();
        await limit.fill("21.5");
        await limit.press("Enter");
        await page.locator(".alert .word").filter({ hasText: "Notifications are blocked" }).waitFor();
        await page.evaluate(() => (window.permission = "granted"));
        await limit.press("Enter");
        await page.locator(".alert .word").filter({ hasText: "You get one notification" }).waitFor();
        await dashboard.checkLayout("notification", { shots, widths: [360, 1440] });
        await checkAccessibility(page, "notification");
        await page.getByRole("button", { name: "Turn off" }).click();
        await page.locator(".alert .word").filter({ hasText: "The notification is off." }).waitFor();
        await page.getByRole("button", { name: "Tell me" }).click();
        await hide(page, true);
        const titles = () => page.evaluate(() => window.shown);
        const title = await page.title();
        chain.reward = 30n * 10n ** 9n;
        chain.newest += 1;
        await until(() => page.title(), (now) => now !== title);
        assert.deepEqual(await titles(), []);
        chain.reward = 20n * 10n ** 9n;
        chain.newest += 1;
        await until(titles, (found) => found.length > 0);
        await hide(page, false);
        await page.locator(".alert .word").filter({ hasText: "The price fell below your limit." }).waitFor();
        chain.newest += 1;
        await dashboard.waitForBlockAbove("ronin", 102);
        assert.deepEqual(await titles(), ["ronin: 21 gwei"]);
    }, { init });
});

scenario("the component shows a price in pages of other origins", async () => {
    const chain = nodes.chain(402);
    const times = 'block_time = "1s"\nmax_age = "4s"\nstall_after = "0s"';
    const service = await start({ config: chainConfig(nodes, { ronin: { ...chain, more: times } }) });
    const html = `<!doctype html><title>t</title><gas-suggestion chain="ronin"></gas-suggestion>
        <gas-suggestion service="${service.url}" chain="ronin" tier="high"></gas-suggestion>
        <gas-suggestion chain="unknown"></gas-suggestion>
        <script type="module" src="${service.url}/gas-suggestion.js"></script>`;
    const server = createServer((_, response) => response.writeHead(200, { "content-type": "text/html",
        "content-security-policy": `default-src 'none'; script-src ${service.url}; connect-src ${service.url}; require-trusted-types-for 'script'`,
    }).end(html)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const context = await browser.newContext();
    try {
        const page = await context.newPage();
        // Shortens the interval of 5 s.
        await context.addInitScript(() => {
            const { setInterval } = window;
            window.setInterval = (run, delay) => setInterval(run, Math.min(delay, 500));
        });
        await page.goto(`http://localhost:${server.address().port}/`);
        const shown = () => page.evaluate(() => [...document.querySelectorAll("gas-suggestion")].map((node) =>
            [node.getAttribute("state"), node.shadowRoot.querySelector("b").textContent, node.shadowRoot.querySelector("small").textContent]));
        const becomesShown = (index, ...expected) => until(shown, (all) =>
            all[index].every((text, part) => expected[part] instanceof RegExp ? expected[part].test(text) : text === expected[part]));
        await becomesShown(0, "live", "21 gwei", /^(just now|\d s ago)$/);
        await becomesShown(1, "live", "25 gwei", /ago|now/);
        await becomesShown(2, "unavailable", "–", "unavailable");
        nodes.chains.get("402").isHealthy = false;
        await becomesShown(0, "stale", "21 gwei", /^stale, \d s ago$/);
        await becomesShown(0, "unavailable", "21 gwei", /^unavailable, \d+ s ago$/);
        nodes.chains.get("402").isHealthy = true;
        nodes.chains.get("402").newest += 1;
        await becomesShown(0, "live", "21 gwei", /ago|now/);
        await page.evaluate(() => document.querySelector("gas-suggestion").setAttribute("tier", "high"));
        await becomesShown(0, "live", "25 gwei", /ago|now/);
        await service.stop();
        await becomesShown(0, "disconnected", "25 gwei", /^no connection, \d+ s ago$/);
    } finally {
        await context.close();
        server.close();
        server.closeAllConnections();
    }
});

scenario("forty chains need one stream, no request per chain, and little of a core", async () => {
    const times = 'block_time = "2s"\nmax_age = "1h"';
    const chains = manyChains(40, 2000, times);
    const service = await start({ config: chainConfig(nodes, chains) });
    const ticking = setInterval(() => {
        for (const { id } of Object.values(chains)) nodes.chains.get(String(id)).newest += 1;
    }, 2000);
    try {
        await open(`${service.url}/`, async (dashboard, { requests }) => {
            const { page } = dashboard;
            await dashboard.waitForRow("Chain number 39", ({ points }) => points >= 3);
            const client = await page.context().newCDPSession(page);
            await client.send("Performance.enable", { timeDomain: "timeTicks" });
            const measure = async () => {
                const { metrics } = await client.send("Performance.getMetrics");
                const value = (name) => metrics.find((metric) => metric.name === name).value;
                return { at: value("Timestamp"), busy: value("TaskDuration") };
            };
            const [first, asked] = [await measure(), requests.length];
            const last = await until(measure, ({ at }) => at - first.at >= 10);
            const share = (last.busy - first.busy) / (last.at - first.at);
            console.log(`# 40 chains: the page uses ${(share * 100).toFixed(1)} % of a core`);
            const paths = requests.slice(asked).map((request) => new URL(request.url()).pathname);
            assert.deepEqual(new Set(paths), new Set(["/v1/chains", "/v1/fee-markets"]));
            assert(paths.length <= 16, `${paths.length} requests in 10 s`);
            assert.equal(requests.filter((request) => request.url().endsWith("/stream")).length, 1);
            assert.equal(await service.streams(), 1);
            // Generous: other tests use the same processors.
            assert(share < 0.25, `${share} of a core`);
        });
    } finally {
        clearInterval(ticking);
    }
});

scenario("the first price is there within a second, with few bytes", async () => {
    const service = await start({ demo: ["--block-time", "1s"] });
    for (const hash of ["", "#ethereum"]) {
        const context = await browser.newContext();
        try {
            const page = await context.newPage();
            const client = await context.newCDPSession(page);
            await client.send("Network.enable");
            let bytes = 0;
            client.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
            await page.addInitScript(() => {
                const watch = new MutationObserver(() => {
                    const number = document.querySelector("#chains .number")?.textContent ?? "–";
                    if (number === "–") return;
                    window.firstPriceAt = performance.now();
                    watch.disconnect();
                });
                watch.observe(document, { subtree: true, childList: true, characterData: true });
            });
            await page.goto(`${service.url}/${hash}`);
            await page.waitForFunction(() => window.firstPriceAt);
            const at = await page.evaluate(() => window.firstPriceAt);
            if (hash) {
                // The library of the interactive chart counts too, although it is loaded only with a history.
                await page.evaluate(async () => (await fetch("dashboard/uplot/uPlot.esm.js")).arrayBuffer());
            }
            console.log(`# first price of "/${hash}" after ${Math.round(at)} ms, ${(bytes / 1000).toFixed(0)} kB`);
            assert(bytes > 20_000 && bytes < 150_000, `${bytes} bytes`);
            // Generous: other tests use the same processors.
            assert(at < 3000, `${at} ms`);
        } finally {
            await context.close();
        }
    }
});

describe("the dashboard of many chains", { concurrency: 2 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
