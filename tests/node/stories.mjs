// Opens the page of the web component on the built site in Chromium: `node stories.mjs SITE`.
//
// Each example of HTML has a preview with the component in the state that the text says. With the environment variable
// SCREENSHOTS, saves screenshots in that folder.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";

import { launch, until, visit } from "./browser.mjs";

const [, , site] = process.argv;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2" };
// State and visible parts of each component, in the order of the page.
const PRICE = /^\d+(\.\d+)? gwei$/;
const AGE = /^(just now|\d+ s ago)$/;
const VERDICT = /^Low: \d+ % below usual$/;
const STORIES = [
    ["live", { price: PRICE, age: AGE }],
    ...Array(3).fill(["live", { price: PRICE, age: AGE }]),
    ["live", { price: PRICE, verdict: VERDICT, wait: /^next block$/, age: AGE }],
    ["live", { price: PRICE }],
    ["live", { price: PRICE, verdict: VERDICT, wait: /^next block$/, age: AGE }],
    ["live", { price: PRICE, verdict: VERDICT, wait: /^next block$/, age: AGE }],
    ["stale", { price: PRICE, age: /^stale, \d+ s ago$/ }],
    ["disconnected", { price: PRICE, age: /^no connection, \d+ s ago$/ }],
];

const server = createServer((request, response) => {
    const path = join(site, normalize(new URL(request.url, "http://site").pathname));
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": KINDS[extname(path)] ?? "application/octet-stream" }).end(readFileSync(path));
}).listen(0, "127.0.0.1");
await once(server, "listening");
const browser = await launch();
try {
    for (const [width, theme, colorScheme] of [[1280, "light", "light"], [360, "navy", "dark"]]) {
        const init = `localStorage.setItem("mdbook-theme", "${theme}")`;
        await visit(browser, `http://127.0.0.1:${server.address().port}/component.html`, { init, colorScheme, viewport: { width, height: 800 } }, (page) => check(page, width, theme));
    }
    console.log(`${STORIES.length} stories at 360 and 1280 px`);
} finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
}

async function check(page, width, theme) {
    const shown = () => page.evaluate(() => [...document.querySelectorAll(".story gas-suggestion")].map((node) => {
        // Without the script, which may load after the page, there is no shadow root.
        const parts = [...node.shadowRoot?.querySelectorAll("[part]") ?? []].filter((part) => part.checkVisibility());
        return [node.getAttribute("state"), Object.fromEntries(parts.map((part) => [part.part[0], part.textContent]))];
    }));
    const fits = ([state, texts], [expected, parts]) => state === expected && String(Object.keys(texts)) === String(Object.keys(parts)) &&
        Object.entries(parts).every(([name, text]) => text.test(texts[name]));
    const all = await until(shown, (found) => found.length === STORIES.length && found.every((one, index) => fits(one, STORIES[index])));
    // The prices of the three tiers are in order.
    const prices = all.slice(1, 4).map(([, { price }]) => parseFloat(price));
    assert.deepEqual(prices, prices.toSorted((one, other) => one - other));
    const examples = await page.locator("code.language-html").count();
    assert.equal(await page.locator("pre:has(code.language-html) + .story").count(), examples);
    for (const [index, rect] of (await page.evaluate(() => [...document.querySelectorAll(".story gas-suggestion")]
        .map((node) => node.getBoundingClientRect()).map(({ left, right, height }) => ({ left, right, height })))).entries()) {
        assert(rect.left >= 0 && rect.right <= width && rect.height > 10, `story ${index} at ${width}: ${JSON.stringify(rect)}`);
    }
    assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} wide`);
    // The rest of the page is mdBook's.
    await page.evaluate(AXE);
    const violations = await page.evaluate(async () => {
        const { violations } = await window.axe.run({ include: [[".story"]] }, { preload: false, resultTypes: ["violations"] });
        return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
    });
    assert.deepEqual(violations, [], `${theme} theme`);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `stories-${width}.png`), fullPage: true });
}
