// How little the dashboard needs, and how fast it is. The times are printed only: other programs use the same processors.

import assert from "node:assert/strict";

import { until } from "../browser.mjs";
import { chainConfig } from "./page.mjs";

const MAX_BYTES = 150_000;
const IDLE_SECONDS = 3;
// Above 0.1 a page is no longer "good" by https://web.dev/articles/cls.
const MAX_SHIFT = 0.1;

// Opens the page in a new context. Returns the milliseconds until it shows a price, and the bytes transferred.
async function measureFirstPrice(browser, url) {
    const context = await browser.newContext();
    try {
        const page = await context.newPage();
        const client = await context.newCDPSession(page);
        await client.send("Network.enable");
        const urls = new Map();
        // By address: with four blocks a second, a slow browser repeats requests until the chart is there.
        const sizes = new Map();
        client.on("Network.requestWillBeSent", ({ requestId, request }) => urls.set(requestId, request.url));
        client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) =>
            sizes.set(urls.get(requestId), encodedDataLength));
        await page.addInitScript(() => {
            const watch = new MutationObserver(() => {
                const number = document.querySelector("#chains .number")?.textContent || "–";
                if (number === "–") return;
                window.firstPriceAt = performance.now();
                watch.disconnect();
            });
            watch.observe(document, { subtree: true, childList: true, characterData: true });
        });
        await page.goto(url);
        const at = await (await page.waitForFunction(() => window.firstPriceAt)).jsonValue();
        // The library of the chart counts too.
        if (url.includes("#")) await page.locator(".plot canvas").waitFor();
        assert(await page.getByText("These are not current prices.").isVisible());
        return { at, bytes: [...sizes.values()].reduce((one, other) => one + other, 0) };
    } finally {
        await context.close();
    }
}

// Opens the page with a delay of 150 ms per round trip. Returns its layout shift until the history is there, and all
// responses.
async function measureShift(browser, url, width) {
    const context = await browser.newContext({ viewport: { width, height: 800 } });
    try {
        const page = await context.newPage();
        const client = await context.newCDPSession(page);
        const slow = { offline: false, latency: 150, downloadThroughput: -1, uploadThroughput: -1 };
        await client.send("Network.emulateNetworkConditions", slow);
        await page.addInitScript(() => {
            window.shift = 0;
            const add = (list) => list.getEntries().forEach(({ value }) => (window.shift += value));
            new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
        });
        const responses = [];
        page.on("response", (response) => responses.push(response));
        await page.goto(url);
        const last = url.includes("#") ? ".plot canvas" : ".spark polyline[points*=' ']";
        await page.locator(last).first().waitFor({ state: "attached" });
        if (url.includes("#")) await page.locator(".tier .wait:not(:empty)").first().waitFor();
        return { shift: await page.evaluate(() => window.shift), responses };
    } finally {
        await context.close();
    }
}

export default {
    "the first price needs less than 150 kB": async ({ browser, demo }) => {
        const service = await demo();
        for (const hash of ["", "#ethereum"]) {
            const { at, bytes } = await measureFirstPrice(browser, `${service.url}/${hash}`);
            console.log(`# first price of "/${hash}" after ${Math.round(at)} ms, ${(bytes / 1000).toFixed(0)} kB`);
            assert(bytes > 20_000 && bytes < MAX_BYTES, `${bytes} bytes`);
        }
    },

    "on a slow line the page loads one script, nothing moves, and no request fails": async ({ browser, demo }) => {
        const service = await demo();
        const chart = "/dashboard/uplot/uPlot.esm.js";
        for (const [hash, scripts] of [["", ["/dashboard/page.js"]], ["#ethereum", ["/dashboard/page.js", chart]]]) {
            for (const width of [360, 1280]) {
                const { shift, responses } = await measureShift(browser, `${service.url}/${hash}`, width);
                const paths = responses.map((response) => new URL(response.url()).pathname);
                assert.deepEqual(paths.filter((path) => path.endsWith(".js")), scripts);
                assert.deepEqual(responses.filter((response) => !response.ok()).map((response) => response.url()), []);
                console.log(`# "/${hash}", ${width} wide: layout shift ${shift.toFixed(3)}`);
                assert(shift < MAX_SHIFT, `layout shift of "/${hash}", ${width} wide: ${shift}`);
            }
        }
    },

    "forty chains need one stream, and no request per chain": async ({ browser, nodes, open, start }) => {
        const chains = Object.fromEntries(Array.from({ length: 40 }, (_, index) =>
            [`busy-${index}`, { ...nodes.chain(2000 + index), more: 'block_time = "1s"\nmax_age = "1h"' }]));
        const service = await start({ config: chainConfig(nodes, chains) });
        const ticking = setInterval(() => {
            for (const { id } of Object.values(chains)) {
                const chain = nodes.chains.get(String(id));
                chain.newest += 1;
                chain.reward += 10n ** 8n;
            }
        }, 1000);
        try {
            await open(`${service.url}/`, async (dashboard, { requests }) => {
                await dashboard.waitForRow("busy-39", ({ points }) => points >= 3);
                const client = await browser.newBrowserCDPSession();
                const measure = async () => {
                    const { processInfo } = await client.send("SystemInfo.getProcessInfo");
                    const renderers = processInfo.filter(({ type }) => type === "renderer");
                    return { at: performance.now() / 1000, busy: renderers.reduce((sum, { cpuTime }) => sum + cpuTime, 0) };
                };
                const [first, asked] = [await measure(), requests.length];
                await until(() => performance.now() / 1000 - first.at, (seconds) => seconds >= IDLE_SECONDS);
                const last = await measure();
                const paths = requests.slice(asked).map((request) => new URL(request.url()).pathname);
                assert.deepEqual(new Set(paths), new Set(["/v1/chains", "/v1/fee-markets"]));
                assert(paths.length <= last.at - first.at + 2, `${paths.length} requests in ${last.at - first.at} s`);
                const share = (last.busy - first.busy) / (last.at - first.at);
                console.log(`# 40 chains: the page uses ${(share * 100).toFixed(1)} % of a core`);
                assert.equal(requests.filter((request) => request.url().endsWith("/stream")).length, 1);
                assert.equal(await service.streams(), 1);
            });
        } finally {
            clearInterval(ticking);
        }
    },
};
