// Tests of the dashboard in Chromium: `node dashboard.mjs '{"binary":…,"listen":…,"shots":…}'`.
//
// `binary` is the service, which the tests start and stop. `listen` is the address of the service that restarts. The
// tests save a screenshot of each state in both colour schemes and several widths in the folder `shots`.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { gwei, price } from "../../src/pages/dashboard/amounts.js";
import { becomes, focused, launch, until } from "./browser.mjs";
import { Dashboard, STILL, blockOf, chainConfig, hide, openDashboard, shownCard } from "./dashboard-page.mjs";
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
const config = (...parts) => chainConfig(nodes, ...parts);
const open = (url, run, options) => openDashboard(browser, url, run, options);

const scenarios = [];
function scenario(name, run) {
    scenarios.push([name, run]);
}

scenario("prices follow the blocks without a reload and match the API", async () => {
    const service = await start({ demo: ["--block-time", "400ms"] });
    for (const chain of ["ethereum", "base"]) {
        await open(`${service.url}/#${chain}`, async (dashboard, { requests }) => {
            const { page } = dashboard;
            await dashboard.waitForLive(chain);
            // The page records every change of what it shows.
            await page.evaluate((card) => {
                const read = new Function(`return (${card})()`);
                window.painted = [];
                const options = { subtree: true, childList: true, characterData: true, attributes: true };
                const watch = new MutationObserver(() => window.painted.push(read()));
                watch.observe(document.querySelector("#chains"), options);
            }, shownCard.toString());
            const markets = new Map();
            await until(async () => {
                const market = await (await fetch(`${service.url}/v1/${chain}/fee-market`)).json();
                markets.set(market.newest_block, market);
                return markets.size;
            }, (count) => count >= 10);
            await dashboard.waitForBlockAbove(chain, Math.max(...markets.keys()));
            const compared = new Set();
            for (const card of await page.evaluate(() => window.painted)) {
                const market = markets.get(blockOf(card));
                if (!market || card.of.replaceAll(",", "") !== `at block ${market.newest_block}`) continue;
                const { suggestion: { medium }, next_base_fee_per_gas: next, expected_price_per_gas: expected } = market;
                const [cap, paid] = [BigInt(medium.max_fee_per_gas), BigInt(next) + BigInt(medium.max_priority_fee_per_gas)];
                const wei = paid < cap ? paid : cap;
                assert.equal(String(wei), expected.medium);
                assert.equal(card.exact.replaceAll(",", ""), `${wei} wei`);
                assert.equal(card.price, price(wei));
                assert.equal(card.cap, `Max fee (cap) ${price(cap)}`);
                assert.deepEqual(card.fees, Object.entries({ "Max fee": cap, "Priority fee": medium.max_priority_fee_per_gas })
                    .map(([label, wei]) => [label, `${gwei(wei)} gwei, ${wei} wei`]));
                const covers = ["medium", "high"].map((tier) => {
                    const count = market.covers_full_blocks[tier];
                    return `${tier} ${count === 100 ? "100 or more" : count}`;
                });
                assert.deepEqual(Object.values(card.market).slice(0, 5), [
                    `${gwei(next)} gwei`, `${gwei(market.average_base_fee_per_gas)} gwei over 20 blocks`,
                    market.base_fee_trend,
                    `${Math.round(market.gas_used_ratio.latest * 100)} %, ` +
                        `on average ${Math.round(market.gas_used_ratio.average * 100)} %`,
                    covers.join(", "),
                ]);
                compared.add(market.newest_block);
            }
            assert(compared.size >= 5, `${chain}: only ${compared.size} blocks compared`);
            assert.equal(requests.filter((request) => request.isNavigationRequest()).length, 1);
            const streams = requests.filter((request) => request.url().endsWith("/stream"));
            assert.deepEqual(streams.map((request) => request.url()),
                [`${service.url}/v1/gas-suggestions/stream`]);
            // The other chain is not requested.
            const others = requests.filter((request) => request.url().includes(chain === "base" ? "/v1/ethereum/" : "/v1/base/"));
            assert.deepEqual(others, []);
        });
    }
});

