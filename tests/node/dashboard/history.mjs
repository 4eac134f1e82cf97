// The chart of blocks and trends, and the hours of the week.

import assert from "node:assert/strict";

import { gwei } from "../../../src/extras/pages/dashboard/amounts.js";
import { becomes, until } from "../browser.mjs";
import { STILL, trendBody } from "./page.mjs";
import { Proxy } from "../services.mjs";

const GWEI = 10n ** 9n;
// Pixels by which a drawn point may differ: the library rounds.
const TOLERANCE = 1.5;
const TRENDS = { "1h": "1 hour", "24h": "24 hours", "7d": "7 days" };

// Runs in the page: steps through the chart by keyboard. Returns for each point its text and the places of the cursor's
// points of price and base fee, and where the chart's corners are.
function drawnPoints() {
    const plot = document.querySelector(".plot");
    plot.focus();
    const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    const center = (node) => {
        const { left, top, width, height } = node.getBoundingClientRect();
        return { x: left + width / 2, y: top + height / 2 };
    };
    const over = plot.querySelector(".u-over").getBoundingClientRect();
    const texts = [];
    const points = [];
    press("Home");
    for (;;) {
        const text = document.querySelector(".readout").textContent;
        if (texts.at(-1) === text) break;
        texts.push(text);
        const [paid, , , base] = [...plot.querySelectorAll(".u-cursor-pt")].map(center);
        points.push({ text, paid, base });
        press("ArrowRight");
    }
    plot.blur();
    return { points, left: over.left, right: over.right, top: over.top, bottom: over.bottom };
}

// Checks that the chart draws these points, in wei, at the places that its axes give them.
function checkPoints({ points, left, right, top, bottom }, expected) {
    assert.deepEqual(points.length, expected.length);
    const [first, last] = [expected[0].x, expected.at(-1).x];
    const highest = expected.reduce((one, other) => (other.base > one.base ? other : one));
    const lowest = expected.reduce((one, other) => (other.base < one.base ? other : one));
    const drawn = (point) => points[expected.indexOf(point)].base.y;
    const pixels = (bottom - drawn(highest)) / Number(highest.base);
    assert(drawn(lowest) - drawn(highest) > 5, "the chart is flat");
    for (const [index, { x, base, paid }] of expected.entries()) {
        const at = points[index];
        const wanted = left + ((x - first) / (last - first)) * (right - left);
        assert(Math.abs(at.base.x - wanted) < TOLERANCE, `${at.text}: at ${at.base.x}, not ${wanted}`);
        for (const [name, wei] of [["base", base], ["paid", paid]]) {
            const y = bottom - Number(wei) * pixels;
            // A peak is above the scale.
            if (y < top) continue;
            assert(Math.abs(at[name].y - y) < TOLERANCE, `${at.text}: ${name} at ${at[name].y}, not ${y}`);
        }
    }
}

// Runs in the page: opens the table of numbers and returns the exact amounts, oldest first.
function exactNumbers() {
    const rows = [...document.querySelectorAll(".data tbody tr")];
    return rows.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.title)).toReversed();
}

async function checkNumbers(page, expected) {
    const details = page.locator(".data");
    if ((await details.getAttribute("open")) === null) await details.locator("summary").click();
    await becomes(page, new Function("return document.querySelectorAll('.data tbody tr').length"), expected.length);
    const exact = (wei) => `${gwei(wei)} gwei`;
    assert.deepEqual(await page.evaluate(exactNumbers),
        expected.map(({ base, tip, paid }) => [paid, base, tip].map(exact)));
}

const blocksOf = ({ blocks }) => blocks.map(({ number, base_fee_per_gas: base, rewards: [tip] }) =>
    ({ x: number, base: BigInt(base), tip: BigInt(tip), paid: BigInt(base) + BigInt(tip) }));
const bucketsOf = ({ buckets }) => buckets.map(({ start, base_fee_per_gas: fee, max_priority_fee_per_gas: tip }) => ({
    x: Date.parse(start), base: BigInt(fee.median), tip: BigInt(tip.median),
    paid: BigInt(fee.median) + BigInt(tip.median),
}));

