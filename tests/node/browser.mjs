// Helpers of the page tests: they start Chromium and check what must hold in every window.
//
// The environment variable CHROMIUM names a browser other than the one on the PATH.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { inspect } from "node:util";

import { chromium } from "playwright-core";

// Timeout for every awaited event.
export const DEADLINE_MS = 60_000;

// Chromium's headless build. It needs half of the processor time of the whole browser, which draws a window.
const BROWSER = "chromium-headless-shell";

// Starts a browser with these additional arguments.
export async function launch(...more) {
    const inPath = process.env.PATH.split(":").map((folder) => join(folder, BROWSER)).find(existsSync);
    const executablePath = process.env.CHROMIUM || inPath;
    assert(executablePath, `no ${BROWSER} on the path: run tests/run.sh, or set CHROMIUM`);
    return chromium.launch({ executablePath, args: ["--no-sandbox", ...more] });
}

// Expected console messages: about responses with 4xx or 5xx, also in place of a stream, and about a header that
// browsers ignore on insecure origins.
const EXPECTED_MESSAGES = [
    "Failed to load resource", "EventSource's response", "The Cross-Origin-Opener-Policy header has been ignored",
];

// For the option `init`: takes away what browsers did not have in 2022.
export function makeOld() {
    delete AbortSignal.any;
    delete AbortSignal.timeout;
    delete AbortSignal.prototype.throwIfAborted;
    for (const name of ["toReversed", "toSorted", "toSpliced", "with", "findLast", "findLastIndex"]) delete Array.prototype[name];
    for (const name of ["structuredClone", "CompressionStream"]) delete window[name];
}

// Runs `run` with the page at `url` in a new window. Checks that there were no errors and no violations of the content
// security policy, and that all requests went to the page's origin. `init` runs in the page before its scripts.
export async function visit(browser, url, { init, ...options }, run) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    if (init) await context.addInitScript(init);
    context.setDefaultTimeout(DEADLINE_MS);
    const page = await context.newPage();
    // Without this handler, the browser may open a native file chooser.
    page.on("filechooser", () => {});
    const requests = [];
    const errors = [];
    page.on("request", (request) => requests.push(request));
    page.on("pageerror", (error) => errors.push(error));
    page.on("console", (message) => {
        const isExpected = EXPECTED_MESSAGES.some((text) => message.text().startsWith(text));
        if (["error", "warning"].includes(message.type()) && !isExpected) errors.push(message.text());
    });
    const violations = [];
    await context.exposeBinding("violated", (_, violation) => violations.push(violation));
    await context.addInitScript(() => {
        addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) =>
            violated(`${effectiveDirective} ${blockedURI}`));
    });
    try {
        await page.goto(url);
        await run(page, { requests, errors, violations });
        assert.deepEqual([errors, violations], [[], []]);
        for (const request of requests) {
            assert.equal(new URL(request.url()).origin, new URL(url).origin);
        }
    } catch (error) {
        error.message += `\n--- on the page:\n${await page.locator("body").innerText()}`;
        throw error;
    } finally {
        await context.close();
    }
}

// Checks that all texts and controls have enough contrast in this colour scheme.
export async function checkContrasts(page, name, colorScheme) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await page.evaluate(weakContrasts), [], `${name}, ${colorScheme}`);
}

// Checks in both colour schemes and at these widths that all texts have enough contrast and fit; in the dark scheme at
// the widths `dark` only. With the environment variable SCREENSHOTS, saves screenshots in the folder `shots`, except for
// the widths in `unseen`. `also` runs in the page at each width and returns what is wrong.
export async function checkLayout(page, name, { shots, widths, dark = widths, unseen = [], also }) {
    for (const colorScheme of ["dark", "light"]) {
        await checkContrasts(page, name, colorScheme);
        for (const width of colorScheme === "dark" ? dark : widths) {
            await page.setViewportSize({ width, height: 800 });
            // A chart takes the new width a moment later.
            await page.waitForFunction(() =>
                [...document.querySelectorAll(".plot")].every((node) => node.scrollWidth <= node.clientWidth + 1));
            const { scrollWidth, clientWidth } = await page.evaluate(() => {
                const { scrollWidth, clientWidth } = document.documentElement;
                return { scrollWidth, clientWidth };
            });
            assert(scrollWidth <= clientWidth, `${name}: ${scrollWidth} wide at ${width}`);
            assert.deepEqual(await page.evaluate(strayTexts), [], `${name}, ${width} wide`);
            assert.deepEqual(await page.evaluate(brokenBoxes), [], `${name}, ${width} wide, ${colorScheme}`);
            if (also) assert.deepEqual(await page.evaluate(also), [], `${name}, ${width} wide, ${colorScheme}`);
            if (!process.env.SCREENSHOTS || unseen.includes(width)) continue;
            mkdirSync(shots, { recursive: true });
            const path = join(shots, `${name}-${width}-${colorScheme}.png`);
            await page.screenshot({ path, fullPage: true });
        }
    }
}

// Poll interval of `until`.
const PAUSE_MS = 25;

// Repeats `read` until `isTrue` accepts its result; returns the result.
export async function until(read, isTrue) {
    for (const deadline = Date.now() + DEADLINE_MS; ; ) {
        const found = await read();
        if (isTrue(found)) return found;
        await setTimeout(PAUSE_MS);
        assert(Date.now() < deadline, `still ${inspect(found)}`);
    }
}