scenario("the toggle and the gas limit change price and costs", async () => {
    const chain = nodes.chain(21);
    const service = await start({ config: config({ ronin: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        const medium = await dashboard.waitForLive("ronin");
        assert.deepEqual([medium.price, medium.exact, medium.cap], ["21 gwei", "21,000,000,000 wei", "Max fee (cap) 22 gwei"]);
        assert.deepEqual(medium.costs, ["0.000441 RON", "0.00137 RON", "0.00315 RON", "0.0021 RON"]);
        await page.getByRole("button", { name: "High", exact: true }).click();
        const high = await dashboard.waitForCard("ronin", ({ price }) => price === "25 gwei");
        assert.deepEqual([high.cap, high.costs[0]], ["Max fee (cap) 26 gwei", "0.000525 RON"]);
        await page.getByLabel("Your gas limit").fill("1 000 000");
        await dashboard.waitForCard("ronin", ({ costs }) => costs[3] === "0.025 RON");
        await page.getByLabel("Your gas limit").fill("x");
        await page.getByText("Type a gas limit in digits.").waitFor();
        await dashboard.waitForCard("ronin", ({ costs }) => costs[3] === "–");
        await dashboard.checkLayout("gas-limit", FEW_WIDTHS);
    });
});

// Runs in the page: returns the visible texts of the score.
function shownScore() {
    const score = document.querySelector(".score");
    if (!score?.checkVisibility()) return null;
    const texts = (selector) => [...score.querySelectorAll(selector)].map((node) => node.textContent);
    return { title: texts("summary")[0], cells: texts("tbody td"), notes: texts("p").length };
}

scenario("the score of the open chain is loaded once a minute, not per block", async () => {
    const service = await start({ demo: ["--block-time", "200ms"] });
    await open(`${service.url}/#base`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        const paths = () => requests.map((request) => new URL(request.url()).pathname)
            .filter((path) => path.endsWith("/score"));
        const asked = (count) => until(() => paths().length, (found) => found === count);
        const shown = () => page.evaluate(shownScore);
        const card = await dashboard.waitForLive("base");
        await asked(1);
        await dashboard.waitForBlockAbove("base", blockOf(card) + 10);
        assert.deepEqual(paths(), ["/v1/base/score"]);
        // A minute later.
        await page.evaluate(() => {
            for (const clock of [Date, performance]) {
                const now = clock.now.bind(clock);
                clock.now = () => now() + 60_000;
            }
        });
        await asked(2);
        const request = requests.findLast((request) => request.url().endsWith("/v1/base/score"));
        const { window, tiers: { medium, high }, tips_decide: tipsDecide } = await (await request.response()).json();
        await until(shown, (found) => found?.title === `How the last ${window.heads} suggestions did`);
        const share = (value) => `${Math.round(value * 1000) / 10} %`;
        const times = ({ price_over_fair: { p50 } }) => (p50 === null ? "–" : `${p50.toFixed(2)} ×`);
        const { cells, notes } = await shown();
        assert.deepEqual(cells, [
            ...[medium, high].map(({ covered }) => share(covered[5])),
            ...[10, 50].flatMap((p) => [medium, high].map(({ outbid }) => share(outbid[p]))),
            ...[medium, high].map(times),
        ]);
        assert(notes >= (tipsDecide ? 1 : 2));
        await page.locator(".score summary").press("Enter");
        await page.getByRole("row", { name: /^Covered the base fee 5 blocks later / }).waitFor();
        await dashboard.checkLayout("score", { shots, widths: [320, 360, 900, 1440], unseen: [320] });
        assert.equal(paths().length, 2);
    });
});

scenario("a score without the needed percentiles says why it is incomplete", async () => {
    const chain = nodes.chain(26);
    const service = await start({ config: config({ still: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.locator(".score summary").filter({ hasText: "How the last suggestion did" }).click();
        // Percentile 60, which the service requests, has a row besides.
        assert.deepEqual((await page.evaluate(shownScore)).cells, Array(10).fill("–"));
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
    await open(`${proxy.url}/#ethereum`, async ({ page }, { requests }) => {
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
        const chart = page.getByRole("article").getByRole("img");
        const seen = new Set();
        await until(async () => {
            await chart.waitFor();
            const { src, alt, width } = await chart.evaluate((node) =>
                ({ src: node.src, alt: node.alt, width: node.naturalWidth }));
            const { pathname, searchParams } = new URL(src);
            assert.equal(pathname, "/v1/ethereum/fee-history.svg");
            assert.equal(searchParams.get("blocks"), "60");
            assert.match(alt, /^Chart of ethereum’s recent blocks. At block [\d,]+: base fee (rising|stable|falling), [\d.]+ gwei over 20 blocks, next [\d.]+ gwei; gas used \d+ %, on average \d+ %.$/);
            const [block] = searchParams.get("of").split("-");
            assert(alt.replaceAll(",", "").includes(`At block ${block}:`), `${alt} at ${src}`);
            assert.equal(width, 800);
            return seen.add(src).size;
        }, (count) => count >= 4);
        const asked = [...most].filter(([path]) => path.startsWith("/v1/"));
        assert.deepEqual(new Set(asked.map(([, count]) => count)), new Set([1]), JSON.stringify(asked));
        for (const path of [CHART, "/v1/ethereum/fee-market", "/v1/chains"]) assert(most.has(path), path);
        assert(![...most.keys()].some((path) => path.startsWith("/v1/base/")));
        proxy.pauseMs = 0;
        // An unavailable chart is replaced by a message.
        proxy.rule = (path) => (path.includes(".svg") ? 404 : "pass");
        await page.getByText("The chart is not available").waitFor();
        await until(() => chart.count(), (count) => count === 0);
        await new Dashboard(page).checkLayout("no-chart", FEW_WIDTHS);
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
    const more = 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"';
    const service = await start({ config: config({ still: { ...chain, more } }) });
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
        await becomes(page, () => /At block 100: .* next 4 gwei/.test(document.querySelector("#chains img").alt), true);
        const shown = await dashboard.waitForLive("still");
        assert.deepEqual([shown.when.Block, shown.fees[0]], ["100", ["Max fee", "28 gwei, 28000000000 wei"]]);
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
        // Each window shows the prices of both chains, and can send another request.
        for (const page of pages) {
            const dashboard = new Dashboard(page);
            for (const chain of ["ethereum", "base"]) await dashboard.waitForRow(chain, ({ price }) => price !== "– ");
            const list = await page.evaluate(async () => (await fetch("v1/chains")).status);
            assert.equal(list, 200);
        }
        await Promise.all(pages.slice(1).map((page) => page.close()));
    });
});

scenario("a stopped service is reported, and followed again after a restart", async () => {
    const options = { demo: ["--block-time", "500ms"], listen };
    let service = await start(options);
    await open(`${service.url}/#ethereum`, async (dashboard) => {
        const { page } = dashboard;
        await page.evaluate(() => (window.mark = "same"));
        const first = await dashboard.waitForLive("ethereum");
        await dashboard.waitForBlockAbove("ethereum", blockOf(first));
        await page.locator("#chains img").waitFor();
        await dashboard.checkLayout("live", ALL_WIDTHS);
        await service.stop();
        await dashboard.waitForBanner(/^Disconnected from the service since .*\d.*\. Retrying…$/);
        assert.equal(await dashboard.banner.getAttribute("role"), "status");
        await dashboard.waitForTitle("Disconnected – Gas prices");
        const last = await dashboard.waitForCard("ethereum", ({ badge }) => badge === "Not live");
        assert.equal(last.when["Next block"], "unknown");
        const older = (card, { age }) => card.age !== age && /^Updated [1-9]\d* s ago$/.test(card.age);
        const later = await dashboard.waitForCard("ethereum", older, last);
        const oldest = await dashboard.waitForCard("ethereum", older, later);
        assert.deepEqual({ ...oldest, age: "" }, { ...last, age: "" });
        assert.match(last.price, /^[\d.]+ gwei$/);
        await dashboard.checkLayout("disconnected", ALL_WIDTHS);
        service = await start(options);
        await dashboard.waitForAnnouncement("Reconnected to the service.");
        await dashboard.waitForNoBanner();
        const restored = await dashboard.waitForLive("ethereum");
        await dashboard.waitForBlockAbove("ethereum", blockOf(restored));
        assert.match(await page.title(), /^[\d.]+ gwei on ethereum – Gas prices$/);
        assert.equal(await page.evaluate(() => window.mark), "same");
    });
});

scenario("a restart with other chains changes the table", async () => {
    const [one, two, three] = [31, 32, 33].map((id) => nodes.chain(id));
    const service = await start({ config: config({ one, two }) });
    const { address } = service;
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.waitForLiveRow("one");
        await dashboard.waitForLiveRow("two");
        await service.stop();
        await dashboard.waitForBanner("Disconnected");
        await start({ config: config({ two: { ...two, name: "zwei" }, three }), listen: address });
        await dashboard.waitForLiveRow("three");
        await dashboard.waitForLiveRow("zwei");
        assert.deepEqual((await dashboard.rows()).map(({ name }) => name), ["zwei", "three"]);
    });
});

scenario("stale data is labelled, and expired data is shown as past", async () => {
    const well = nodes.chain(41);
    const service = await start({ config: config({ well: { ...well, more:
        'block_time = "1s"\nmax_age = "8s"\nstall_after = "2s"' } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const waitForProblem = (name, problem) =>
            dashboard.waitForCard(name, (card, problem) => card.problem === problem, problem);
        // The chain was stalled before the page was opened.
        const isStalled = ({ problem }) => problem?.startsWith("Stale: no new block");
        const first = await dashboard.waitForCard("well", isStalled);
        assert.equal(first.problem, "Stale: no new block for some time.");
        assert.deepEqual([first.when.Block, first.badge, first.price], ["100", "Stale", "21 gwei"]);
        assert.equal(first.when["Next block"], "not known yet");
        await dashboard.waitForTitle("well is not up to date – Gas prices");
        await dashboard.checkLayout("stale", FEW_WIDTHS);
        well.newest += 1;
        await dashboard.waitForAnnouncement("well is up to date again.");
        const next = await dashboard.waitForBlockAbove("well", 100);
        assert.match(next.when["Next block"], /^(in |due now|overdue by)/);
        await dashboard.waitForCard("well", ({ when }) => /^overdue by \d+ s$/.test(when["Next block"]));
        const second = await dashboard.waitForCard("well", isStalled);
        assert.match(second.problem, /^Stale: no new block for \d+ s\.$/);
        well.isHealthy = false;
        const old = await waitForProblem("well", "Stale: the data is older than two block times.");
        assert.deepEqual([old.price, old.fees, old.isPast], [second.price, second.fees, false]);
        const problem = "The newest data is too old to serve. The service keeps asking its nodes.";
        const gone = await waitForProblem("well", problem);
        assert.deepEqual([gone.badge, gone.price, gone.isPast, gone.cap, gone.fees, gone.market, gone.when],
            ["No data", "21 gwei", true, "Last known price", [], {}, { Block: "–", "Next block": "–" }]);
        assert.match(gone.age, /^Last updated \d+ s ago$/);
        await dashboard.waitForAnnouncement(`well: ${problem}`);
        assert.equal(await dashboard.page.locator("#chains img").filter({ visible: true }).count(), 0);
        await dashboard.checkLayout("no-data", FEW_WIDTHS);
        well.isHealthy = true;
        well.newest += 1;
        await dashboard.waitForBlockAbove("well", 101);
    });
});

scenario("a chain that was never read has no price until its first block", async () => {
    const [failing, other] = [nodes.chain(42), nodes.chain(43)];
    failing.isHealthy = false;
    const service = await start({ config: config({ failing, other }) });
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.waitForLiveRow("other");
        const row = await dashboard.waitForRow("failing", ({ badge }) => badge === "No data");
        assert.deepEqual([row.price, row.isPast, row.age], ["– ", false, ""]);
        await dashboard.checkLayout("never-read-row", FEW_WIDTHS);
        await dashboard.page.getByRole("link", { name: "failing" }).click();
        const isKnown = ({ problem }) => problem === "No data received yet. The service keeps asking its nodes.";
        const none = await dashboard.waitForCard("failing", isKnown);
        assert.deepEqual([none.badge, none.price, none.cap, none.fees, none.costs, none.when, none.age],
            ["No data", "– ", "", [], [], { Block: "–", "Next block": "–" }, ""]);
        await dashboard.waitForTitle("failing is not up to date – Gas prices");
        await dashboard.checkLayout("never-read", FEW_WIDTHS);
        failing.isHealthy = true;
        await dashboard.waitForBlockAbove("failing", 99);
    });
});

scenario("a chain with legacy pricing has one gas price per tier", async () => {
    const chain = nodes.chain(51, { baseFee: 0n, reward: 21n * 10n ** 9n });
    const service = await start({ config: config({ old: chain }) });
    await open(`${service.url}/`, async (dashboard) => {
        const legacy = await dashboard.waitForLive("old");
        assert.deepEqual([legacy.price, legacy.cap, legacy.fees],
            ["21 gwei", "Gas price of a legacy transaction", [["Gas price", "21 gwei, 21000000000 wei"]]]);
        await dashboard.page.locator("#chains img").waitFor();
        await dashboard.checkLayout("legacy", FEW_WIDTHS);
        await dashboard.waitForTitle("21 gwei on old – Gas prices");
        chain.baseFee = 1n;
        chain.newest += 1;
        const { fees } = await dashboard.waitForCard("old", ({ fees }) => fees.length === 2);
        assert.deepEqual(fees, [["Max fee", "23 gwei, 23000000000 wei"], ["Priority fee", "21 gwei, 21000000000 wei"]]);
    });
});

scenario("polls replace a refused stream until it opens", async () => {
    const chain = nodes.chain(61);
    const service = await start({ config: config({ chain }, "[limits]\nmax_streams = 1") });
    const other = await fetch(`${service.url}/v1/61/gas-suggestion/stream`);
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.waitForBanner("Live updates are not available; polling every 2 s. Reconnecting…");
        const polled = await dashboard.waitForCard("chain", ({ badge }) => badge === "Polled");
        assert.equal(polled.when.Block, "100");
        await dashboard.checkLayout("polled", FEW_WIDTHS);
        chain.newest += 1;
        chain.reward *= 2n;
        const { price, badge } = await dashboard.waitForCard("chain", ({ when }) => when.Block === "101");
        assert.deepEqual([badge, price], ["Polled", "41 gwei"]);
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
    const service = await start({ config: config({ chain }) });
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
        assert.equal((await dashboard.card()).price, live.price);
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
    const service = await start({ config: config({ chain }) });
    const proxy = await Proxy.start(service.url);
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.waitForLive("chain");
        proxy.isMute = true;
        proxy.rule = () => "hold";
        // Meanwhile the page updates the ages itself.
        const later = ({ age }, before) => age !== before;
        const { age } = await dashboard.card();
        const second = await dashboard.waitForCard("chain", later, age);
        await dashboard.waitForCard("chain", later, second.age);
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
    const service = await start({ config: config({ chain }) });
    const proxy = await Proxy.start(service.url);
    proxy.rule = (path) => (path.startsWith("/v1/") ? 404 : "pass");
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.waitForBanner("No response from the service yet (status 404). Retrying…");
        assert.deepEqual([await dashboard.card(), await dashboard.rows()], [undefined, []]);
        await dashboard.checkLayout("no-chains", FEW_WIDTHS);
        proxy.rule = () => "pass";
        await dashboard.waitForLive("chain");
        await dashboard.waitForNoBanner();
    });
});

// Shortens the interval of a hidden page from a minute to 300 ms.
const fastMinutes = () => {
    const { setInterval } = window;
    window.setInterval = (run, delay) => setInterval(run, delay === 60_000 ? 300 : delay);
};

scenario("a hidden page keeps its title with one request a minute", async () => {
    const service = await start({ demo: ["--block-time", "300ms"] });
    await open(`${service.url}/#ethereum`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        const streams = (count) => until(() => service.streams(), (found) => found === count);
        const newest = async () =>
            (await (await fetch(`${service.url}/v1/chains`)).json())[0].newest_block;
        const card = await dashboard.waitForLive("ethereum");
        await streams(1);
        await hide(page, true);
        await streams(0);
        const title = await page.title();
        assert.match(title, /^[\d.]+ gwei on ethereum – Gas prices$/);
        const asked = requests.length;
        await until(() => page.title(), (now) => now !== title);
        assert.match(await page.title(), /^[\d.]+ gwei on ethereum – Gas prices$/);
        const paths = () => requests.slice(asked).map((request) => new URL(request.url()).pathname);
        await until(() => paths().length, (count) => count >= 4);
        // A request of before may still be listed after the page was hidden.
        assert.deepEqual(new Set(paths().slice(1)), new Set(["/v1/fee-markets"]));
        const shown = requests.length;
        await hide(page, false);
        await dashboard.waitForBlockAbove("ethereum", Math.max(await newest(), blockOf(card)));
        await dashboard.waitForNoBanner();
        await streams(1);
        const first = requests.slice(shown).map((request) => new URL(request.url()).pathname)
            .filter((path) => path !== "/v1/fee-markets");
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
    }, { init: fastMinutes });
});