export default {
    "the chart's points equal the API's, and a peak does not flatten them": async ({ check, config, nodes, open, start }) => {
        const chain = nodes.chain(400, {
            baseFee: (number) => 2n * GWEI + BigInt((number * 7919) % 13) * (GWEI / 10n),
            reward: (number) => (number === 90 ? 900n * GWEI : GWEI + BigInt(number % 5) * (GWEI / 4n)),
        });
        const more = 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"';
        const service = await start({ config: config({ ronin: { ...chain, more } }) });
        const proxy = await Proxy.start(service.url);
        let trend;
        proxy.rule = (path) => (path.includes("/fee-trend") && trend ? trend : "pass");
        await open(`${proxy.url}/`, async (dashboard) => {
            const { page } = dashboard;
            const readout = page.locator(".price-chart .readout");
            const readBlocks = async () => (await fetch(`${service.url}/v1/ronin/fee-history?blocks=60`)).json();
            // With little history, the page opens with the blocks. After its start, the service knows twenty.
            await readout.filter({ hasText: "Price per gas in the last 20 blocks: usually" }).waitFor();
            assert.equal(await page.locator(".choice [aria-pressed=true]").last().textContent(), "Blocks");
            await page.locator(".plot canvas").waitFor();
            await page.getByText("Peaks are off the scale.").waitFor();
            const blocks = blocksOf(await readBlocks());
            checkPoints(await page.evaluate(drawnPoints), blocks);
            await checkNumbers(page, blocks);
            await check.whole(dashboard, "blocks");
            // A new block.
            nodes.chains.get("400").newest += 1;
            await until(() => page.evaluate(exactNumbers), (found) => found.at(-1)[1] === `${gwei(chain.baseFee(101))} gwei`);
            const next = blocksOf(await readBlocks());
            assert.equal(next.at(-1).x, 101);
            checkPoints(await page.evaluate(drawnPoints), next);
            await checkNumbers(page, next);
            for (const [period, text] of Object.entries(TRENDS)) {
                trend = trendBody(period);
                await page.getByRole("button", { name: text }).click();
                await readout.filter({ hasText: `in the last ${text}` }).waitFor();
                await page.waitForFunction((count) => document.querySelectorAll(".data tbody tr").length === count, trend.buckets.length);
                checkPoints(await page.evaluate(drawnPoints), bucketsOf(trend));
                await checkNumbers(page, bucketsOf(trend));
                if (period === "7d") await check.whole(dashboard, "trend-7d", { widths: [360, 1440], dark: [] });
                assert.equal(await page.getByText("Peaks are off the scale.").isVisible(), false);
            }
        });
    },

    "the history is read by mouse, touch and keyboard": async ({ check, many, open }) => {
        const all = await many();
        const proxy = await all.proxy(1);
        const { rule } = proxy;
        await open(`${proxy.url}/`, async (dashboard) => {
            const { page } = dashboard;
            const plot = page.locator(".plot");
            const readout = page.locator(".price-chart .readout");
            await plot.locator("canvas").waitFor();
            await page.getByText("High: 31 % above usual").waitFor();
            await readout.filter({ hasText: "Price per gas in the last 24 hours: usually" }).waitFor();
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
            await until(() => readout.textContent(), (text) => text.includes("of which") && text !== newest);
            assert.equal(await readout.getAttribute("role"), "status");
            await page.keyboard.press("Escape");
            await readout.filter({ hasText: "Price per gas" }).waitFor();
            // The hours of the week.
            await page.getByText("Cheapest hours of the week").press("Enter");
            await becomes(page, () => document.querySelectorAll(".heat td[class^=shade]").length, 168);
            const hour = page.locator(".heat .readout");
            await page.keyboard.press("Tab");
            for (const [key, text] of [["ArrowDown", /^Monday 00:00: [\d.]+ gwei$/], ["ArrowDown", /^Tuesday 00:00: /],
                ["ArrowRight", /^Tuesday 01:00: /], ["ArrowUp", /^Monday 01:00: /], ["ArrowLeft", /^Monday 00:00: /]]) {
                await page.keyboard.press(key);
                await hour.filter({ hasText: text }).waitFor();
            }
            assert.equal(await hour.getAttribute("role"), "status");
            await page.locator(".heat td").last().hover();
            await hour.filter({ hasText: /^Sunday 23:00: / }).waitFor();
            // Without the route, the chart of blocks remains.
            proxy.rule = (path) => (path.includes("/fee-trend") ? 404 : rule(path));
            await page.getByRole("button", { name: "7 days" }).click();
            await readout.filter({ hasText: "Not available right now." }).waitFor();
            assert.equal(await plot.isVisible(), false);
            await check.whole(dashboard, "no-history");
            await page.getByRole("button", { name: "Blocks" }).click();
            await readout.filter({ hasText: "in the last 20 blocks" }).waitFor();
            assert(await plot.isVisible());
        });
        proxy.rule = rule;
        await open(`${proxy.url}/`, async ({ page }) => {
            await page.locator(".plot canvas").waitFor();
            const { x, y, width } = await page.locator(".plot").boundingBox();
            await page.touchscreen.tap(x + width / 2, y + 80);
            await page.locator(".price-chart .readout").filter({ hasText: "of which" }).waitFor();
            await page.getByText("Cheapest hours of the week").tap();
            await page.locator(".heat td").nth(30).tap();
            await page.locator(".heat .readout").filter({ hasText: "Tuesday 06:00: " }).waitFor();
        }, { hasTouch: true, viewport: { width: 360, height: 4000 } });
    },

    "a week that is not kept is neither offered nor requested": async ({ config, nodes, start, open }) => {
        const chains = { one: { ...nodes.chain(3000), more: STILL } };
        const service = await start({ config: config(chains, "[history]\ndays = 3") });
        await open(`${service.url}/#one/high/7d`, async ({ page }, { requests }) => {
            await page.getByRole("button", { name: "24 hours" }).waitFor();
            await page.locator(".plot canvas").waitFor();
            assert.equal(await page.getByRole("button", { name: "7 days" }).count(), 0);
            assert.equal(await page.getByText("Cheapest hours of the week").isVisible(), false);
            const trends = requests.map((request) => request.url()).filter((url) => url.includes("/fee-trend"));
            assert(trends.length > 0 && !trends.some((url) => url.includes("7d")), trends);
        });
    },

    "the blocks are requested once per block, and again after a failure": async ({ demo, open }) => {
        const service = await demo();
        const proxy = await Proxy.start(service.url);
        const kind = (request) => new URL(request.url()).pathname;
        const BLOCKS = "/v1/ethereum/fee-history";
        await open(`${proxy.url}/#ethereum`, async (dashboard, { requests }) => {
            const { page } = dashboard;
            const inFlight = new Set();
            const most = new Map();
            page.on("request", (request) => {
                inFlight.add(request);
                const alike = [...inFlight].filter((other) => kind(other) === kind(request)).length;
                most.set(kind(request), Math.max(alike, most.get(kind(request)) ?? 0));
            });
            for (const end of ["requestfinished", "requestfailed"]) {
                page.on(end, (request) => inFlight.delete(request));
            }
            // The delay is longer than the block time.
            proxy.pauseMs = 400;
            await page.reload();
            await page.getByRole("button", { name: "Blocks" }).click();
            const summary = page.locator(".price-chart .readout");
            const seen = new Set();
            await until(async () => seen.add(await page.locator(".plot").getAttribute("aria-label").catch(() => "")).size,
                (count) => count >= 4);
            const asked = [...most].filter(([path]) => path.startsWith("/v1/"));
            assert.deepEqual(new Set(asked.map(([, count]) => count)), new Set([1]), JSON.stringify(asked));
            for (const path of [BLOCKS, "/v1/ethereum/fee-market", "/v1/chains"]) assert(most.has(path), path);
            assert(![...most.keys()].some((path) => path.startsWith("/v1/base/")));
            proxy.pauseMs = 0;
            // The last points stay while the blocks cannot be loaded.
            const failed = page.waitForResponse((response) => kind(response) === BLOCKS && response.status() === 503);
            proxy.rule = (path) => (path.startsWith(BLOCKS) ? 503 : "pass");
            await failed;
            const before = requests.length;
            await summary.filter({ hasText: /in the last \d+ blocks/ }).waitFor();
            proxy.rule = () => "pass";
            await page.waitForResponse((response) => kind(response) === BLOCKS && response.ok());
            // Several polls lie between the failure and the next request.
            const paths = requests.slice(before).map(kind);
            assert(paths.slice(0, paths.indexOf(BLOCKS)).filter((path) => path === "/v1/chains").length > 1);
        });
    },
};
