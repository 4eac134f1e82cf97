// Tests of the dashboard in Chromium: `node dashboard.mjs '{"binary":…,"listen":…,"shots":…}'`.
//
// `binary` is the service, which the tests start and stop. `listen` is the address of the service that restarts. The
// tests save a screenshot of each state in both colour schemes and several widths in the folder `shots`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, focused, launch, checkLayout, until, visit } from "./browser.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, listen, shots } = JSON.parse(process.argv[2]);

// A host name other than localhost, so that the origin is not secure.
const INSECURE_HOST = "gas.example";
// Widths from the narrowest that WCAG requires (320), a phone and a zoomed window to a wide screen.
const ALL_WIDTHS = { shots, widths: [320, 360, 640, 1280, 1920], unseen: [320, 640] };
const FEW_WIDTHS = { shots, widths: [320, 1280], unseen: [320] };

let browser;
let nodes;
const folder = mkdtempSync(join(tmpdir(), "dashboard-"));
before(async () => {
    mkdirSync(shots, { recursive: true });
    browser = await launch(`--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`);
    nodes = await Nodes.start();
});
after(async () => {
    await browser?.close();
    await stopAll();
    rmSync(folder, { recursive: true });
});

const start = (options) => Service.start({ binary, folder, ...options });

const FEES = 'pricing.base_fee_floor = "1 gwei"\npricing.priority_fee_floor = "20 gwei"\n' +
    "pricing.base_fee_change_denominator = 8";

// Returns a configuration with these chains by key, preceded by `more`. By default a chain's data expires 4 s
// after its node stops responding.
function chainConfig(chains, more = "") {
    const tables = Object.entries(chains).map(([key, { id, name = key, more = "" }]) => {
        const times = 'block_time = "1s"\nmax_age = "4s"\nstall_after = "0s"';
        return `[chains.${key}]\nchain_id = ${id}\nname = ${JSON.stringify(name)}\n` +
            `rpc_urls = ["${nodes.url(id)}"]\n${FEES}\n${more || times}\n`;
    });
    return `[verification]\nurl = ""\n[delegation]\nsource = "off"\n${more}\n${tables.join("")}`;
}

// With blocks this rare, nothing changes during a test.
const STILL = 'block_time = "1h"\nmax_age = "3h"';

const scenarios = [];
function scenario(name, run) {
    scenarios.push([name, run]);
}

// Runs in the page: returns the visible content of the cards.
function cards() {
    const isSeen = (node) => node.checkVisibility();
    const text = (node, selector) => [...node.querySelectorAll(selector)].find(isSeen)?.textContent;
    const pairs = (node) => Object.fromEntries([...node.querySelectorAll("dt")].filter(isSeen)
        .map((term) => [term.textContent, term.nextElementSibling.textContent]));
    return [...document.querySelectorAll("#cards > article")].map((card) => ({
        name: text(card, "h2"),
        id: text(card, ".id"),
        badge: text(card, ".badge"),
        problem: text(card, ".problem"),
        when: pairs(card.querySelector(".when")),
        tiers: [...card.querySelectorAll(".tier")].filter(isSeen).map((tier) => [
            text(tier, "h3"),
            ...[...tier.querySelectorAll("dl > div")].filter(isSeen)
                .map((row) => [text(row, "dt"), text(row, ".number"), text(row, ".digits")]),
        ]),
        base: [text(card, ".base .number"), text(card, ".base .digits")],
        of: text(card, ".of"),
        market: pairs(card.querySelector(".market")),
    }));
}

class Dashboard {
    constructor(page) {
        this.page = page;
        this.banner = page.locator("#banner");
    }

    async cards() {
        return this.page.evaluate(cards);
    }

    // Waits until `holds` returns true for the card with this name and `given`. Returns the card.
    async waitForCard(name, holds, given) {
        const isThere = new Function("given", `
            const card = (${cards})().find(({ name }) => name === given.name);
            return card && (${holds})(card, given.given) ? card : false;`);
        const found = await this.page.waitForFunction(isThere, { name, given }).catch((error) => {
            error.message += `\n--- wanted of ${name}: ${holds}`;
            throw error;
        });
        return found.jsonValue();
    }

    async waitForLive(name) {
        return this.waitForCard(name, ({ badge }) => badge === "Live");
    }

    // Waits for a live card with a block above this one.
    async waitForBlockAbove(name, block) {
        const isAbove = ({ badge, when }, block) => badge === "Live" && Number(when.Block) > block;
        return this.waitForCard(name, isAbove, Number(block));
    }

    async waitForBanner(banner) {
        await this.banner.filter({ hasText: banner }).waitFor();
    }

    async waitForNoBanner() {
        await becomes(this.page, () => document.querySelector("#banner").textContent, "");
    }

    async waitForTitle(title) {
        await becomes(this.page, () => document.title, title);
    }

    // Waits until the status region has announced `text`.
    async waitForAnnouncement(text) {
        const isAnnounced = (text) => window.announcements.some((announcement) => announcement.includes(text));
        await this.page.waitForFunction(isAnnounced, text);
    }