scenario("amounts and code can be copied with the keyboard alone", async () => {
    const chain = nodes.chain(91);
    const service = await start({ config: config({ ronin: { ...chain, more: STILL } }) });
    const copying = async (dashboard, label, name, what) => {
        await dashboard.page.keyboard.press("Tab");
        assert.deepEqual(await focused(dashboard.page), [`${label} ${name}`, true]);
        await dashboard.page.keyboard.press("Enter");
        await dashboard.waitForButton(`Copied ${name}`, `Copied ${what}.`);
    };
    const rows = [
        ["Copy gwei", "medium max fee of ronin", "22 gwei", "22"],
        ["Copy wei", "medium max fee of ronin", "22000000000 wei", "22000000000"],
        ["Copy gwei", "medium priority fee of ronin", "20 gwei", "20"],
        ["Copy wei", "medium priority fee of ronin", "20000000000 wei", "20000000000"],
        ["curl", "code for curl", "the code for curl", /^curl -s 'http.*\/v1\/ronin\/gas-suggestion'$/],
        ["viem", "code for viem", "the code for viem", /walletClient\.sendTransaction/],
        ["ethers", "code for ethers", "the code for ethers", /signer\.sendTransaction/],
    ];
    const permissions = ["clipboard-read", "clipboard-write"];
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        await page.getByLabel("Your gas limit").focus();
        for (const [label, name, what, text] of rows) {
            await copying(dashboard, label, name, what);
            const copied = await page.evaluate(() => navigator.clipboard.readText());
            if (typeof text === "string") assert.equal(copied, text);
            else assert.match(copied, text);
        }
        await dashboard.checkLayout("focus", FEW_WIDTHS);
        await page.getByRole("button", { name: "Copy wei medium max fee of ronin", exact: true }).waitFor();
    }, { permissions });
    // An insecure origin has no clipboard API.
    const elsewhere = service.url.replace("127.0.0.1", INSECURE_HOST);
    await open(`${elsewhere}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof navigator.clipboard]),
            [false, "undefined"]);
        await page.getByLabel("Your gas limit").focus();
        for (const row of rows.slice(0, 2)) await copying(dashboard, ...row);
        // The test pastes the text to read the clipboard.
        await page.evaluate(() => {
            const field = document.createElement("textarea");
            field.id = "pasted";
            document.body.append(field);
        });
        await page.locator("#pasted").press("Control+V");
        assert.equal(await page.locator("#pasted").inputValue(), rows[1][3]);
        await page.evaluate(() => (document.execCommand = () => false));
        await page.getByRole("button", { name: "Copy gwei medium priority fee of ronin" }).press("Enter");
        await dashboard.waitForButton("Copy failed medium priority fee of ronin",
            "Copy failed: the browser blocked access to the clipboard.");
        await dashboard.checkLayout("not-copied", FEW_WIDTHS);
    });
});

const SNAPSHOT = `\
- main:
  - heading "Gas prices" [level=1]
  - paragraph: What gas costs now, updated with every block.
  - navigation "Pages":
    - link "API":
      - /url: docs
    - link "JSON":
      - /url: v1/gas-suggestions
  - status
  - article "ronin":
    - heading "ronin" [level=2]
    - paragraph: chain id 2020
    - paragraph: Live
    - group "Speed":
      - button "Medium" [pressed]
      - button "High"
    - paragraph: 21 gwei per gas
    - paragraph: Max fee (cap) 22 gwei
    - paragraph: Updated just now
    - term: Block
    - definition: "100"
    - term: Next block
    - definition: not known yet
    - heading "What it costs" [level=3]
    - table:
      - rowgroup:
        - row "Transaction Cost":
          - columnheader "Transaction"
          - columnheader "Cost"
      - rowgroup:
        - row "Transfer 21,000 gas 0.000441 RON":
          - rowheader "Transfer 21,000 gas"
          - cell "0.000441 RON"
        - row "Token transfer 65,000 gas 0.00137 RON":
          - rowheader "Token transfer 65,000 gas"
          - cell "0.00137 RON"
        - row "Swap 150,000 gas 0.00315 RON":
          - rowheader "Swap 150,000 gas"
          - cell "0.00315 RON"
      - rowgroup:
        - row "Your gas limit 100,000 0.0021 RON":
          - rowheader "Your gas limit 100,000":
            - text: Your gas limit
            - textbox "Your gas limit": 100,000
          - cell "0.0021 RON"
    - paragraph
    - heading "For your wallet" [level=3]
    - term: Max fee
    - definition:
      - text: 22 gwei
      - button "Copy gwei medium max fee of ronin"
      - button "Copy wei medium max fee of ronin"
    - term: Priority fee
    - definition:
      - text: 20 gwei
      - button "Copy gwei medium priority fee of ronin"
      - button "Copy wei medium priority fee of ronin"
    - paragraph:
      - text: "Copy code:"
      - button "curl code for curl"
      - button "viem code for viem"
      - button "ethers code for ethers"
    - heading "Notification" [level=3]
    - text: Tell me below
    - textbox "Tell me below":
      - /placeholder: "1.5"
    - text: gwei
    - button "Tell me"
    - paragraph
    - figure:
      - 'img "Chart of ronin’s recent blocks. At block 100: base fee stable, 1 gwei over 20 blocks, next 1 gwei; gas used 50 %, on average 50 %."'
    - group: How the price is made
    - group: How the last suggestion did
    - paragraph:
      - text: "The same as JSON:"
      - link "suggestion":
        - /url: http://host/v1/ronin/gas-suggestion
      - text: ","
      - link "fee market":
        - /url: http://host/v1/ronin/fee-market
      - text: ","
      - link "blocks":
        - /url: http://host/v1/ronin/fee-history
      - text: .
  - status
  - paragraph: "Medium gets into the next block or two; high is first in line. You pay the base fee plus the priority fee, at most the max fee. Safe for full blocks: the max fee stays sufficient for this number of full blocks in a row.`;

scenario("screen readers get names and roles, and no announced numbers", async () => {
    const chain = nodes.chain(2020);
    const service = await start({ config: config({ ronin: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.waitForLive("ronin");
        await page.getByRole("img").waitFor();
        await page.getByText("How the last suggestion did").waitFor();
        await dashboard.waitForNoBanner();
        const snapshot = await page.locator("main").ariaSnapshot();
        const compared = snapshot.slice(0, snapshot.indexOf("\n  - contentinfo"));
        assert.equal(compared.replace(/\d+ s ago/, "just now").replace(/127\S*?\//g, "host/"), SNAPSHOT);
        assert.equal(await page.locator("[aria-live], [role=alert], [role=timer], [role=log]").count(), 0);
        assert.equal(await page.locator("#chains [role=status]:not([hidden])").count(), 0);
    });
});

scenario("reduced motion disables animations", async () => {
    const service = await start({ demo: ["--block-time", "1s"] });
    for (const [reducedMotion, isMoving] of [["no-preference", true], ["reduce", false]]) {
        await open(`${service.url}/#base`, async (dashboard) => {
            await dashboard.waitForBlockAbove("base", blockOf(await dashboard.waitForLive("base")));
            const count = await dashboard.page.evaluate(() => document.getAnimations().length);
            assert.equal(count > 0, isMoving, `${reducedMotion}: ${count} animations`);
        }, { reducedMotion });
    }
});

scenario("requests stay below a base path or a proxy prefix", async () => {
    const chain = nodes.chain(95);
    const below = 'base_path = "/proxy/public"';
    const [based, plain] = await Promise.all([`[server]\n${below}`, ""].map((more) =>
        start({ config: config({ chain }, more) })));
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
        await page.locator("noscript").getByRole("link").click();
        await page.waitForURL(`${service.url}/v1/gas-suggestions`);
    }, { javaScriptEnabled: false });
});

describe("the dashboard", { concurrency: 4 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
