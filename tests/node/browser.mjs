// What the scripts for pages have in common: Chromium, and what must hold in every window of it.
//
// CHROMIUM names another browser than the one on the path.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { chromium } from "playwright-core";

// No event that is waited for takes this long unless it never comes.
export const DEADLINE_MS = 20_000;

// A browser with these further arguments.
export async function launch(...more) {
    const inPath = process.env.PATH.split(":").map((folder) => join(folder, "chromium")).find(existsSync);
    const executablePath = process.env.CHROMIUM || inPath;
    assert(executablePath, "no chromium on the path: run tests/run.sh, or set CHROMIUM");
    return chromium.launch({ executablePath, args: ["--no-sandbox", ...more] });
}

// The browser notes every answer of 400 and above, that such an answer is no stream, and that a header is
// for secure origins alone.
const NOTES = [
    "Failed to load resource", "EventSource's response", "The Cross-Origin-Opener-Policy header has been ignored",
];

// Runs this with the page at `url` in a window of its own. In all of them must hold that nothing fails
// unnoticed and that nobody is asked but the page's origin.
export async function visit(browser, url, options, run) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(DEADLINE_MS);
    const page = await context.newPage();
    // From the start, or a chooser might open in earnest before this is known to the browser.
    page.on("filechooser", () => {});
    const requests = [];
    const faults = [];
    page.on("request", (request) => requests.push(request));
    page.on("pageerror", (error) => faults.push(error));
    page.on("console", (message) => {
        const isNote = NOTES.some((note) => message.text().startsWith(note));
        if (["error", "warning"].includes(message.type()) && !isNote) faults.push(message.text());
    });
    const violations = [];
    await context.exposeBinding("violated", (_, violation) => violations.push(violation));
    await context.addInitScript(() => {
        addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) =>
            violated(`${effectiveDirective} ${blockedURI}`));
    });
    try {
        await page.goto(url);
        await run(page, { requests, faults, violations });
        assert.deepEqual([faults, violations], [[], []]);
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

// Looks at a state in both schemes and these widths: everything is readable and within the width. The
// folder `shots` gets a screenshot of each but the `unseen`.
export async function look(page, name, { shots, widths, unseen = [] }) {
    for (const colorScheme of ["dark", "light"]) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await page.evaluate(weakContrasts), [], `${name}, ${colorScheme}`);
        for (const width of widths) {
            await page.setViewportSize({ width, height: 800 });
            const { scrollWidth, clientWidth } = await page.evaluate(() => {
                const { scrollWidth, clientWidth } = document.documentElement;
                return { scrollWidth, clientWidth };
            });
            assert(scrollWidth <= clientWidth, `${name}: ${scrollWidth} wide at ${width}`);
            assert.deepEqual(await page.evaluate(strayTexts), [], `${name}, ${width} wide`);
            if (unseen.includes(width)) continue;
            const path = join(shots, `${name}-${width}-${colorScheme}.png`);
            await page.screenshot({ path, fullPage: true });
        }
    }
}

// How often to read what may change: the machine has others to serve.
const PAUSE_MS = 10;

// Reads again and again until that is true of what is read.
export async function until(read, isTrue) {
    for (const deadline = Date.now() + DEADLINE_MS; ; ) {
        const found = await read();
        if (isTrue(found)) return found;
        await setTimeout(PAUSE_MS);
        assert(Date.now() < deadline, `it stays at ${JSON.stringify(found)}`);
    }
}

// Waits until the function gives that in the page.
export async function becomes(page, read, expected) {
    const isThere = new Function("expected", `return (${read})() === expected`);
    await page.waitForFunction(isThere, expected).catch(() => {});
    assert.equal(await page.evaluate(read), expected);
}

// In the page: texts that are not within the card, or the page, that they belong to.
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

// In the page: what has less contrast with what is behind it than WCAG 2.2 asks for, 4.5 for text (1.4.3)
// and 3 for the edges of what one can use (1.4.11).
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
        if (data.trim() === "" || !node.checkVisibility() || node.closest("[aria-disabled=true], script")) {
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

// What has the focus, and whether one sees that.
export const focused = (page) => page.evaluate(() => {
    const { activeElement: node } = document;
    const shown = node.id === "picker" ? node.parentElement : node;
    const { outlineStyle, outlineWidth } = getComputedStyle(shown);
    const isSeen = outlineStyle === "solid" && parseFloat(outlineWidth) >= 2;
    return [node.id || node.getAttribute("aria-label") || node.textContent.trim(), isSeen];
});
