// Tests of the page of `backtest --html` in Chromium: `node backtest.mjs '{"binary":…,"recordings":[…],"shots":…}'`.
//
// `binary` is the service. With the environment variable SCREENSHOTS, the tests save screenshots in the folder `shots`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { launch, until, visit } from "./browser.mjs";
import { checks } from "./dashboard/checks.mjs";

const { binary, recordings, shots } = JSON.parse(process.argv[2]);
const WIDTHS = [360, 768, 1280];
const OWN_COLORS = {
    light: ["#b3261e", "#14703d", "#1f5fd6", "#8a3ab9"],
    dark: ["#ff9a92", "#72d69b", "#83adff", "#d9a1ff"],
};

const folder = mkdtempSync(join(tmpdir(), "backtest-"));
let browser;
before(async () => {
    browser = await launch();
});
after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
});

// Opens the page of a recording from the disk. Writes it when it is first opened.
function open(recording, run, options = {}) {
    const file = join(folder, `${basename(recording)}.html`);
    // One page has the fees for horizons too.
    const more = recording === recordings[0] ? ["--horizon"] : [];
    if (!existsSync(file)) execFileSync(binary, ["backtest", ...more, "--html", file, recording]);
    return visit(browser, pathToFileURL(file).href, options, async (page, log) => {
        await run(page, log);
        assert.deepEqual(log.requests.map((request) => request.url()), [pathToFileURL(file).href]);
    });
}

// Returns the cells of the rows of the page's table.
const readRows = (page) => page.evaluate(() =>
    [...document.querySelectorAll("tbody tr")].map(({ cells }) => [...cells].map((cell) => cell.textContent)));

// Returns the numbers of the estimators, and of the fees for one block, that have both, from the document in the page.
const readPoints = (page) => page.evaluate(() => {
    const { has_tips: hasTips, estimators, horizon = [] } =
        JSON.parse(document.getElementById("document").textContent).recordings[0];
    const keys = hasTips ? ["included_next", "overpaid_p50"] : ["covers_after_25", "max_fee_over_base_fee_p50"];
    const points = estimators.map((row) => [row.name, ...keys.map((key) => row[key])]);
    for (const { within, probability, kept, overpaid_p50: overpaid } of horizon) {
        if (within === 1) points.push([`fees within 1 block, ${Math.round(100 * probability)} %`, kept, overpaid]);
    }
    const known = points.filter(([, share, cost]) => share !== null && cost !== null);
    return known.map(([name, share, cost]) => [name, share, Number(cost)]);
});

// Steps through the chart with the arrow keys; returns the lines that it shows.
async function readAloud(page, count) {
    await page.locator(".plot").focus();
    const lines = new Set();
    await page.keyboard.press("Home");
    for (let step = 0; step < count; step += 1) {
        for (const line of (await page.locator(".readout").textContent()).split("\n")) lines.add(line);
        await page.keyboard.press("ArrowRight");
    }
    assert.equal(await page.locator(".readout").getAttribute("role"), "status");
    return [...lines];
}

// Runs in the page: returns true for each of these colours that the chart has.
function drawnColors(colors) {
    const canvas = document.querySelector(".plot canvas");
    // Chromium warns of a canvas that is read repeatedly, so a copy is read.
    const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    const found = new Set();
    for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] === 255) found.add((data[at] << 16) + (data[at + 1] << 8) + data[at + 2]);
    }
    return colors.map((color) => found.has(Number.parseInt(color.slice(1), 16)));
}

// Runs in the page before its scripts: records where each text of the chart stands.
function recordTexts() {
    globalThis.texts = [];
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { width } = this.measureText(text);
        if (this.textAlign === "left") globalThis.texts.push({ text, left: x, right: x + width, y });
        fillText.call(this, text, x, y);
    };
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {
        globalThis.texts = [];
        clearRect.apply(this, area);
    };
}