// Waits until `read` returns `expected` in the page.
export async function becomes(page, read, expected) {
    const isThere = new Function("expected", `return (${read})() === expected`);
    const isReached = await page.waitForFunction(isThere, expected, { polling: 50 }).then(() => true, () => false);
    if (!isReached) assert.equal(await page.evaluate(read), expected);
}

// Runs in the page: returns the texts that overflow their card or the page.
function strayTexts() {
    const stray = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { parentElement: node, data } = texts.currentNode;
        if (data.trim() === "" || !node.checkVisibility() || node.closest(".unseen, script, option")) continue;
        const frame = (node.closest("article") ?? document.documentElement).getBoundingClientRect();
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const { left, right } = range.getBoundingClientRect();
        if (left < frame.left - 1 || right > frame.right + 1) stray.push(data.trim());
    }
    return stray;
}

// Runs in the page: returns numbers that wrap, boxes that their content overflows, and texts that overlap.
function brokenBoxes() {
    const found = [];
    const isSeen = (node) => node.checkVisibility() && !node.closest(".unseen, .uplot, option, [aria-hidden=true]");
    const single = ".number, .unit, .badge, .gas, .costs td, .fees .amount, .overview :is(.age, .transfer)";
    for (const node of document.querySelectorAll(single)) {
        if (isSeen(node) && node.textContent.trim() && new Set([...rects(node)].map(({ top }) => Math.round(top / 8))).size > 1) {
            found.push(`wraps: ${node.textContent}`);
        }
    }
    for (const node of document.querySelectorAll("main *")) {
        // A wide table scrolls in its own box.
        const isBox = isSeen(node) && node.clientWidth > 0 && !node.matches("input, img, .scroll");
        if (isBox && node.scrollWidth > node.clientWidth + 1) {
            found.push(`overflows: ${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`);
        }
    }
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const { currentNode: text } = walker;
        if (text.data.trim() === "" || !isSeen(text.parentElement) || text.parentElement.closest("noscript, script, .scroll")) continue;
        for (const rect of rects(text)) texts.push({ rect, text: text.data.trim(), node: text });
    }
    for (const [index, one] of texts.entries()) {
        for (const other of texts.slice(index + 1)) {
            const width = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
            const height = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
            if (one.node !== other.node && width > 2 && height > 5) found.push(`overlap: ${one.text} | ${other.text}`);
        }
    }
    return found;

    function rects(node) {
        const range = document.createRange();
        range.selectNodeContents(node);
        return range.getClientRects();
    }
}

// Runs in the page: returns the elements with less contrast than WCAG 2.2 requires, 4.5 for text (1.4.3) and 3 for the
// borders of controls (1.4.11).
function weakContrasts() {
    const parsed = (color) => {
        const [red, green, blue, alpha = 1] = color.match(/[\d.]+/g).map(Number);
        return { channels: [red, green, blue], alpha };
    };
    const behind = (node) => {
        const layers = [];
        for (let at = node; at; at = at.parentElement) {
            const layer = parsed(getComputedStyle(at).backgroundColor);
            layers.push(layer);
            if (layer.alpha === 1) break;
        }
        return layers.reverse().reduce((below, { channels, alpha }) =>
            channels.map((channel, index) => channel * alpha + (below[index] ?? 0) * (1 - alpha)), []);
    };
    const luminance = (channels) => {
        const [red, green, blue] = channels.map((channel) => {
            const part = channel / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (color, ground) => {
        const [dark, light] = [luminance(parsed(color).channels), luminance(ground)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    };
    const weak = [];
    const check = (what, color, ground, least) => {
        const found = contrast(color, ground);
        if (!(found >= least)) weak.push(`${what}: ${found.toFixed(2)}, ${color} on ${ground}`);
    };
    let count = 0;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { parentElement: node, data } = texts.currentNode;
        if (data.trim() === "" || !node.checkVisibility() || node.closest("[aria-disabled=true], script, .unseen")) {
            continue;
        }
        count += 1;
        check(data.trim(), getComputedStyle(node).color, behind(node), 4.5);
    }
    if (count < 5) weak.push(`only ${count} texts found`);
    for (const node of document.querySelectorAll("input:not([type]), select, button, .drop")) {
        if (!node.checkVisibility() || node.closest("[aria-disabled=true]")) continue;
        const { color, borderTopColor } = getComputedStyle(node);
        check(`the edge of ${node.id}`, borderTopColor, behind(node.parentElement), 3);
        check(`the text of ${node.id}`, color, behind(node), 4.5);
        if (node.placeholder) {
            const { color, opacity } = getComputedStyle(node, "::placeholder");
            if (opacity !== "1") weak.push(`the placeholder's opacity is ${opacity}`);
            check("the placeholder", color, behind(node), 4.5);
        }
    }
    return weak;
}

// Returns the name of the focused element, and true if its focus is visible.
export const focused = (page) => page.evaluate(() => {
    const { activeElement: node } = document;
    const shown = node.id === "picker" ? node.parentElement : node;
    const { outlineStyle, outlineWidth } = getComputedStyle(shown);
    const isSeen = outlineStyle === "solid" && parseFloat(outlineWidth) >= 2;
    return [node.id || node.getAttribute("aria-label") || node.textContent.trim(), isSeen];
});