    // Waits until the focused button has this label and the status region this text.
    async waitForButton(button, text) {
        const isBoth = ({ button, text }) => document.activeElement.textContent === button &&
            document.querySelector("#news").textContent === text;
        await this.page.waitForFunction(isBoth, { button, text });
    }

    async checkLayout(name, widths = FEW_WIDTHS) {
        await checkLayout(this.page, name, widths);
    }
}

const open = (url, run, options = {}) => visit(browser, url, options, async (page, seen) => {
    await page.evaluate(() => {
        const news = document.querySelector("#news");
        window.announcements = [];
        const watch = new MutationObserver(() => window.announcements.push(news.textContent));
        watch.observe(news, { childList: true });
    });
    await run(new Dashboard(page), seen);
});

// Converts a displayed amount in gwei to wei.
function wei(gwei) {
    const [, whole, fraction = ""] = /^(0|[1-9]\d*)(?:\.(\d{0,8}[1-9]))?$/.exec(gwei);
    return String(BigInt(whole + fraction.padEnd(9, "0")));
}

function inWei([label, gwei, digits]) {
    assert.equal(wei(gwei), digits);
    return [label, digits];
}

// Returns a card's prices in the form of `expectedPrices`. Checks that the amounts in gwei and in wei are equal.
function shownPrices({ tiers: [[, ...medium], [, ...high]], base: [gwei, digits] }) {
    assert.equal(wei(gwei), digits);
    return { base: digits, medium: medium.map(inWei), high: high.map(inWei) };
}

function expectedPrices({ base_fee_per_gas: base, medium, high }) {
    const rows = (tier) => [
        ["Max fee", tier.max_fee_per_gas], ["Priority fee", tier.max_priority_fee_per_gas],
    ];
    return { base, medium: rows(medium), high: rows(high) };
}

scenario("prices follow the blocks without a reload and match the API", async () => {
    const service = await start({ demo: ["--block-time", "400ms"] });
    await open(`${service.url}/`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ethereum");
        await dashboard.waitForLive("base");
        // The page records every change of the cards.
        await page.evaluate((cards) => {
            const read = new Function(`return (${cards})()`);
            window.painted = [];
            const options = { subtree: true, childList: true, characterData: true, attributes: true };
            const watch = new MutationObserver(() => window.painted.push(...read()));
            watch.observe(document.querySelector("#cards"), options);
        }, cards.toString());
        const markets = new Map();
        const recorded = () => Math.min(...["ethereum", "base"].map((chain) =>
            [...markets.keys()].filter((key) => key.startsWith(chain)).length));
        await until(async () => {
            for (const chain of ["ethereum", "base"]) {
                const market = await (await fetch(`${service.url}/v1/${chain}/fee-market`)).json();
                markets.set(`${chain} ${market.newest_block}`, market);
            }
            return recorded();
        }, (count) => count >= 8);
        for (const chain of ["ethereum", "base"]) {
            const blocks = [...markets].filter(([key]) => key.startsWith(chain));
            const newest = Math.max(...blocks.map(([, { newest_block: block }]) => block));
            await dashboard.waitForBlockAbove(chain, newest);
        }
        const compared = new Set();
        for (const card of await page.evaluate(() => window.painted)) {
            const priced = markets.get(`${card.name} ${card.when.Block}`);
            if (priced) {
                assert.deepEqual(shownPrices(card), expectedPrices(priced.suggestion));
                compared.add(`price of ${card.name} at ${priced.newest_block}`);
            }
            const market = markets.get(`${card.name} ${card.of.replace("at block ", "")}`);
            if (!market) continue;
            const covers = ["medium", "high"].map((tier) => {
                const count = market.covers_full_blocks[tier];
                return `${tier} ${count === 100 ? "100 or more" : count}`;
            });
            const [[next, average, ...rest], gwei] = [Object.values(card.market), / gwei( over 20 blocks)?$/];
            assert.deepEqual([...[next, average].map((text) => wei(text.replace(gwei, ""))), ...rest], [
                market.next_base_fee_per_gas, market.average_base_fee_per_gas, market.base_fee_trend,
                `${Math.round(market.gas_used_ratio.latest * 100)} %, ` +
                    `on average ${Math.round(market.gas_used_ratio.average * 100)} %`,
                covers.join(", "),
            ]);
            compared.add(`market of ${card.name} at ${market.newest_block}`);
        }
        for (const kind of ["price of ethereum", "price of base", "market of ethereum", "market of base"]) {
            const count = [...compared].filter((one) => one.startsWith(kind)).length;
            assert(count >= 5, `${kind}: only ${count} blocks compared`);
        }
        assert.equal(requests.filter((request) => request.isNavigationRequest()).length, 1);
        const streams = requests.filter((request) => request.url().endsWith("/stream"));
        assert.deepEqual(streams.map((request) => request.url()),
            [`${service.url}/v1/gas-suggestions/stream`]);
    });
});

