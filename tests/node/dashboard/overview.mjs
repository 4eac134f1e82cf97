// The table of all chains.

import assert from "node:assert/strict";

import { coins } from "../../../src/extras/pages/dashboard/amounts.js";
import { becomes, focused, until } from "../browser.mjs";
import { STILL } from "./page.mjs";

const EVERY_WIDTH = { widths: [360, 768, 1440, 1920], dark: [360, 1440] };

export default {
    "the table leads to each chain, by mouse, keyboard, address and history": async ({ check, many, open }) => {
        const proxy = await (await many()).proxy(12);
        await open(`${proxy.url}/`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLiveRow("Chain number 11");
            const list = await (await fetch(`${proxy.url}/v1/chains`)).json();
            const names = async () => (await dashboard.rows()).map(({ name }) => name);
            assert.deepEqual(await names(), list.map(({ chain_name: name }) => name));
            const markets = await (await fetch(`${proxy.url}/v1/fee-markets`)).json();
            assert.deepEqual((await dashboard.rows()).map(({ exact }) => exact.replace(/[^0-9]/g, "")),
                markets.map(({ expected_price_per_gas: expected }) => expected.medium));
            // Gas of a transfer.
            assert.deepEqual((await dashboard.rows()).map(({ transfer }) => transfer),
                markets.map(({ expected_price_per_gas: { medium } }) => coins(BigInt(medium) * 21_000n, "RON")));
            const levels = markets.map(({ level }) => level);
            assert.deepEqual((await dashboard.rows()).map(({ level }) => level), levels);
            assert.deepEqual([...new Set(levels)].sort(), ["high", "low", "normal"]);
            // By keyboard alone.
            for (const expected of ["API", "JSON", "filter", "Chain", "Price now", "Transfer", "Favourite: Chain number 0",
                "Chain number 0", "Favourite: Chain number 1", "Chain number 1"]) {
                await page.keyboard.press("Tab");
                assert.deepEqual(await focused(page), [expected, true]);
            }
            await page.keyboard.press("Enter");
            await dashboard.waitForLive("Chain number 1");
            assert.equal(new URL(page.url()).hash, "#chain-1");
            await becomes(page, () => document.activeElement.textContent, "Chain number 1");
            assert.match(await page.title(), /on Chain number 1 – /);
            await page.goBack();
            await dashboard.waitForLiveRow("Chain number 1");
            await becomes(page, () => document.activeElement.textContent, "Chain number 1");
            await page.goForward();
            await dashboard.waitForLive("Chain number 1");
            await page.reload();
            await dashboard.waitForLive("Chain number 1");
            await page.getByRole("link", { name: "All chains" }).click();
            await page.getByLabel("Find a chain").fill("NUMBER 1");
            await until(names, (found) => String(found) === "Chain number 1,Chain number 10,Chain number 11");
            await page.getByLabel("Find a chain").fill("nothing");
            await page.getByText("No chain matches.").waitFor();
            await check.accessible(dashboard, "no match");
            await page.goto(`${proxy.url}/#chain-99`);
            await page.getByText("This service has no chain “chain-99”.").waitFor();
        });
    },

    "chains are sorted, and favourites are on top and in the small view": async ({ check, many, open }) => {
        const proxy = await (await many()).proxy(7);
        await open(`${proxy.url}/`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLiveRow("Chain number 6");
            const order = async () => (await dashboard.rows()).map(({ name }) => name.at(-1)).join("");
            const becomes = (expected) => until(order, (found) => found === expected);
            await becomes("0123456");
            const markets = await (await fetch(`${proxy.url}/v1/fee-markets`)).json();
            const byPrice = markets.map(({ expected_price_per_gas: { medium } }, index) => [BigInt(medium), index])
                .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)).map(([, index]) => index).join("");
            await page.getByRole("button", { name: "Price now" }).click();
            await becomes(byPrice);
            assert.equal(await page.locator("th.for-price[aria-sort=ascending]").count(), 1);
            // Again: the order of the service.
            await page.getByRole("button", { name: "Price now" }).click();
            await becomes("0123456");
            await page.getByRole("button", { name: "Transfer" }).click();
            await becomes(byPrice);
            await page.getByRole("button", { name: "Chain", exact: true }).click();
            await becomes("0123456");
            await page.getByRole("button", { name: "Favourite: Chain number 5" }).press("Enter");
            await becomes("5012346");
            assert.deepEqual(await focused(page), ["Favourite: Chain number 5", true]);
            await page.getByRole("button", { name: "Favourite: Chain number 2", pressed: false }).click();
            await becomes("2501346");
            // The browser remembers both.
            await page.reload();
            await becomes("2501346");
            await check.whole(dashboard, "favourites");
            await page.getByRole("link", { name: "Small view" }).click();
            await becomes("25");
            assert.equal(await page.locator("nav").isVisible(), false);
            await check.whole(dashboard, "mini", { widths: [240, 360, 768, 1440] });
            await page.getByRole("link", { name: "All chains" }).click();
            await page.getByRole("button", { name: "Favourite: Chain number 2", pressed: true }).click();
            await page.getByRole("button", { name: "Favourite: Chain number 5", pressed: true }).click();
            await becomes("0123456");
            await page.goto(`${proxy.url}/#mini`);
            await becomes("0123456");
        });
    },

    ...Object.fromEntries([1, 40].map((count) => [
        `${count} chains fit at every width and in both colour schemes`,
        async ({ check, many, open }) => {
            const all = await many();
            const proxy = await all.proxy(count);
            const names = all.names(count);
            if (count > 1) {
                await open(`${proxy.url}/`, async (dashboard) => {
                    for (const name of names) await dashboard.waitForLiveRow(name);
                    assert.equal((await dashboard.rows()).length, count);
                    await check.whole(dashboard, `chains-${count}`, EVERY_WIDTH);
                });
            }
            // A chain's page differs only by the link to the table.
            await open(`${proxy.url}/#chain-${count - 1}`, async (dashboard) => {
                const { page } = dashboard;
                await dashboard.waitForLive(names.at(-1));
                await page.locator(".plot canvas").waitFor();
                assert.equal(await page.getByRole("link", { name: "All chains" }).isVisible(), count > 1);
                for (const summary of await page.locator("summary").all()) await summary.click();
                await page.locator(".heat td").first().waitFor();
                await check.whole(dashboard, `chain-of-${count}`, EVERY_WIDTH);
            });
        },
    ])),

    "the longest names and numbers fit": async ({ check, config, nodes, open, start }) => {
        const huge = 123456789012345678901234567890n;
        const limits = ["base", "priority"].map((fee) => `\npricing.max_${fee}_fee = "${huge * 10n} wei"`).join("");
        const chains = Object.fromEntries(Array.from({ length: 12 }, (_, index) => {
            const id = 9_000_000_000 + index;
            const chain = nodes.chain(id, { baseFee: index % 3 ? huge : 0n, reward: huge * BigInt(index % 4) });
            const name = index % 2 ? `סולם ${id}` : `A-chain-without-a-single-space-in-its-very-long-name-${id}`;
            return [`chain-${index}`, { ...chain, name, more: STILL + limits }];
        }));
        const service = await start({ config: config(chains) });
        await open(`${service.url}/`, async (dashboard) => {
            for (const { name } of Object.values(chains)) await dashboard.waitForLiveRow(name);
            await check.whole(dashboard, "longest-rows", { widths: [320, 360, 768, 1440, 1920] });
            for (const index of [4, 5]) {
                await dashboard.page.goto(`${service.url}/#chain-${index}`);
                await dashboard.waitForLive(chains[`chain-${index}`].name);
                await check.whole(dashboard, `longest-${index}`, { widths: [320, 360, 768, 1440, 1920] });
            }
        });
    },

    "a long name leaves the price free in the small view": async ({ check, config, nodes, open, start }) => {
        const name = "Supercalifragilisticexpialidocious";
        const service = await start({ config: config({ long: { ...nodes.chain(9_000_000_100), name, more: STILL } }) });
        await open(`${service.url}/#mini`, async (dashboard) => {
            await dashboard.waitForLiveRow(name);
            await check.whole(dashboard, "mini-long", { widths: [360, 768] });
        });
    },
};
