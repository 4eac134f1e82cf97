// The connection to the service: lost, refused, silent, restored.

import assert from "node:assert/strict";

import { makeOld, until } from "../browser.mjs";
import { Dashboard, blockOf } from "./page.mjs";
import { Proxy } from "../services.mjs";

export default {
    "a stopped service is reported, and followed again after a restart": async ({ check, listen, open, start }) => {
        const options = { demo: ["--block-time", "500ms"], listen };
        let service = await start(options);
        await open(`${service.url}/#ethereum`, async (dashboard) => {
            const { page } = dashboard;
            await page.evaluate(() => (window.mark = "same"));
            const first = await dashboard.waitForLive("ethereum");
            await dashboard.waitForBlockAbove("ethereum", blockOf(first));
            await page.locator(".plot canvas").waitFor();
            await check.whole(dashboard, "live");
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
            await check.whole(dashboard, "disconnected");
            service = await start(options);
            await dashboard.waitForAnnouncement("Reconnected to the service.");
            await dashboard.waitForNoBanner();
            const restored = await dashboard.waitForLive("ethereum");
            await dashboard.waitForBlockAbove("ethereum", blockOf(restored));
            await until(() => page.title(), (title) => /^[\d.]+ gwei on ethereum – Gas prices$/.test(title));
            assert.equal(await page.evaluate(() => window.mark), "same");
        });
    },

    "polls replace a refused stream until it opens": async ({ check, config, nodes, open, start }) => {
        const chain = nodes.chain(61);
        const service = await start({ config: config({ chain }, "[limits]\nmax_streams = 1") });
        const other = await fetch(`${service.url}/v1/61/gas-suggestion/stream`);
        await open(`${service.url}/`, async (dashboard) => {
            await dashboard.waitForBanner("Live updates are not available; polling every 2 s.");
            const polled = await dashboard.waitForCard("chain", ({ badge }) => badge === "Polled");
            assert.equal(polled.when.Block, "100");
            await check.whole(dashboard, "polled");
            chain.newest += 1;
            chain.reward *= 2n;
            const isPolled = ({ badge, when }) => badge === "Polled" && when.Block === "101";
            assert.equal((await dashboard.waitForCard("chain", isPolled)).price, "41 gwei");
            await other.body.cancel();
            await dashboard.waitForNoBanner();
            await dashboard.waitForLive("chain");
            assert.equal(await service.streams(), 1);
            chain.newest += 1;
            await dashboard.waitForBlockAbove("chain", 101);
        });
    },

    "an older browser shows prices, and polls if it has no streams": async ({ config, nodes, open, start }) => {
        const chain = nodes.chain(62);
        const service = await start({ config: config({ chain }) });
        await open(`${service.url}/`, async (dashboard) => {
            const live = await dashboard.waitForLive("chain");
            await dashboard.page.getByText("Show the numbers").click();
            chain.newest += 1;
            await dashboard.waitForBlockAbove("chain", blockOf(live));
            await dashboard.page.locator(".plot canvas").waitFor();
        }, { init: makeOld });
        await open(`${service.url}/`, async (dashboard) => {
            await dashboard.waitForBanner("Live updates are not available; polling every 2 s.");
            chain.newest += 1;
            await dashboard.waitForCard("chain", ({ badge, when }) => badge === "Polled" && when.Block === "102");
            await service.stop();
            await dashboard.waitForBanner(/^Disconnected from the service since .*\. Retrying…$/);
        }, { init: () => delete window.EventSource });
    },

    "a dead or failing stream is reopened": async ({ config, nodes, open, start }) => {
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
            await until(streams, (count) => count > before);
            proxy.rule = () => "pass";
            await dashboard.waitForNoBanner();
            chain.newest += 1;
            await dashboard.waitForBlockAbove("chain", 101);
        });
    },

    "a silent service is disconnected even if no connection closes": async ({ config, nodes, open, start }) => {
        const chain = nodes.chain(72);
        const service = await start({ config: config({ chain }) });
        const proxy = await Proxy.start(service.url);
        await open(`${proxy.url}/`, async (dashboard) => {
            await dashboard.waitForLive("chain");
            await dashboard.page.evaluate(() => {
                window.ages = new Set();
                const [age, banner] = ["#chains > article .age", "#banner"].map((name) => document.querySelector(name));
                const watch = new MutationObserver(() => banner.textContent === "" && window.ages.add(age.textContent));
                watch.observe(age, { childList: true, characterData: true, subtree: true });
            });
            proxy.isMute = true;
            proxy.rule = () => "hold";
            await dashboard.page.evaluate(() => window.ages.clear());
            await dashboard.waitForBanner(/^Disconnected from the service since [^(]*\. Retrying…$/);
            // Until then the page updated the ages itself.
            assert(await dashboard.page.evaluate(() => window.ages.size) >= 2);
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
    },

    "loading the chains is retried": async ({ check, config, nodes, open, start }) => {
        const chain = nodes.chain(81);
        const service = await start({ config: config({ chain }) });
        const proxy = await Proxy.start(service.url);
        proxy.rule = (path) => (path.startsWith("/v1/") ? 404 : "pass");
        await open(`${proxy.url}/`, async (dashboard) => {
            await dashboard.waitForBanner("No response from the service yet (status 404). Retrying…");
            assert.deepEqual([await dashboard.card(), await dashboard.rows()], [undefined, []]);
            await check.whole(dashboard, "no-chains");
            proxy.rule = () => "pass";
            await dashboard.waitForLive("chain");
            await dashboard.waitForNoBanner();
        });
    },

    "six windows leave a connection for further requests": async ({ open, start }) => {
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
    },

    "requests stay below a base path or a proxy prefix": async ({ config, nodes, open, start }) => {
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
                await dashboard.page.locator(".plot canvas").waitFor();
                for (const request of requests.slice(url === base ? 0 : 1)) {
                    assert(request.url().startsWith(base), request.url());
                }
            });
        }
    },

    "without JavaScript the page says that it needs it, and shows the prices": async ({ open, start }) => {
        const service = await start({ demo: [] });
        await open(`${service.url}/`, async ({ page }) => {
            const text = "This page needs JavaScript for live updates. Without it, reload the page for new prices. " +
                "All fees are at v1/gas-suggestions.";
            assert.equal((await page.locator("noscript").innerText()).replace(/\s+/g, " ").trim(), text);
            // The price of each chain is an image, which the browser loads itself.
            const badges = page.locator("noscript img");
            await until(() => badges.evaluateAll((all) => all.map(({ alt, naturalWidth }) => naturalWidth > 50 && alt)),
                (found) => String(found) === "Gas price of ethereum,Gas price of base");
            for (const badge of await badges.all()) {
                const src = await badge.evaluate(({ src }) => src);
                const read = async () => (await fetch(src)).text();
                await until(read, (svg) => /<title id="title">(ethereum|base): [\d.]+ gwei<\/title>/.test(svg));
            }
            await page.locator("noscript").getByRole("link").click();
            await page.waitForURL(`${service.url}/v1/gas-suggestions`);
        }, { javaScriptEnabled: false });
    },
};