// Runs in the page: returns the visible texts of each card's score.
function scores() {
    return [...document.querySelectorAll("#cards > article")].map((card) => {
        const score = card.querySelector(".score");
        if (!score.checkVisibility()) return null;
        const texts = (selector) => [...score.querySelectorAll(selector)].map((node) => node.textContent);
        return { title: texts("summary")[0], cells: texts("tbody td"), notes: texts("p").length };
    });
}

scenario("scores of cards in view are loaded once a minute, not per block", async () => {
    const service = await start({ demo: ["--block-time", "200ms"] });
    const viewport = { width: 360, height: 500 };
    await open(`${service.url}/`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        const paths = () => requests.map((request) => new URL(request.url()).pathname)
            .filter((path) => path.endsWith("/score"));
        const asked = (count) => until(() => paths().length, (found) => found === count);
        const shown = () => page.evaluate(scores);
        const { when } = await dashboard.waitForLive("ethereum");
        await asked(1);
        await dashboard.waitForBlockAbove("ethereum", Number(when.Block) + 30);
        assert.deepEqual(paths(), ["/v1/ethereum/score"]);
        assert.equal((await shown())[1], null);
        await page.getByRole("article", { name: "base" }).scrollIntoViewIfNeeded();
        await asked(2);
        assert.equal(paths()[1], "/v1/base/score");
        // A minute later.
        await page.evaluate(() => {
            for (const clock of [Date, performance]) {
                const now = clock.now.bind(clock);
                clock.now = () => now() + 60_000;
            }
        });
        await page.setViewportSize({ width: 1280, height: 2000 });
        await asked(4);
        const last = await Promise.all(["ethereum", "base"].map(async (key) => {
            const request = requests.findLast((request) => request.url().endsWith(`/v1/${key}/score`));
            return (await request.response()).json();
        }));
        const titles = last.map(({ window }) => `How the last ${window.heads} suggestions did`);
        await until(async () => (await shown()).map((one) => one?.title), (found) => String(found) === String(titles));
        for (const [index, { tiers: { medium, high }, tips_decide: tipsDecide }] of last.entries()) {
            const share = (value) => `${Math.round(value * 1000) / 10} %`;
            const times = ({ price_over_fair: { p50 } }) => (p50 === null ? "–" : `${p50.toFixed(2)} ×`);
            const { cells, notes } = (await shown())[index];
            assert.deepEqual(cells, [
                ...[medium, high].map(({ covered }) => share(covered[5])),
                ...[10, 50].flatMap((p) => [medium, high].map(({ outbid }) => share(outbid[p]))),
                ...[medium, high].map(times),
            ]);
            assert(notes >= (tipsDecide ? 1 : 2));
        }
        for (const summary of await page.locator(".score summary").all()) await summary.press("Enter");
        assert.equal(await page.getByRole("row", { name: /^Covered the base fee 5 blocks later / }).count(), 2);
        await dashboard.checkLayout("score", { shots, widths: [320, 360, 900, 1440], unseen: [320] });
        assert.equal(paths().length, 4);
    }, { viewport });
});

