// What people see of the dashboard in Chromium: `node dashboard.mjs '{"binary":…,"listen":…,"shots":…}'`.
//
// `binary` is the service, which is run here so that it can be stopped, `listen` an address for the one that
// is started again. A screenshot of each state goes to the folder `shots`, in both schemes and several widths.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { becomes, focused, launch, look, until, visit } from "./browser.mjs";
import { Nodes, Proxy, Service, stopAll } from "./services.mjs";

const { binary, listen, shots } = JSON.parse(process.argv[2]);

// A name that is not this machine's own: the page has no secure origin then.
const OTHER_MACHINE = "gas.example";
// A phone, the narrowest one may ask for, half of a window, as at twice the size, and more.
const EVERYWHERE = { shots, widths: [320, 360, 640, 1280, 1920], unseen: [320, 640] };
const IN_SHORT = { shots, widths: [320, 1280], unseen: [320] };

let browser;
let nodes;
const folder = mkdtempSync(join(tmpdir(), "dashboard-"));
before(async () => {
    mkdirSync(shots, { recursive: true });
    browser = await launch(`--host-resolver-rules=MAP ${OTHER_MACHINE} 127.0.0.1`);
    nodes = await Nodes.start();
});
after(async () => {
    await browser?.close();
    await stopAll();
    rmSync(folder, { recursive: true });
});

const start = (options) => Service.start({ binary, folder, ...options });

// A configuration with these chains by their keys, and `more` before them. Nothing is left of a chain's
// data 4 s after its node has fallen silent.
function configOf(chains, more = "") {
    const tables = Object.entries(chains).map(([key, { id, name = key, more = "" }]) => {
        const times = 'block_time = "1s"\nmax_age = "4s"\nstall_after = "0s"';
        return `[chains.${key}]\nchain_id = ${id}\nname = ${JSON.stringify(name)}\n` +
            `rpc_urls = ["${nodes.url(id)}"]\n${more || times}\n`;
    });
    return `[verification]\nurl = ""\n[delegation]\nsource = "off"\n${more}\n${tables.join("")}`;
}

// Blocks come so seldom that nothing changes by itself.
const STILL = 'block_time = "1h"\nmax_age = "3h"';

const scenarios = [];
function scenario(name, run) {
    scenarios.push([name, run]);
}

// In the page: all that is seen of the cards.
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

    // Waits until this holds for the card with this name.
    async shows(name, holds, given) {
        const isThere = new Function("given", `
            const card = (${cards})().find(({ name }) => name === given.name);
            return card && (${holds})(card, given.given) ? card : false;`);
        const found = await this.page.waitForFunction(isThere, { name, given }).catch((error) => {
            error.message += `\n--- wanted of ${name}: ${holds}`;
            throw error;
        });
        return found.jsonValue();
    }

    async isLive(name) {
        return this.shows(name, ({ badge }) => badge === "Live");
    }

    // Waits for a block above this one.
    async goesOn(name, block) {
        const isAbove = ({ badge, when }, block) => badge === "Live" && Number(when.Block) > block;
        return this.shows(name, isAbove, Number(block));
    }

    async says(banner) {
        await this.banner.filter({ hasText: banner }).waitFor();
    }

    async isCalm() {
        await becomes(this.page, () => document.querySelector("#banner").textContent, "");
    }

    async isTitled(title) {
        await becomes(this.page, () => document.title, title);
    }

    // Waits until this was told to those who do not see the page, whatever was told with it or after it.
    async tells(text) {
        const isTold = (text) => window.told.some((news) => news.includes(text));
        await this.page.waitForFunction(isTold, text);
    }

    // Waits until the button that has the focus is called this, and that is told.
    async answers(button, text) {
        const isBoth = ({ button, text }) => document.activeElement.textContent === button &&
            document.querySelector("#news").textContent === text;
        await this.page.waitForFunction(isBoth, { button, text });
    }

    async look(name, widths = IN_SHORT) {
        await look(this.page, name, widths);
    }
}

