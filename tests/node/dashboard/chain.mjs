// The page of one chain: amounts, score, copying, names for screen readers.

import assert from "node:assert/strict";

import { focused, until } from "../browser.mjs";
import { SNAPSHOT } from "./snapshot.mjs";
import { INSECURE_HOST, blockOf, choose } from "./page.mjs";

// Runs in the page: returns the visible texts of the score.
function shownScore() {
    const score = document.querySelector(".score");
    if (!score?.checkVisibility()) return null;
    const texts = (selector) => [...score.querySelectorAll(selector)].map((node) => node.textContent);
    return { title: texts("summary")[0], cells: texts("tbody td"), notes: texts("p").length };
}

export default {
    "the chosen tier and the gas limit change prices and costs": async ({ check, open, still }) => {
        const service = await still();
        await open(`${service.url}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            const medium = await dashboard.waitForLive("ronin");
            assert.deepEqual([medium.price, medium.exact, medium.cap], ["21 gwei", "21,000,000,000 wei", "Max fee (cap) 22 gwei"]);
            // The demo has no price in dollars. Of this chain's data fee nothing is known.
            assert.deepEqual(medium.costs, ["0.000441 RON +", "0.000441 RON +", "0.00137 RON +", "0.00315 RON +",
                "0.00252 RON +", "0.0252 RON +", "0.0021 RON +"]);
            assert.deepEqual(medium.dollars, []);
            await page.getByText("The chain’s fee for data comes on top. It is not known right now.").waitFor();
            await choose(page, "High");
            const high = await dashboard.waitForCard("ronin", ({ price }) => price === "25 gwei");
            assert.deepEqual([high.cap, high.costs[0]], ["Max fee (cap) 26 gwei", "0.000525 RON +"]);
            await page.getByLabel("Your gas limit").fill("1 000 000");
            await dashboard.waitForCard("ronin", ({ costs }) => costs[6] === "0.025 RON +");
            // The title follows the tier, as the address does; another chain's page has the same choices.
            await dashboard.waitForTitle("25 gwei on ronin – Gas prices");
            assert.equal(new URL(page.url()).hash, "#ronin/high");
            await page.evaluate(() => (location.hash = "saigon"));
            await dashboard.waitForCard("saigon", ({ price, costs }) => price === "25 gwei" && costs[6] === "0.025 RON");
            assert.equal(new URL(page.url()).hash, "#saigon/high");
            await page.goBack();
            await dashboard.waitForCard("ronin", ({ costs }) => costs[6] === "0.025 RON +");
            await page.getByLabel("Your gas limit").fill("x");
            await page.getByText("Type a gas limit in digits.").waitFor();
            await dashboard.waitForCard("ronin", ({ costs }) => costs[6] === "–");
            await check.accessible(dashboard, "gas-limit");
        });
    },

    "an address opens a chain with a tier and a period": async ({ many, open }) => {
        const proxy = await (await many()).proxy(3);
        await open(`${proxy.url}/#chain-2/low/7d`, async (dashboard) => {
            const { page } = dashboard;
            const isPressed = (name) => page.getByRole("button", { name, pressed: true }).waitFor();
            await dashboard.waitForLive("Chain number 2");
            assert.equal(await page.getByRole("radio", { name: "Low" }).isChecked(), true);
            await isPressed("7 days");
            await page.getByText("Price per gas in the last 7 days").waitFor();
            assert.equal(new URL(page.url()).hash, "#chain-2/low/7d");
            // A choice changes the address without another entry in the history.
            const length = await page.evaluate(() => history.length);
            await page.getByRole("button", { name: "1 hour" }).click();
            await choose(page, "Medium");
            assert.equal(new URL(page.url()).hash, "#chain-2/medium/1h");
            assert.equal(await page.evaluate(() => history.length), length);
            await page.evaluate(() => (location.hash = "chain-2/high/24h"));
            await isPressed("24 hours");
            assert.equal(await page.getByRole("radio", { name: "High" }).isChecked(), true);
            // Wrong choices are ignored.
            await page.evaluate(() => (location.hash = "chain-1/huge/2h"));
            await dashboard.waitForLive("Chain number 1");
            assert.equal(await page.getByRole("radio", { name: "High" }).isChecked(), true);
        });
    },

    "the score of the open chain is loaded once a minute, not per block": async ({ check, demo, open }) => {
        const service = await demo();
        const opened = Date.now();
        await open(`${service.url}/#base`, async (dashboard, { requests }) => {
            const { page } = dashboard;
            const paths = () => requests.map((request) => new URL(request.url()).pathname)
                .filter((path) => path.endsWith("/score"));
            const asked = (count) => until(() => paths().length, (found) => found >= count);
            // A busy machine may need more than a minute for the steps of this test.
            const allowed = () => 1 + Math.floor((Date.now() - opened) / 60_000);
            const shown = () => page.evaluate(shownScore);
            const card = await dashboard.waitForLive("base");
            await asked(1);
            await dashboard.waitForBlockAbove("base", blockOf(card) + 10);
            assert.deepEqual(new Set(paths()), new Set(["/v1/base/score"]));
            assert(paths().length <= allowed(), `${paths().length} requests`);
            const before = paths().length;
            // A minute later.
            await page.evaluate(() => {
                for (const clock of [Date, performance]) {
                    const now = clock.now.bind(clock);
                    clock.now = () => now() + 60_000;
                }
            });
            await asked(before + 1);
            const request = requests.findLast((request) => request.url().endsWith("/v1/base/score"));
            const { window, tiers: { medium, high }, tips_decide: tipsDecide } = await (await request.response()).json();
            await until(shown, (found) => found?.title === `How the last ${window.heads} suggestions did`);
            const share = (value) => (value === null ? "–" : `${Math.round(value * 1000) / 10} %`);
            const times = ({ price_over_fair: { p50 } }) => (p50 === null ? "–" : `${p50.toFixed(2)} ×`);
            const { cells, notes } = await shown();
            assert.deepEqual(cells, [
                ...[medium, high].map(({ covered }) => share(covered[5])),
                ...[medium, high].map(({ outbid }) => share(outbid[10])),
                ...[medium, high].map(times),
            ]);
            assert(notes >= (tipsDecide === false ? 2 : 1));
            await page.locator(".score summary").press("Enter");
            await page.getByRole("row", { name: /^Covered the base fee 5 blocks later / }).waitFor();
            await check.accessible(dashboard, "score");
            assert(paths().length <= allowed() + 1, `${paths().length} requests`);
        });
    },

    "a score without the needed percentiles says why it is incomplete": async ({ check, open, still }) => {
        const service = await still();
        await open(`${service.url}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            await page.locator(".score summary").filter({ hasText: "How the last suggestion did" }).click();
            // Percentile 60, which the service requests, has a row besides.
            assert.deepEqual((await page.evaluate(shownScore)).cells, Array(8).fill("–"));
            await page.getByRole("row", { name: "Outbid 60 % of the next block" }).waitFor();
            const cell = page.getByRole("row", { name: "Outbid a tenth of the next block" }).getByRole("cell").last();
            const reason = "the service does not request this reward percentile (pricing.reward_percentiles)";
            assert.equal(await cell.getAttribute("title"), reason);
            await page.getByText(`–: ${reason}`).waitFor();
            await page.getByText("–: the block is not mined yet").waitFor();
            await check.whole(dashboard, "score-unknown");
        });
    },

    "amounts and code can be copied with the keyboard alone": async ({ check, open, still }) => {
        const service = await still();
        const copying = async (dashboard, label, name, what) => {
            await dashboard.page.keyboard.press("Tab");
            assert.deepEqual(await focused(dashboard.page), [`${label} ${name}`, true]);
            await dashboard.page.keyboard.press("Enter");
            await dashboard.waitForButton(`Copied ${name}`, `Copied ${what}.`);
        };
        const rows = [
            ["Copy gwei", "medium max fee of ronin", "22 gwei", "22"],
            ["Copy wei", "medium max fee of ronin", "22000000000 wei", "22000000000"],
            ["Copy gwei", "medium priority fee of ronin", "20 gwei", "20"],
            ["Copy wei", "medium priority fee of ronin", "20000000000 wei", "20000000000"],
            ["curl", "code for curl", "the code for curl", /^curl -s 'http.*\/v1\/ronin\/gas-suggestion'$/],
            ["viem", "code for viem", "the code for viem", /"http.*\/v1\/ronin\/gas-suggestion".*\n.*response.ok.*\n.*medium: fee.*\nawait walletClient\.sendTransaction/],
            ["ethers", "code for ethers", "the code for ethers", /"http.*\/v1\/ronin\/gas-suggestion".*\n.*response.ok.*\n.*medium: fee.*\nawait signer\.sendTransaction/],
        ];
        const permissions = ["clipboard-read", "clipboard-write"];
        await open(`${service.url}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive("ronin");
            await page.getByLabel("Send everything of").focus();
            for (const [label, name, what, text] of rows) {
                await copying(dashboard, label, name, what);
                const copied = await page.evaluate(() => navigator.clipboard.readText());
                if (typeof text === "string") assert.equal(copied, text);
                else assert.match(copied, text);
            }
            await check.accessible(dashboard, "focus");
            await page.getByRole("button", { name: "Copy wei medium max fee of ronin", exact: true }).waitFor();
        }, { permissions });
        // An insecure origin has no clipboard API.
        const elsewhere = service.url.replace("127.0.0.1", INSECURE_HOST);
        await open(`${elsewhere}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive("ronin");
            assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof navigator.clipboard]),
                [false, "undefined"]);
            await page.getByLabel("Send everything of").focus();
            for (const row of rows.slice(0, 2)) await copying(dashboard, ...row);
            // The test pastes the text to read the clipboard.
            await page.evaluate(() => {
                const field = document.createElement("textarea");
                field.id = "pasted";
                document.body.append(field);
            });
            await page.locator("#pasted").press("Control+V");
            assert.equal(await page.locator("#pasted").inputValue(), rows[1][3]);
            await page.evaluate(() => (document.execCommand = () => false));
            await page.getByRole("button", { name: "Copy gwei medium priority fee of ronin" }).press("Enter");
            await dashboard.waitForButton("Copy failed medium priority fee of ronin",
                "Copy failed: the browser blocked access to the clipboard.");
            await page.locator("#pasted").evaluate((node) => node.remove());
            await check.accessible(dashboard, "not copied");
        });
    },

    "every control of the page is reached by keyboard, in order and with an outline": async ({ open, still }) => {
        const service = await still();
        await open(`${service.url}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive("ronin");
            await page.locator(".plot canvas").waitFor();
            await page.getByText("How the last suggestion did").waitFor();
            const fee = (name) => ["Copy gwei", "Copy wei"].map((label) => `${label} medium ${name} of ronin`);
            const expected = [
                "API", "JSON", "← All chains", "tier-medium", "gas", "balance", ...fee("max fee"), ...fee("priority fee"),
                "curl code for curl", "viem code for viem", "ethers code for ethers", "limit", "Tell me",
                "Blocks", "1 hour", "24 hours", "7 days",
                /^Price per gas in the last 3 h 10 min: .* Use the arrow keys/,
                "Show the numbers", "Cheapest hours of the week", "How the price is made", "How the last suggestion did",
                "suggestion", "fee market", "blocks",
            ];
            for (const name of expected) {
                await page.keyboard.press("Tab");
                const [found, isOutlined] = await focused(page);
                if (typeof name === "string") assert.equal(found, name);
                else assert.match(found, name);
                assert(isOutlined, `${found} has no outline`);
            }
            await page.keyboard.press("Tab");
            assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
        });
    },

    "screen readers get names and roles, and no announced numbers": async ({ open, still }) => {
        const service = await still();
        await open(`${service.url}/#ronin`, async (dashboard) => {
            const { page } = dashboard;
            await dashboard.waitForLive("ronin");
            await page.locator(".plot canvas").waitFor();
            await page.getByText("How the last suggestion did").waitFor();
            await page.locator(".verdict").waitFor();
            await dashboard.waitForNoBanner();
            const snapshot = await page.locator("main").ariaSnapshot();
            const compared = snapshot.slice(0, snapshot.indexOf("\n  - contentinfo"));
            assert.equal(compared.replace(/(\d+ min )?\d+ (min|s) ago/, "just now").replace(/127\S*?\//g, "host/"), SNAPSHOT);
            assert.equal(await page.locator("[aria-live], [role=alert], [role=timer], [role=log]").count(), 0);
            assert.equal(await page.locator("#chains [role=status]:not([hidden])").count(), 0);
        });
    },

    "reduced motion disables animations": async ({ open, start }) => {
        // A shorter bar would only flicker, so the page shows none.
        const service = await start({ demo: ["--block-time", "1s"] });
        // Only a block whose arrival the page saw has a bar: not the first one after a stream was reopened.
        const isRight = ({ when }, isMoving) =>
            /^(in|due|overdue) /.test(when["Next block"]) && document.getAnimations().length > 0 === isMoving;
        for (const [reducedMotion, isMoving] of [["no-preference", true], ["reduce", false]]) {
            const wait = (dashboard) => dashboard.waitForCard("base", isRight, isMoving);
            await open(`${service.url}/#base`, wait, { reducedMotion });
        }
    },
};