scenario("a score without the needed percentiles says why it is incomplete", async () => {
    const chain = nodes.chain(26);
    const service = await start({ config: chainConfig({ still: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.locator(".score summary").filter({ hasText: "How the last suggestion did" }).click();
        // Percentile 60, which the service requests, has a row besides.
        assert.deepEqual((await page.evaluate(scores))[0].cells, Array(10).fill("–"));
        await page.getByRole("row", { name: "Outbid 60 % of the next block" }).waitFor();
        const cell = page.getByRole("row", { name: "Outbid a tenth of the next block" }).getByRole("cell").last();
        const reason = "the service does not request this reward percentile (score.percentiles)";
        assert.equal(await cell.getAttribute("title"), reason);
        await page.getByText(`–: ${reason}`).waitFor();
        await page.getByText("–: the block is not mined yet").waitFor();
        await dashboard.checkLayout("score-unknown", { shots, widths: [320, 360, 900, 1440], unseen: [320] });
    });
});

scenario("charts follow the blocks, without concurrent duplicate requests", async () => {
    const CHART = "/v1/ethereum/fee-history.svg";
    const service = await start({ demo: ["--block-time", "200ms"] });
    const proxy = await Proxy.start(service.url);
    await open(`${proxy.url}/`, async ({ page }, { requests }) => {
        const inFlight = new Set();
        const most = new Map();
        const kind = (request) => new URL(request.url()).pathname;
        page.on("request", (request) => {
            inFlight.add(request);
            const alike = [...inFlight].filter((other) => kind(other) === kind(request)).length;
            most.set(kind(request), Math.max(alike, most.get(kind(request)) ?? 0));
        });
        for (const end of ["requestfinished", "requestfailed"]) {
            page.on(end, (request) => inFlight.delete(request));
        }
        // The delay is longer than the block time.
        proxy.pauseMs = 500;
        await page.reload();
        const chart = page.getByRole("article", { name: "ethereum" }).getByRole("img");
        const seen = new Set();
        await until(async () => {
            await chart.waitFor();
            const { src, alt, width } = await chart.evaluate((node) =>
                ({ src: node.src, alt: node.alt, width: node.naturalWidth }));
            const { pathname, searchParams } = new URL(src);
            assert.equal(pathname, "/v1/ethereum/fee-history.svg");
            assert.equal(searchParams.get("blocks"), "60");
            assert.match(alt, /^Chart of ethereum’s recent blocks. At block \d+: base fee (rising|stable|falling), [\d.]+ gwei over 20 blocks, next [\d.]+ gwei; gas used \d+ %, on average \d+ %.$/);
            const [block] = searchParams.get("of").split("-");
            assert(alt.includes(`At block ${block}:`), `${alt} at ${src}`);
            assert.equal(width, 800);
            return seen.add(src).size;
        }, (count) => count >= 4);
        const asked = [...most].filter(([path]) => path.startsWith("/v1/"));
        assert.deepEqual(new Set(asked.map(([, count]) => count)), new Set([1]), JSON.stringify(asked));
        for (const path of ["/v1/base/fee-history.svg", "/v1/base/fee-market", "/v1/chains"]) {
            assert(most.has(path), path);
        }
        proxy.pauseMs = 0;
        // An unavailable chart is replaced by a message.
        proxy.rule = (path) => (path.includes(".svg") ? 404 : "pass");
        await page.getByRole("article", { name: "ethereum" }).getByText("The chart is not available").waitFor();
        await until(() => chart.count(), (count) => count === 0);
        await checkLayout(page, "no-chart", FEW_WIDTHS);
        const before = requests.length;
        proxy.rule = () => "pass";
        await chart.waitFor();
        assert.equal(await page.getByText("The chart is not available").filter({ visible: true }).count(), 0);
        // Several polls lie between the last failed request for the chart and the next one: no retry at once.
        const paths = requests.map(kind);
        const [failed, retried] = [paths.lastIndexOf(CHART, before - 1), paths.indexOf(CHART, before)];
        assert(paths.slice(failed, retried).filter((path) => path === "/v1/chains").length > 1);
    });
});

scenario("a chart follows price changes within a block and is retried", async () => {
    const chain = nodes.chain(25);
    const config = chainConfig({ still: { ...chain, more: 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"' } });
    const service = await start({ config });
    const proxy = await Proxy.start(service.url);
    proxy.rule = (path) => (path.includes(".svg") ? 503 : "pass");
    await open(`${proxy.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.getByText("The chart is not available").waitFor();
        proxy.rule = () => "pass";
        const chart = page.getByRole("article").getByRole("img");
        await chart.waitFor();
        assert.match(await chart.getAttribute("alt"), /At block 100: .* next 1 gwei/);
        chain.baseFee *= 4n;
        await becomes(page, () => /At block 100: .* next 4 gwei/.test(document.querySelector("#cards img").alt), true);
        const shown = await dashboard.waitForLive("still");
        assert.deepEqual([shown.when.Block, shown.tiers[0][1]], ["100", ["Max fee", "28", "28000000000"]]);
    });
});

scenario("six windows leave a connection for further requests", async () => {
    const service = await start({ demo: ["--block-time", "500ms"] });
    await open(`${service.url}/`, async ({ page }) => {
        const pages = [page];
        while (pages.length < 6) {
            const other = await page.context().newPage();
            await other.goto(`${service.url}/`);
            pages.push(other);
        }
        // All windows show market data that is less than 20 blocks behind the displayed block.
        for (const page of pages) {
            await page.waitForFunction((cards) => {
                const shown = new Function(`return (${cards})()`)();
                const isAbout = ({ when, of }) => when.Block - /\d+/.exec(of)?.[0] < 20;
                return shown.length === 2 && shown.every(isAbout);
            }, String(cards));
            const list = await page.evaluate(async () => (await fetch("v1/chains")).status);
            assert.equal(list, 200);
        }
        await Promise.all(pages.slice(1).map((page) => page.close()));
    });
});

scenario("a stopped service is reported, and followed again after a restart", async () => {
    const options = { demo: ["--block-time", "500ms"], listen };
    let service = await start(options);
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.evaluate(() => (window.mark = "same"));
        await dashboard.waitForBlockAbove("base", 0);
        const { when } = await dashboard.waitForLive("ethereum");
        await dashboard.waitForBlockAbove("ethereum", when.Block);
        await page.locator("#cards img").nth(1).waitFor();
        await dashboard.checkLayout("live", ALL_WIDTHS);
        await service.stop();
        await dashboard.waitForBanner(/^Disconnected from the service since .*\d.*\. Retrying…$/);
        assert.equal(await dashboard.banner.getAttribute("role"), "status");
        await dashboard.waitForTitle("Disconnected – Gas prices");
        const last = await dashboard.waitForCard("ethereum", ({ badge }) => badge === "Not live");
        assert.equal(last.when["Next block"], "unknown");
        const older = ({ when }, { Data }) => when.Data !== Data && /^read [1-9]\d* s ago$/.test(when.Data);
        const later = await dashboard.waitForCard("ethereum", older, last.when);
        const oldest = await dashboard.waitForCard("ethereum", older, later.when);
        assert.deepEqual({ ...oldest, when: { ...oldest.when, Data: "" } },
            { ...last, when: { ...last.when, Data: "" } });
        assert.equal(last.tiers.length, 2);
        await dashboard.checkLayout("disconnected", ALL_WIDTHS);
        service = await start(options);
        await dashboard.waitForAnnouncement("Reconnected to the service.");
        await dashboard.waitForNoBanner();
        const restored = await dashboard.waitForLive("ethereum");
        await dashboard.waitForBlockAbove("ethereum", restored.when.Block);
        await dashboard.waitForLive("base");
        await dashboard.waitForTitle("Gas prices");
        assert.equal(await page.evaluate(() => window.mark), "same");
    });
});

scenario("a restart with other chains changes the cards", async () => {
    const [one, two, three] = [31, 32, 33].map((id) => nodes.chain(id));
    const service = await start({ config: chainConfig({ one, two }) });
    const { address } = service;
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.waitForLive("one");
        await dashboard.waitForLive("two");
        await service.stop();
        await dashboard.waitForBanner("Disconnected");
        await start({ config: chainConfig({ two: { ...two, name: "zwei" }, three }), listen: address });
        await dashboard.waitForLive("three");
        await dashboard.waitForLive("zwei");
        const names = (await dashboard.cards()).map(({ name, id }) => [name, id]);
        assert.deepEqual(names, [["zwei", "chain id 32"], ["three", "chain id 33"]]);
    });
});

scenario("stale data is labelled and expired data is hidden", async () => {
    const [well, failing] = [nodes.chain(41), nodes.chain(42)];
    failing.isHealthy = false;
    const config = chainConfig({ well: { ...well, more:
        'block_time = "1s"\nmax_age = "8s"\nstall_after = "2s"' }, failing });
    const service = await start({ config });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        const waitForProblem = (name, problem) =>
            dashboard.waitForCard(name, (card, problem) => card.problem === problem, problem);
        const none = await waitForProblem("failing", "No data received yet.");
        const nothing = { tiers: [], base: [null, null], of: null, market: {} };
        const when = { Block: "–", Data: "–", "Next block": "–" };
        const expected = (name, id, problem) =>
            ({ name, id: `chain id ${id}`, badge: "No data", problem, when, ...nothing });
        const asJson = (value) => JSON.parse(JSON.stringify(value, (_, one) => one ?? null));
        assert.deepEqual(asJson(none), expected("failing", 42, "No data received yet."));
        // The chain was stalled before the page was opened.
        const isStalled = ({ problem }) => problem?.startsWith("Stale: no new block");
        const first = await dashboard.waitForCard("well", isStalled);
        assert.match(first.problem, /^Stale: no new block for some time\.$/);
        assert.deepEqual([first.when.Block, first.badge], ["100", "Stale"]);
        assert.deepEqual(first.tiers[0][1], ["Max fee", "22", "22000000000"]);
        assert.equal(first.when["Next block"], "not known yet");
        await dashboard.waitForTitle("2 of 2 not up to date – Gas prices");
        await dashboard.checkLayout("stale");
        well.newest += 1;
        await dashboard.waitForAnnouncement("well is up to date again.");
        const next = await dashboard.waitForBlockAbove("well", 100);
        assert.match(next.when["Next block"], /^(in |due now|overdue by)/);
        await dashboard.waitForCard("well", ({ when }) => /^overdue by \d+ s$/.test(when["Next block"]));
        const second = await dashboard.waitForCard("well", isStalled);
        assert.match(second.problem, /^Stale: no new block for \d+ s\.$/);
        well.isHealthy = false;
        const old = await waitForProblem("well", "Stale: the data is older than two block times.");
        assert.deepEqual(old.tiers, second.tiers);
        const problem = "The newest data is too old to serve.";
        // The card shows the reason a little later.
        const without = await dashboard.waitForCard("well", ({ badge }) => badge === "No data");
        assert.deepEqual(asJson({ ...without, problem }), expected("well", 41, problem));
        const gone = await waitForProblem("well", problem);
        assert.deepEqual(asJson(gone), expected("well", 41, problem));
        await dashboard.waitForAnnouncement(`well: ${problem}`);
        assert.equal(await page.locator("#cards img").filter({ visible: true }).count(), 0);
        await dashboard.checkLayout("no-data");
        well.isHealthy = failing.isHealthy = true;
        well.newest += 1;
        await dashboard.waitForBlockAbove("well", 101);
        await dashboard.waitForBlockAbove("failing", 99);
    });
});

scenario("a chain with legacy pricing has one gas price per tier", async () => {
    const chain = nodes.chain(51, { baseFee: 0n, reward: 21n * 10n ** 9n });
    const service = await start({ config: chainConfig({ old: chain }) });
    await open(`${service.url}/`, async (dashboard) => {
        const legacy = await dashboard.waitForLive("old");
        assert.deepEqual(legacy.tiers, [
            ["Medium", ["Gas price", "21", "21000000000"]],
            ["High", ["Gas price", "25.2", "25200000000"]],
        ]);
        assert.equal(legacy.base[0], undefined);
        await dashboard.page.locator("#cards img").waitFor();
        await dashboard.checkLayout("legacy");
        await dashboard.waitForTitle("21 gwei on old – Gas prices");
        chain.baseFee = 1n;
        chain.newest += 1;
        const { tiers } = await dashboard.waitForCard("old", ({ tiers }) => tiers[0].length === 3);
        assert.deepEqual(tiers[0], ["Medium", ["Max fee", "23", "23000000000"],
            ["Priority fee", "21", "21000000000"]]);
    });
});

scenario("polls replace a refused stream until it opens", async () => {
    const chain = nodes.chain(61);
    const service = await start({ config: chainConfig({ chain }, "[limits]\nmax_streams = 1") });
    const other = await fetch(`${service.url}/v1/61/gas-suggestion/stream`);
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.waitForBanner("Live updates are not available; polling every 2 s. Reconnecting…");
        const polled = await dashboard.waitForCard("chain", ({ badge }) => badge === "Polled");
        assert.equal(polled.when.Block, "100");
        await dashboard.checkLayout("polled");
        chain.newest += 1;
        chain.reward *= 2n;
        const { tiers, badge } = await dashboard.waitForCard("chain", ({ when }) => when.Block === "101");
        assert.equal(badge, "Polled");
        assert.deepEqual(tiers[0][1], ["Max fee", "42", "42000000000"]);
        await other.body.cancel();
        await dashboard.waitForNoBanner();
        await dashboard.waitForLive("chain");
        assert.equal(await service.streams(), 1);
        chain.newest += 1;
        await dashboard.waitForBlockAbove("chain", 101);
    });
});

scenario("a dead or failing stream is reopened", async () => {
    const chain = nodes.chain(71);
    const service = await start({ config: chainConfig({ chain }) });
    const proxy = await Proxy.start(service.url);
    const streams = () => proxy.received.filter((path) => path.endsWith("/stream")).length;
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.waitForLive("chain");
        assert.equal(streams(), 1);
        // The stream goes silent without an error, which the page detects with its polls.
        proxy.isMute = true;
        chain.newest += 1;
        await dashboard.waitForBlockAbove("chain", 100);
        await dashboard.page.waitForRequest((request) => request.url().endsWith("/stream"));
        proxy.isMute = false;
        await dashboard.waitForNoBanner();
        const live = await dashboard.waitForLive("chain");
        // After a 503, which a proxy without an upstream sends, browsers do not reconnect the stream by themselves.
        proxy.rule = () => 503;
        proxy.server.closeAllConnections();
        await dashboard.waitForBanner(/since .* \(status 503\)\. Retrying…$/);
        assert.deepEqual((await dashboard.cards())[0].tiers, live.tiers);
        const before = streams();
        await dashboard.page.waitForRequest((request) => request.url().endsWith("/stream"));
        assert(streams() >= before);
        proxy.rule = () => "pass";
        await dashboard.waitForNoBanner();
        chain.newest += 1;
        await dashboard.waitForBlockAbove("chain", 101);
    });
});

scenario("a silent service is disconnected even if no connection closes", async () => {
    const chain = nodes.chain(72);
    const service = await start({ config: chainConfig({ chain }) });
    const proxy = await Proxy.start(service.url);
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.waitForLive("chain");
        proxy.isMute = true;
        proxy.rule = () => "hold";
        // Meanwhile the page updates the ages itself.
        const later = ({ when }, { Data }) => when.Data !== Data;
        const [{ when }] = await dashboard.cards();
        const second = await dashboard.waitForCard("chain", later, when);
        await dashboard.waitForCard("chain", later, second.when);
        assert.equal(await dashboard.banner.textContent(), "");
        await dashboard.waitForBanner(/^Disconnected from the service since [^(]*\. Retrying…$/);
        await dashboard.waitForCard("chain", ({ badge }) => badge === "Not live");
        await until(() => proxy.held, (held) => held.some((path) => path.endsWith("/stream")));
        const responded = [];
        dashboard.page.on("response", (response) => {
            if (response.ok()) responded.push(new URL(response.url()).pathname.split("/").at(-1));
        });
        proxy.isMute = false;
        proxy.rule = () => "pass";
        await dashboard.waitForNoBanner();
        await dashboard.waitForLive("chain");
        // The held stream stays silent, so the page opens another one after the first successful list of chains.
        const order = responded.filter((path) => ["stream", "chains"].includes(path));
        assert.deepEqual(order.slice(0, 2), ["chains", "stream"]);
    });
});

scenario("loading the chains is retried", async () => {
    const chain = nodes.chain(81);
    const service = await start({ config: chainConfig({ chain }) });
    const proxy = await Proxy.start(service.url);
    proxy.rule = (path) => (path.startsWith("/v1/") ? 404 : "pass");
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.waitForBanner("No response from the service yet (status 404). Retrying…");
        assert.deepEqual(await dashboard.cards(), []);
        await dashboard.checkLayout("no-chains");
        proxy.rule = () => "pass";
        await dashboard.waitForLive("chain");
        await dashboard.waitForNoBanner();
    });
});

scenario("a hidden page sends no requests and resumes at once when visible", async () => {
    const service = await start({ demo: ["--block-time", "300ms"] });
    await open(`${service.url}/`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        const turn = (isHidden) => page.evaluate((isHidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }, isHidden);
        const streams = (count) => until(() => service.streams(), (found) => found === count);
        const newest = async () =>
            (await (await fetch(`${service.url}/v1/chains`)).json())[0].newest_block;
        const { when } = await dashboard.waitForLive("ethereum");
        await streams(1);
        await turn(true);
        await streams(0);
        await dashboard.waitForTitle("Gas prices");
        // Requests that were in flight have been sent by now.
        const [asked, block] = [requests.length, await newest()];
        // Nine blocks take longer than the poll interval.
        await until(newest, (found) => found >= block + 9);
        assert.deepEqual(requests.slice(asked).map((request) => request.url()), []);
        assert((await dashboard.cards())[0].when.Block < block + 9);
        await turn(false);
        await dashboard.waitForBlockAbove("ethereum", Math.max(block, Number(when.Block)));
        await dashboard.waitForNoBanner();
        await streams(1);
        const first = requests.slice(asked).map((request) => new URL(request.url()).pathname);
        assert.deepEqual(first.slice(0, 2).sort(), ["/v1/chains", "/v1/gas-suggestions/stream"]);
        // The step of the clock looks like a sleep of the machine. The page then reopens the stream, which may be dead.
        const opened = page.waitForRequest((request) => request.url().endsWith("/stream"));
        await page.evaluate(() => {
            const { now } = Date;
            Date.now = () => now() + 8 * 3600 * 1000;
        });
        await opened;
        await streams(1);
        await dashboard.waitForLive("ethereum");
        const streamsAsked = () => requests.filter((request) => request.url().endsWith("/stream")).length;
        const before = streamsAsked();
        await dashboard.waitForBlockAbove("ethereum", (await newest()) + 2);
        assert.equal(streamsAsked(), before);
    });
});

scenario("amounts in wei can be copied with the keyboard alone", async () => {
    const chain = nodes.chain(91);
    const service = await start({ config: chainConfig({ ronin: { ...chain, more: STILL } }) });
    const copying = async (dashboard, name, digits) => {
        await dashboard.page.keyboard.press("Tab");
        assert.deepEqual(await focused(dashboard.page), [`Copy wei ${name}`, true]);
        await dashboard.page.keyboard.press("Enter");
        await dashboard.waitForButton(`Copied ${name}`, `Copied ${digits} wei.`);
    };
    const rows = [
        ["medium max fee of ronin", "22000000000"],
        ["medium priority fee of ronin", "20000000000"],
        ["high max fee of ronin", "26000000000"],
        ["high priority fee of ronin", "24000000000"],
    ];
    const permissions = ["clipboard-read", "clipboard-write"];
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        for (const [name, digits] of rows) {
            await copying(dashboard, name, digits);
            assert.equal(await page.evaluate(() => navigator.clipboard.readText()), digits);
        }
        await dashboard.checkLayout("focus");
        await page.getByRole("button", { name: "Copy wei medium max fee of ronin", exact: true }).waitFor();
    }, { permissions });
    // An insecure origin has no clipboard API.
    const elsewhere = service.url.replace("127.0.0.1", INSECURE_HOST);
    await open(`${elsewhere}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof navigator.clipboard]),
            [false, "undefined"]);
        await copying(dashboard, ...rows[0]);
        await copying(dashboard, ...rows[1]);
        // The test pastes the text to read the clipboard.
        await page.evaluate(() => {
            const field = document.createElement("textarea");
            field.id = "pasted";
            document.body.append(field);
        });
        await page.locator("#pasted").press("Control+V");
        assert.equal(await page.locator("#pasted").inputValue(), rows[1][1]);
        await page.evaluate(() => (document.execCommand = () => false));
        await page.getByRole("button", { name: "Copy wei high max fee of ronin" }).press("Enter");
        await dashboard.waitForButton("Copy failed high max fee of ronin",
            "Copy failed: the browser blocked access to the clipboard.");
        await dashboard.checkLayout("not-copied");
    });
});

const SNAPSHOT = `\
- main:
  - heading "Gas prices" [level=1]
  - paragraph: Suggested gas prices, updated with every block.
  - status
  - article "ronin":
    - heading "ronin" [level=2]
    - paragraph: chain id 2020
    - paragraph: Live
    - term: Block
    - definition: "100"
    - term: Data
    - definition: read just now
    - term: Next block
    - definition: not known yet
    - heading "Medium" [level=3]
    - term: Max fee
    - definition:
      - text: 22 gwei 22000000000 wei
      - button "Copy wei medium max fee of ronin"
    - term: Priority fee
    - definition:
      - text: 20 gwei 20000000000 wei
      - button "Copy wei medium priority fee of ronin"
    - heading "High" [level=3]
    - term: Max fee
    - definition:
      - text: 26 gwei 26000000000 wei
      - button "Copy wei high max fee of ronin"
    - term: Priority fee
    - definition:
      - text: 24 gwei 24000000000 wei
      - button "Copy wei high priority fee of ronin"
    - term: Suggested base fee (included in both)
    - definition: 2 gwei 2000000000 wei
    - heading "Fee market" [level=3]
    - paragraph: at block 100
    - term: Next block’s base fee
    - definition: 1 gwei
    - term: Average base fee
    - definition: 1 gwei over 20 blocks
    - term: Base fee trend
    - definition: stable
    - term: Gas used
    - definition: 50 %, on average 50 %
    - term: Full blocks covered
    - definition: medium 6, high 16
    - group: How the last suggestion did
    - figure:
      - 'img "Chart of ronin’s recent blocks. At block 100: base fee stable, 1 gwei over 20 blocks, next 1 gwei; gas used 50 %, on average 50 %."'
  - status`;

scenario("screen readers get names and roles, and no announced numbers", async () => {
    const chain = nodes.chain(2020);
    const service = await start({ config: chainConfig({ ronin: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        await page.getByRole("img").waitFor();
        await page.getByText("How the last suggestion did").waitFor();
        await dashboard.waitForNoBanner();
        const snapshot = await page.locator("main").ariaSnapshot();
        const compared = snapshot.slice(0, snapshot.indexOf("\n  - paragraph: \"Medium should"));
        assert.equal(compared.replace(/read \d+ s ago/, "read just now"), SNAPSHOT);
        assert.equal(await page.locator("[aria-live], [role=alert], [role=timer], [role=log]").count(), 0);
        assert.equal(await page.locator("#cards [role=status]").count(), 0);
    });
});

scenario("reduced motion disables animations", async () => {
    const service = await start({ demo: ["--block-time", "1s"] });
    for (const [reducedMotion, isMoving] of [["no-preference", true], ["reduce", false]]) {
        await open(`${service.url}/`, async (dashboard) => {
            const { when } = await dashboard.waitForLive("base");
            await dashboard.waitForBlockAbove("base", when.Block);
            const count = await dashboard.page.evaluate(() => document.getAnimations().length);
            assert.equal(count > 0, isMoving, `${reducedMotion}: ${count} animations`);
        }, { reducedMotion });
    }
});

scenario("twelve chains with the longest names and numbers fit", async () => {
    const huge = 123456789012345678901234567890n;
    const limits = ["base", "priority"].map((fee) => `\npricing.max_${fee}_fee = "${huge * 10n} wei"`).join("");
    const chains = Object.fromEntries(Array.from({ length: 12 }, (_, index) => {
        const id = 9_000_000_000 + index;
        const chain = nodes.chain(id, { baseFee: index % 3 ? huge : 0n, reward: huge * BigInt(index % 4) });
        const name = index % 2 ? `סולם ${id}` : `A-chain-without-a-single-space-in-its-very-long-name-${id}`;
        return [`chain-${index}`, { ...chain, name, more: STILL + limits }];
    }));
    const service = await start({ config: chainConfig(chains) });
    await open(`${service.url}/`, async (dashboard) => {
        for (const { name } of Object.values(chains)) await dashboard.waitForLive(name);
        assert.equal((await dashboard.cards()).length, 12);
        await dashboard.page.locator("#cards img").nth(11).waitFor();
        await dashboard.checkLayout("twelve", ALL_WIDTHS);
    });
});

scenario("requests stay below a base path or a proxy prefix", async () => {
    const chain = nodes.chain(95);
    const below = 'base_path = "/proxy/public"';
    const [based, plain] = await Promise.all([`[server]\n${below}`, ""].map((more) =>
        start({ config: chainConfig({ chain }, more) })));
    const proxy = await Proxy.start(plain.url, { prefix: "/some/where" });
    for (const [url, base] of [
        [`${based.url}/proxy/public`, `${based.url}/proxy/public/`],
        [`${proxy.url}/`, `${proxy.url}/`],
    ]) {
        await open(url, async (dashboard, { requests }) => {
            await dashboard.waitForLive("chain");
            await dashboard.page.getByRole("img").waitFor();
            for (const request of requests.slice(url === base ? 0 : 1)) {
                assert(request.url().startsWith(base), request.url());
            }
        });
    }
});

scenario("without JavaScript the page says that it needs it", async () => {
    const service = await start({ demo: [] });
    await open(`${service.url}/`, async ({ page }) => {
        const text = "This page needs JavaScript for live updates. Without it, see the prices at " +
            "v1/gas-suggestions.";
        assert.equal((await page.locator("noscript").innerText()).replace(/\s+/g, " ").trim(), text);
        await page.getByRole("link").click();
        await page.waitForURL(`${service.url}/v1/gas-suggestions`);
    }, { javaScriptEnabled: false });
});

describe("the dashboard", { concurrency: 4 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