const open = (url, run, options = {}) => visit(browser, url, options, async (page, seen) => {
    await page.evaluate(() => {
        const news = document.querySelector("#news");
        window.told = [];
        const watch = new MutationObserver(() => window.told.push(news.textContent));
        watch.observe(news, { childList: true });
    });
    await run(new Dashboard(page), seen);
});

// Gwei as they are read, in wei.
function wei(gwei) {
    const [, whole, fraction = ""] = /^(0|[1-9]\d*)(?:\.(\d{0,8}[1-9]))?$/.exec(gwei);
    return String(BigInt(whole + fraction.padEnd(9, "0")));
}

function inWei([label, gwei, digits]) {
    assert.equal(wei(gwei), digits);
    return [label, digits];
}

// What a card shows, in the words of the interface.
function asAnswer({ tiers: [[, ...medium], [, ...high]], base: [gwei, digits] }) {
    assert.equal(wei(gwei), digits);
    return { base: digits, medium: medium.map(inWei), high: high.map(inWei) };
}

function asShown({ base_fee_per_gas: base, medium, high }) {
    const rows = (tier) => [
        ["Max fee", tier.max_fee_per_gas], ["Priority fee", tier.max_priority_fee_per_gas],
    ];
    return { base, medium: rows(medium), high: rows(high) };
}