for (const recording of recordings) {
    const name = basename(recording);
    test(`${name}: every estimator is a point or listed as missing`, () => open(recording, async (page) => {
        const [rows, points] = [await readRows(page), await readPoints(page)];
        assert(points.length > 5, String(points.length));
        const unit = (await page.locator("thead").textContent()).includes("gwei") ? " gwei" : "";
        const expected = points.map(([name, share, cost]) => {
            const [, shownShare, shownCost] = rows.find(([other]) => other === name);
            const isBeaten = points.some(([, otherShare, otherCost]) =>
                otherShare >= share && otherCost <= cost && (otherShare > share || otherCost < cost));
            return `${name}: ${shownShare}, ${shownCost}${unit}${isBeaten ? "" : " (on the line)"}`;
        });
        const lines = await readAloud(page, points.length);
        assert.deepEqual(lines.toSorted(), expected.toSorted());
        const missing = rows.map(([name]) => name).filter((name) => points.every(([other]) => other !== name));
        const note = `Not shown, because one of the two numbers is unknown: ${missing.join("; ")}`;
        assert.equal(await page.locator("#missing").innerText(), missing.length > 0 ? note : "");
    }));

    test(`${name}: names on the chart do not overlap`, () => open(recording, async (page) => {
        for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: 800 });
            await page.waitForFunction(() => {
                const [place, plot] = [".plot", ".uplot"].map((name) => document.querySelector(name).clientWidth);
                return Math.abs(place - plot) <= 1;
            });
            const [texts, points] = [await page.evaluate(() => globalThis.texts), await readPoints(page)];
            const names = texts.filter(({ text }) => points.some(([name]) => name.replace(" without floors", "") === text));
            assert(names.length >= 2, JSON.stringify(texts));
            for (const [index, one] of names.entries()) {
                for (const other of names.slice(index + 1)) {
                    const isApart =
                        one.right <= other.left || other.right <= one.left || Math.abs(one.y - other.y) >= 12;
                    assert(isApart, `${width} wide: ${one.text} | ${other.text}`);
                }
            }
        }
    }, { init: recordTexts }));
}

test("the fees for one block are points where they were asked for", async () => {
    const isKeyShown = (page) => page.getByText("fees for a probability").isVisible();
    const pairs = async (page) => (await readPoints(page)).filter(([name]) => name.startsWith("fees within")).length;
    await open(recordings[0], async (page) => assert.deepEqual([await pairs(page), await isKeyShown(page)], [4, true]));
    await open(recordings[1], async (page) => assert.deepEqual([await pairs(page), await isKeyShown(page)], [0, false]));
});

test("the service's own points stand out in both colour schemes", () => open(recordings[0], async (page) => {
    for (const [colorScheme, colors] of Object.entries(OWN_COLORS)) {
        await page.emulateMedia({ colorScheme });
        await until(() => page.evaluate(drawnColors, colors), (areDrawn) => areDrawn.every(Boolean));
    }
}));

for (const recording of [recordings[0], recordings.at(-1)]) {
    test(`${basename(recording)}: texts fit, have contrast and are accessible`, () => open(recording, async (page) => {
        await checks(shots).whole({ page }, basename(recording), { widths: WIDTHS, dark: WIDTHS });
    }));
}

test("without JavaScript the page has the table", () => open(recordings[0], async (page) => {
    assert.equal(await page.locator("tbody tr").first().isVisible(), true);
    assert.equal(await page.locator("#chart").isVisible(), false);
    assert.equal(await page.locator("noscript p").isVisible(), true);
}, { javaScriptEnabled: false }));

test("the pointer reads the nearest point", () => open(recordings[0], async (page) => {
    assert.equal(await page.locator(".readout").textContent(), "Point at a dot to read its values.");
    const { x, y, width, height } = await page.locator(".u-over").boundingBox();
    await page.mouse.move(x + width - 2, y + 2);
    const [dearest] = await page.evaluate(() => [document.querySelector(".readout").textContent]);
    assert.match(dearest, /^.+: 100\.00 %, [\d.]+ gwei/);
    await page.mouse.move(x + 2, y + height - 2);
    assert.notEqual(await page.locator(".readout").textContent(), dearest);
}));

test("a file name is text and no markup", () => {
    const name = join(folder, "<img src=x onerror=alert(1)>&amp;");
    copyFileSync(recordings[1], name);
    return open(name, async (page) => {
        assert((await page.title()).includes("<img src=x onerror=alert(1)>&amp;: blocks"), await page.title());
        assert.equal(await page.locator("img").count(), 0);
    });
});
