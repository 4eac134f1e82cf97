// What goes on in a hidden window: title, icon and notification.

import assert from "node:assert/strict";

import { becomes, until } from "../browser.mjs";
import { blockOf, fastMinutes, hide } from "./page.mjs";

// Runs in the page: returns colour and text of the window's icon.
function iconText() {
    const markup = decodeURIComponent(document.querySelector("link[rel=icon]").href);
    return `${/fill="(#\w+)"/.exec(markup)?.[1]} ${/>([^<]*)<\/text>/.exec(markup)?.[1]}`;
}

export default {
    "a hidden page keeps its title with one request a minute": async ({ open, start }) => {
        const service = await start({ demo: ["--block-time", "300ms"] });
        await open(`${service.url}/#ethereum`, async (dashboard, { requests }) => {
            const { page } = dashboard;
            const streams = (count) => until(() => service.streams(), (found) => found === count);
            const newest = async () =>
                (await (await fetch(`${service.url}/v1/chains`)).json())[0].newest_block;
            const card = await dashboard.waitForLive("ethereum");
            await streams(1);
            const [before, kept] = await hide(page, true);
            assert.equal(kept, before);
            await streams(0);
            // For a moment, a busy machine may have no current price.
            const isPrice = (title) => /^[\d.]+ gwei on ethereum – Gas prices$/.test(title);
            const isCurrent = (icon) => /^#(1f5fd6|14703d|a4480b) \d(\.\d|\d*)$/.test(icon);
            const title = await until(() => page.title(), isPrice);
            const icon = await until(() => page.evaluate(iconText), isCurrent);
            const asked = requests.length;
            await until(() => page.title(), (now) => now !== title && isPrice(now));
            await until(() => page.evaluate(iconText), (now) => now !== icon && isCurrent(now));
            const pathsSince = (count) => requests.slice(count).map((request) => new URL(request.url()).pathname);
            // Requests of before may still be listed after the page was hidden.
            const updates = () => pathsSince(asked).slice(pathsSince(asked).indexOf("/v1/fee-markets"));
            await until(() => updates().length, (count) => count >= 4);
            assert.deepEqual(new Set(updates()), new Set(["/v1/fee-markets"]));
            const shown = requests.length;
            await hide(page, false);
            await dashboard.waitForBlockAbove("ethereum", Math.max(await newest(), blockOf(card)));
            await dashboard.waitForNoBanner();
            await streams(1);
            for (const path of ["/v1/chains", "/v1/gas-suggestions/stream"]) {
                assert(pathsSince(shown).includes(path), path);
            }
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
            const reopened = streamsAsked();
            await dashboard.waitForBlockAbove("ethereum", (await newest()) + 2);
            assert.equal(streamsAsked(), reopened);
        }, { init: fastMinutes });
    },

    "a notification is shown once, also for a hidden page": async ({ check, config, nodes, open, start }) => {
        const chain = nodes.chain(401, { reward: 40n * 10n ** 9n });
        const times = 'block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"';
        const service = await start({ config: config({ ronin: { ...chain, more: times } }) });
        const init = () => {
            const { setInterval } = window;
            window.setInterval = (run, delay) => setInterval(run, delay === 60_000 ? 300 : delay);
            window.shown = [];
            window.asked = 0;
            window.permission = "denied";
            window.Notification = class {
                static requestPermission = async () => (window.asked += 1, window.permission);
                constructor(title) {
                    window.shown.push(title);
                }
            };
        };
        await open(`${service.url}/`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive("ronin");
            const limit = page.getByLabel("Tell me below");
            assert.equal(await page.evaluate(() => window.asked), 0);
            await limit.fill("x");
            await limit.press("Enter");
            await page.getByText("Type a price in gwei, such as 1.5.").first().waitFor();
            await limit.fill("21.5");
            await limit.press("Enter");
            await page.locator(".alert .word").filter({ hasText: "Notifications are blocked" }).waitFor();
            await page.evaluate(() => (window.permission = "granted"));
            await limit.press("Enter");
            await page.locator(".alert .word").filter({ hasText: "Waiting for a medium price below 21.5 gwei, while this tab stays open." }).waitFor();
            await check.whole(dashboard, "notification");
            // A wrong address is named. The limit is still there afterwards.
            await page.evaluate(() => (location.hash = "other"));
            await page.getByText("This service has no chain “other”.").waitFor();
            await page.goBack();
            await page.locator(".alert .word").filter({ hasText: "below 21.5 gwei" }).waitFor();
            assert.equal(await limit.inputValue(), "21.5");
            await page.getByRole("button", { name: "Turn off" }).click();
            await page.locator(".alert .word").filter({ hasText: "The notification is off." }).waitFor();
            await page.getByRole("button", { name: "Tell me" }).click();
            await hide(page, true);
            const titles = () => page.evaluate(() => window.shown);
            chain.reward = 30n * 10n ** 9n;
            chain.newest += 1;
            await until(() => page.title(), (now) => now === "31 gwei on ronin – Gas prices");
            assert.deepEqual(await titles(), []);
            chain.reward = 20n * 10n ** 9n;
            chain.newest += 1;
            await until(titles, (found) => found.length > 0);
            await hide(page, false);
            await page.locator(".alert .word").filter({ hasText: "The price fell below your limit." }).waitFor();
            chain.newest += 1;
            await dashboard.waitForBlockAbove("ronin", 102);
            assert.deepEqual(await titles(), ["ronin: 21 gwei"]);
        }, { init });
    },

    "a page that was opened hidden has a price, and says when there is none any more": async ({ many, open }) => {
        const proxy = await (await many()).proxy(3);
        const { rule } = proxy;
        const init = () => {
            const { setInterval } = window;
            window.setInterval = (run, delay) => setInterval(run, delay === 60_000 ? 300 : delay);
            Object.defineProperty(document, "hidden", { configurable: true, value: true });
        };
        await open(`${proxy.url}/#chain-2`, async (dashboard) => {
            const { page } = dashboard;
            const price = "0.1 gwei on Chain number 2 – Gas prices";
            await until(() => page.title(), (title) => title === price);
            const asked = proxy.received.length;
            await until(() => proxy.received.length, (count) => count >= asked + 4);
            assert.deepEqual(new Set(proxy.received.slice(asked + 1)), new Set(["/v1/fee-markets"]));
            assert.equal(await page.title(), price);
            // The list of markets has only chains with data.
            proxy.rule = async (path) => {
                const body = await rule(path);
                return path.endsWith("/fee-markets") ? body.filter(({ chain_id: id }) => id !== 1002) : body;
            };
            await until(() => page.title(), (title) => title === "Chain number 2 is not up to date – Gas prices");
            assert.match(await page.evaluate(iconText), /^#59606d /);
            proxy.rule = rule;
            await until(() => page.title(), (title) => title === price);
            await hide(page, false);
            await dashboard.waitForLive("Chain number 2");
        }, { init });
        // Without any data, a hidden page sends one request a minute too.
        proxy.rule = async (path) => (path === "/v1/fee-markets" ? [] : rule(path));
        await open(`${proxy.url}/`, async () => {
            const asked = proxy.received.length;
            await until(() => proxy.received.slice(asked).slice(-3).join(), (last) => last === Array(3).fill("/v1/fee-markets").join());
        }, { init });
    },

    "the window's icon has the price on the colour of its level": async ({ many, open }) => {
        const all = await many();
        const proxy = await all.proxy(3);
        const icon = async (dashboard, expected) => becomes(dashboard.page, iconText, expected);
        for (const [level, colour] of [["low", "#14703d"], ["high", "#a4480b"], ["normal", "#1f5fd6"], [null, "#1f5fd6"]]) {
            proxy.levelOf = () => level;
            await open(`${proxy.url}/#chain-2`, async (dashboard) => {
                await icon(dashboard, `${colour} .1`);
                assert.equal(await dashboard.page.locator(".verdict").isVisible(), level !== null);
            });
        }
        await open(`${proxy.url}/`, async (dashboard) => {
            await icon(dashboard, "#1f5fd6 0");
            proxy.rule = () => 503;
            await dashboard.waitForBanner("Disconnected");
            await icon(dashboard, "#59606d 0");
        });
    },
};