scenario("numbers change with the blocks, without a reload, and equal the interface's at each", async () => {
    const service = await start({ demo: ["--block-time", "400ms"] });
    await open(`${service.url}/`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        await dashboard.isLive("ethereum");
        await dashboard.isLive("base");
        // Whatever is painted from now on.
        await page.evaluate((cards) => {
            const read = new Function(`return (${cards})()`);
            window.painted = [];
            const options = { subtree: true, childList: true, characterData: true, attributes: true };
            const watch = new MutationObserver(() => window.painted.push(...read()));
            watch.observe(document.querySelector("#cards"), options);
        }, cards.toString());
        const answers = new Map();
        const recorded = () => Math.min(...["ethereum", "base"].map((chain) =>
            [...answers.keys()].filter((key) => key.startsWith(chain)).length));
        await until(async () => {
            for (const chain of ["ethereum", "base"]) {
                const market = await (await fetch(`${service.url}/v1/${chain}/fee-market`)).json();
                answers.set(`${chain} ${market.newest_block}`, market);
            }
            return recorded();
        }, (count) => count >= 8);
        for (const chain of ["ethereum", "base"]) {
            const blocks = [...answers].filter(([key]) => key.startsWith(chain));
            const newest = Math.max(...blocks.map(([, { newest_block: block }]) => block));
            await dashboard.goesOn(chain, newest);
        }
        const compared = new Set();
        for (const card of await page.evaluate(() => window.painted)) {
            const answer = answers.get(`${card.name} ${card.when.Block}`);
            if (answer) {
                assert.deepEqual(asAnswer(card), asShown(answer.suggestion));
                compared.add(`price of ${card.name} at ${answer.newest_block}`);
            }
            const market = answers.get(`${card.name} ${card.of.replace("at block ", "")}`);
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

scenario("charts change with the blocks, and nothing is asked for twice at a time", async () => {
    const service = await start({ demo: ["--block-time", "200ms"] });
    const proxy = await Proxy.start(service.url);
    await open(`${proxy.url}/`, async ({ page }, { requests }) => {
        const underWay = new Set();
        const most = new Map();
        const kind = (request) => new URL(request.url()).pathname;
        page.on("request", (request) => {
            underWay.add(request);
            const alike = [...underWay].filter((other) => kind(other) === kind(request)).length;
            most.set(kind(request), Math.max(alike, most.get(kind(request)) ?? 0));
        });
        for (const end of ["requestfinished", "requestfailed"]) {
            page.on(end, (request) => underWay.delete(request));
        }
        // Longer than there is between two blocks.
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
        const paths = ["/v1/base/fee-history.svg", "/v1/base/fee-market", "/v1/chains"];
        for (const path of paths) assert(most.has(path), path);
        proxy.pauseMs = 0;
        // One that cannot be had is gone, and said to be.
        proxy.rule = (path) => (path.includes(".svg") ? 404 : "pass");
        await page.getByRole("article", { name: "ethereum" }).getByText("There is no chart").waitFor();
        assert.equal(await chart.count(), 0);
        await look(page, "no-chart", IN_SHORT);
        const before = requests.length;
        proxy.rule = () => "pass";
        await chart.waitFor();
        assert.equal(await page.getByText("There is no chart").filter({ visible: true }).count(), 0);
        // It was left alone for a while.
        assert(requests.slice(before).filter((request) => kind(request).includes("1/chains")).length > 1);
    });
});

scenario("a chart changes with the price where the block stays, and is asked for again where it was not to be had", async () => {
    const chain = nodes.chain(25);
    const config = configOf({ still: { ...chain, more: 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"' } });
    const service = await start({ config });
    const proxy = await Proxy.start(service.url);
    proxy.rule = (path) => (path.includes(".svg") ? 503 : "pass");
    await open(`${proxy.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.getByText("There is no chart").waitFor();
        proxy.rule = () => "pass";
        const chart = page.getByRole("article").getByRole("img");
        await chart.waitFor();
        assert.match(await chart.getAttribute("alt"), /At block 100: .* next 1 gwei/);
        chain.baseFee *= 4n;
        await becomes(page, () => /At block 100: .* next 4 gwei/.test(document.querySelector("#cards img").alt), true);
        const shown = await dashboard.isLive("still");
        assert.deepEqual([shown.when.Block, shown.tiers[0][1]], ["100", ["Max fee", "28", "28000000000"]]);
    });
});

scenario("six windows leave one another a connection", async () => {
    const service = await start({ demo: ["--block-time", "500ms"] });
    await open(`${service.url}/`, async ({ page }) => {
        const pages = [page];
        while (pages.length < 6) {
            const other = await page.context().newPage();
            await other.goto(`${service.url}/`);
            pages.push(other);
        }
        // All of them have all that stands behind a price, of about the block that they show.
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

scenario("a service that stops is said to be gone, and followed again when it is back", async () => {
    const options = { demo: ["--block-time", "500ms"], listen };
    let service = await start(options);
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await page.evaluate(() => (window.mark = "same"));
        await dashboard.goesOn("base", 0);
        const { when } = await dashboard.isLive("ethereum");
        await dashboard.goesOn("ethereum", when.Block);
        await page.locator("#cards img").nth(1).waitFor();
        await dashboard.look("live", EVERYWHERE);
        await service.stop();
        await dashboard.says(/^Disconnected from the service since .*\d.*; trying again…$/);
        assert.equal(await dashboard.banner.getAttribute("role"), "status");
        await dashboard.isTitled("Disconnected – Gas prices");
        const last = await dashboard.shows("ethereum", ({ badge }) => badge === "Not live");
        assert.equal(last.when["Next block"], "not known");
        const older = ({ when }, { Data }) => when.Data !== Data && /^read [1-9]\d* s ago$/.test(when.Data);
        const later = await dashboard.shows("ethereum", older, last.when);
        const oldest = await dashboard.shows("ethereum", older, later.when);
        assert.deepEqual({ ...oldest, when: { ...oldest.when, Data: "" } },
            { ...last, when: { ...last.when, Data: "" } });
        assert.equal(last.tiers.length, 2);
        await dashboard.look("disconnected", EVERYWHERE);
        service = await start(options);
        await dashboard.tells("Connected to the service again.");
        await dashboard.isCalm();
        const back = await dashboard.isLive("ethereum");
        await dashboard.goesOn("ethereum", back.when.Block);
        await dashboard.isLive("base");
        await dashboard.isTitled("Gas prices");
        assert.equal(await page.evaluate(() => window.mark), "same");
    });
});

scenario("a service that comes back with other chains has other cards", async () => {
    const [one, two, three] = [31, 32, 33].map((id) => nodes.chain(id));
    const service = await start({ config: configOf({ one, two }) });
    const { address } = service;
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.isLive("one");
        await dashboard.isLive("two");
        await service.stop();
        await dashboard.says("Disconnected");
        await start({ config: configOf({ two: { ...two, name: "zwei" }, three }), listen: address });
        await dashboard.isLive("three");
        await dashboard.isLive("zwei");
        const names = (await dashboard.cards()).map(({ name, id }) => [name, id]);
        assert.deepEqual(names, [["zwei", "chain id 32"], ["three", "chain id 33"]]);
    });
});

scenario("data that grows old is said to be, and not shown when it is too old", async () => {
    const [well, ill] = [nodes.chain(41), nodes.chain(42)];
    ill.isWell = false;
    const config = configOf({ well: { ...well, more:
        'block_time = "1s"\nmax_age = "8s"\nstall_after = "2s"' }, ill });
    const service = await start({ config });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        const saying = (name, problem) =>
            dashboard.shows(name, (card, problem) => card.problem === problem, problem);
        const none = await saying("ill", "No data was read yet.");
        const nothing = { tiers: [], base: [null, null], of: null, market: {} };
        const when = { Block: "–", Data: "–", "Next block": "–" };
        const expected = (name, id, problem) =>
            ({ name, id: `chain id ${id}`, badge: "No data", problem, when, ...nothing });
        const asJson = (value) => JSON.parse(JSON.stringify(value, (_, one) => one ?? null));
        assert.deepEqual(asJson(none), expected("ill", 42, "No data was read yet."));
        // It stood already when the page came.
        const stands = ({ problem }) => problem?.startsWith("Stale: the newest block");
        const first = await dashboard.shows("well", stands);
        assert.match(first.problem, /^Stale: the newest block has not changed for some time\.$/);
        assert.deepEqual([first.when.Block, first.badge], ["100", "Stale"]);
        assert.deepEqual(first.tiers[0][1], ["Max fee", "22", "22000000000"]);
        assert.equal(first.when["Next block"], "not known yet");
        await dashboard.isTitled("2 of 2 not up to date – Gas prices");
        await dashboard.look("stale");
        well.newest += 1;
        await dashboard.tells("well is up to date again.");
        const next = await dashboard.goesOn("well", 100);
        assert.match(next.when["Next block"], /^(in |due now|overdue by)/);
        await dashboard.shows("well", ({ when }) => /^overdue by \d+ s$/.test(when["Next block"]));
        const second = await dashboard.shows("well", stands);
        assert.match(second.problem, /^Stale: the newest block has not changed for \d+ s\.$/);
        well.isWell = false;
        const old = await saying("well", "Stale: the data is older than two blocks.");
        assert.deepEqual(old.tiers, second.tiers);
        const problem = "The newest data is too old to be served.";
        // At first it is not known why.
        const without = await dashboard.shows("well", ({ badge }) => badge === "No data");
        assert.deepEqual(asJson({ ...without, problem }), expected("well", 41, problem));
        const gone = await saying("well", problem);
        assert.deepEqual(asJson(gone), expected("well", 41, problem));
        await dashboard.tells(`well: ${problem}`);
        assert.equal(await page.locator("#cards img").filter({ visible: true }).count(), 0);
        await dashboard.look("no-data");
        well.isWell = ill.isWell = true;
        well.newest += 1;
        await dashboard.goesOn("well", 101);
        await dashboard.goesOn("ill", 99);
    });
});

scenario("a chain with legacy pricing has one gas price per tier", async () => {
    const chain = nodes.chain(51, { baseFee: 0n, reward: 21n * 10n ** 9n });
    const service = await start({ config: configOf({ old: chain }) });
    await open(`${service.url}/`, async (dashboard) => {
        const legacy = await dashboard.isLive("old");
        assert.deepEqual(legacy.tiers, [
            ["Medium", ["Gas price", "21", "21000000000"]],
            ["High", ["Gas price", "25.2", "25200000000"]],
        ]);
        assert.equal(legacy.base[0], undefined);
        await dashboard.page.locator("#cards img").waitFor();
        await dashboard.look("legacy");
        await dashboard.isTitled("21 gwei on old – Gas prices");
        chain.baseFee = 1n;
        chain.newest += 1;
        const { tiers } = await dashboard.shows("old", ({ tiers }) => tiers[0].length === 3);
        assert.deepEqual(tiers[0], ["Medium", ["Max fee", "23", "23000000000"],
            ["Priority fee", "21", "21000000000"]]);
    });
});

scenario("polls stand in for a stream that is refused, until it is not", async () => {
    const chain = nodes.chain(61);
    const service = await start({ config: configOf({ chain }, "[limits]\nmax_streams = 1") });
    const other = await fetch(`${service.url}/v1/61/gas-suggestion/stream`);
    await open(`${service.url}/`, async (dashboard) => {
        await dashboard.says("No live updates at the moment; trying again. " +
            "Until then the numbers are asked for every 2 s.");
        const polled = await dashboard.shows("chain", ({ badge }) => badge === "Polled");
        assert.equal(polled.when.Block, "100");
        await dashboard.look("polled");
        chain.newest += 1;
        chain.reward *= 2n;
        const { tiers, badge } = await dashboard.shows("chain", ({ when }) => when.Block === "101");
        assert.equal(badge, "Polled");
        assert.deepEqual(tiers[0][1], ["Max fee", "42", "42000000000"]);
        await other.body.cancel();
        await dashboard.isCalm();
        await dashboard.isLive("chain");
        assert.equal(await service.streams(), 1);
        chain.newest += 1;
        await dashboard.goesOn("chain", 101);
    });
});

scenario("a stream that is dead or an error for a while is opened again", async () => {
    const chain = nodes.chain(71);
    const service = await start({ config: configOf({ chain }) });
    const proxy = await Proxy.start(service.url);
    const streams = () => proxy.asked.filter((path) => path.endsWith("/stream")).length;
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.isLive("chain");
        assert.equal(streams(), 1);
        // Nothing comes, and nobody says so; the polls see what it does not tell.
        proxy.isMute = true;
        chain.newest += 1;
        await dashboard.goesOn("chain", 100);
        await dashboard.page.waitForRequest((request) => request.url().endsWith("/stream"));
        proxy.isMute = false;
        await dashboard.isCalm();
        const live = await dashboard.isLive("chain");
        // A proxy has nobody to pass anything on to, after which browsers give up.
        proxy.rule = () => 503;
        proxy.server.closeAllConnections();
        await dashboard.says(/since .* \(it answers with status 503\); trying again…$/);
        assert.deepEqual((await dashboard.cards())[0].tiers, live.tiers);
        const before = streams();
        await dashboard.page.waitForRequest((request) => request.url().endsWith("/stream"));
        assert(streams() >= before);
        proxy.rule = () => "pass";
        await dashboard.isCalm();
        chain.newest += 1;
        await dashboard.goesOn("chain", 101);
    });
});

scenario("a service that nobody hears of is gone even if no connection ends", async () => {
    const chain = nodes.chain(72);
    const service = await start({ config: configOf({ chain }) });
    const proxy = await Proxy.start(service.url);
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.isLive("chain");
        proxy.isMute = true;
        proxy.rule = () => "hold";
        // Until then the page counts by itself.
        const later = ({ when }, { Data }) => when.Data !== Data;
        const [{ when }] = await dashboard.cards();
        const second = await dashboard.shows("chain", later, when);
        await dashboard.shows("chain", later, second.when);
        assert.equal(await dashboard.banner.textContent(), "");
        await dashboard.says(/^Disconnected from the service since [^(]*; trying again…$/);
        await dashboard.shows("chain", ({ badge }) => badge === "Not live");
        await until(() => proxy.held, (held) => held.some((path) => path.endsWith("/stream")));
        const answered = [];
        dashboard.page.on("response", (response) => {
            if (response.ok()) answered.push(new URL(response.url()).pathname.split("/").at(-1));
        });
        proxy.isMute = false;
        proxy.rule = () => "pass";
        await dashboard.isCalm();
        await dashboard.isLive("chain");
        // Nobody answers that stream any more, but the first list shows that another will be.
        const order = answered.filter((path) => ["stream", "chains"].includes(path));
        assert.deepEqual(order.slice(0, 2), ["chains", "stream"]);
    });
});

scenario("chains that cannot be loaded at first are loaded later", async () => {
    const chain = nodes.chain(81);
    const service = await start({ config: configOf({ chain }) });
    const proxy = await Proxy.start(service.url);
    proxy.rule = (path) => (path.startsWith("/v1/") ? 404 : "pass");
    await open(`${proxy.url}/`, async (dashboard) => {
        await dashboard.says("No answer from the service yet (it answers with status 404); trying again…");
        assert.deepEqual(await dashboard.cards(), []);
        await dashboard.look("no-chains");
        proxy.rule = () => "pass";
        await dashboard.isLive("chain");
        await dashboard.isCalm();
    });
});

scenario("a hidden page asks for nothing, and goes on at once when it is seen", async () => {
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
        const { when } = await dashboard.isLive("ethereum");
        await streams(1);
        await turn(true);
        await streams(0);
        await dashboard.isTitled("Gas prices");
        // What was under way before may have been asked for by now.
        const [asked, block] = [requests.length, await newest()];
        // Longer than between two polls.
        await until(newest, (found) => found >= block + 9);
        assert.deepEqual(requests.slice(asked).map((request) => request.url()), []);
        assert((await dashboard.cards())[0].when.Block < block + 9);
        await turn(false);
        await dashboard.goesOn("ethereum", Math.max(block, Number(when.Block)));
        await dashboard.isCalm();
        await streams(1);
        const first = requests.slice(asked).map((request) => new URL(request.url()).pathname);
        assert.deepEqual(first.slice(0, 2).sort(), ["/v1/chains", "/v1/gas-suggestions/stream"]);
        // After a night’s sleep nobody knows how old anything is, or whether the stream is still there.
        const opened = page.waitForRequest((request) => request.url().endsWith("/stream"));
        await page.evaluate(() => {
            const { now } = Date;
            Date.now = () => now() + 8 * 3600 * 1000;
        });
        await opened;
        await streams(1);
        await dashboard.isLive("ethereum");
        const streamsAsked = () => requests.filter((request) => request.url().endsWith("/stream")).length;
        const before = streamsAsked();
        await dashboard.goesOn("ethereum", (await newest()) + 2);
        assert.equal(streamsAsked(), before);
    });
});

scenario("wei are copied with the keyboard alone", async () => {
    const chain = nodes.chain(91);
    const service = await start({ config: configOf({ ronin: { ...chain, more: STILL } }) });
    const copying = async (dashboard, name, digits) => {
        await dashboard.page.keyboard.press("Tab");
        assert.deepEqual(await focused(dashboard.page), [`Copy wei ${name}`, true]);
        await dashboard.page.keyboard.press("Enter");
        await dashboard.answers(`Copied ${name}`, `Copied ${digits} wei.`);
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
        await dashboard.isLive("ronin");
        for (const [name, digits] of rows) {
            await copying(dashboard, name, digits);
            assert.equal(await page.evaluate(() => navigator.clipboard.readText()), digits);
        }
        await dashboard.look("focus");
        await page.getByRole("button", { name: "Copy wei medium max fee of ronin", exact: true }).waitFor();
    }, { permissions });
    // From another machine there is no such interface.
    const elsewhere = service.url.replace("127.0.0.1", OTHER_MACHINE);
    await open(`${elsewhere}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.isLive("ronin");
        assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof navigator.clipboard]),
            [false, "undefined"]);
        await copying(dashboard, ...rows[0]);
        await copying(dashboard, ...rows[1]);
        // What is on the clipboard, as a field gets it.
        await page.evaluate(() => {
            const field = document.createElement("textarea");
            field.id = "pasted";
            document.body.append(field);
        });
        await page.locator("#pasted").press("Control+V");
        assert.equal(await page.locator("#pasted").inputValue(), rows[1][1]);
        await page.evaluate(() => (document.execCommand = () => false));
        await page.getByRole("button", { name: "Copy wei high max fee of ronin" }).press("Enter");
        await dashboard.answers("Not copied high max fee of ronin",
            "Not copied: the browser does not let this page use the clipboard.");
        await dashboard.look("not-copied");
    });
});

const SNAPSHOT = `\
- main:
  - heading "Gas prices" [level=1]
  - paragraph: What to pay for gas, block by block.
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
    - term: Suggested base fee, part of both
    - definition: 2 gwei 2000000000 wei
    - heading "Behind the price" [level=3]
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
    - figure:
      - 'img "Chart of ronin’s recent blocks. At block 100: base fee stable, 1 gwei over 20 blocks, next 1 gwei; gas used 50 %, on average 50 %."'
  - status`;

scenario("screen readers are told what everything is, and of no number by itself", async () => {
    const chain = nodes.chain(2020);
    const service = await start({ config: configOf({ ronin: { ...chain, more: STILL } }) });
    await open(`${service.url}/`, async (dashboard) => {
        const { page } = dashboard;
        await dashboard.isLive("ronin");
        await page.getByRole("img").waitFor();
        await dashboard.isCalm();
        const snapshot = await page.locator("main").ariaSnapshot();
        const told = snapshot.slice(0, snapshot.indexOf("\n  - paragraph: \"Medium is"));
        assert.equal(told.replace(/read \d+ s ago/, "read just now"), SNAPSHOT);
        assert.equal(await page.locator("[aria-live], [role=alert], [role=timer], [role=log]").count(), 0);
        assert.equal(await page.locator("#cards [role=status]").count(), 0);
    });
});

scenario("people who want no motion see none", async () => {
    const service = await start({ demo: ["--block-time", "1s"] });
    for (const [reducedMotion, isMoving] of [["no-preference", true], ["reduce", false]]) {
        await open(`${service.url}/`, async (dashboard) => {
            const { when } = await dashboard.isLive("base");
            await dashboard.goesOn("base", when.Block);
            const count = await dashboard.page.evaluate(() => document.getAnimations().length);
            assert.equal(count > 0, isMoving, `${reducedMotion}: ${count} animations`);
        }, { reducedMotion });
    }
});

scenario("twelve chains with the longest names and numbers fit", async () => {
    const huge = 123456789012345678901234567890n;
    const chains = Object.fromEntries(Array.from({ length: 12 }, (_, index) => {
        const id = 9_000_000_000 + index;
        const chain = nodes.chain(id, { baseFee: index % 3 ? huge : 0n, reward: huge * BigInt(index % 4) });
        const name = index % 2 ? `סולם ${id}` : `A-chain-without-a-single-space-in-its-very-long-name-${id}`;
        return [`chain-${index}`, { ...chain, name, more: STILL }];
    }));
    const service = await start({ config: configOf(chains) });
    await open(`${service.url}/`, async (dashboard) => {
        for (const { name } of Object.values(chains)) await dashboard.isLive(name);
        assert.equal((await dashboard.cards()).length, 12);
        await dashboard.page.locator("#cards img").nth(11).waitFor();
        await dashboard.look("twelve", EVERYWHERE);
    });
});

scenario("below a base path, and behind a proxy that takes one away, nothing is asked for elsewhere", async () => {
    const chain = nodes.chain(95);
    const below = 'base_path = "/proxy/public"';
    const [based, plain] = await Promise.all([`[server]\n${below}`, ""].map((more) =>
        start({ config: configOf({ chain }, more) })));
    const proxy = await Proxy.start(plain.url, { prefix: "/some/where" });
    for (const [url, base] of [
        [`${based.url}/proxy/public`, `${based.url}/proxy/public/`],
        [`${proxy.url}/`, `${proxy.url}/`],
    ]) {
        await open(url, async (dashboard, { requests }) => {
            await dashboard.isLive("chain");
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
        const text = "This page follows the chains’ blocks, for which it needs JavaScript. Without it, the " +
            "prices are at v1/gas-suggestions.";
        assert.equal((await page.locator("noscript").innerText()).replace(/\s+/g, " ").trim(), text);
        await page.getByRole("link").click();
        await page.waitForURL(`${service.url}/v1/gas-suggestions`);
    }, { javaScriptEnabled: false });
});

describe("the dashboard", { concurrency: 4 }, () => {
    for (const [name, check] of scenarios) test(name, check);
});
