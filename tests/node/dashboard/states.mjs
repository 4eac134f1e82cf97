// The states of a chain's data, each with its layout and its accessibility.

import assert from "node:assert/strict";

export default {
    "stale data is labelled, and expired data is shown as past": async ({ check, config, nodes, open, start }) => {
        const well = nodes.chain(41);
        const service = await start({ config: config({ well: { ...well, more:
            'block_time = "1s"\nmax_age = "8s"\nstall_after = "4s"' } }) });
        await open(`${service.url}/`, async (dashboard) => {
            const waitForProblem = (name, problem) =>
                dashboard.waitForCard(name, (card, problem) => card.problem === problem, problem);
            // The chain was stalled before the page was opened.
            const isStalled = ({ problem }) => problem?.startsWith("Stale: no new block");
            const first = await dashboard.waitForCard("well", isStalled);
            assert.match(first.problem, /^Stale: no new block since \d\d:\d\d \(\d+ s\)\.$/);
            assert.deepEqual([first.when.Block, first.badge, first.price], ["100", "Stale", "21 gwei"]);
            assert.equal(first.when["Next block"], "not known yet");
            await dashboard.waitForTitle("well is not up to date – Gas prices");
            await check.whole(dashboard, "stale");
            // The page is watched before the block arrives, because it is current for four seconds only.
            const isNext = ({ badge, when }) => badge === "Live" && when.Block === "101";
            const seen = dashboard.waitForCard("well", isNext);
            well.newest += 1;
            const next = await seen;
            await dashboard.waitForAnnouncement("well is up to date again.");
            assert.match(next.when["Next block"], /^(in |due now|overdue by)/);
            await dashboard.waitForCard("well", ({ when }) => /^overdue by \d+ s$/.test(when["Next block"]));
            const second = await dashboard.waitForCard("well", isStalled);
            assert.match(second.problem, /^Stale: no new block for \d+ s\.$/);
            well.isHealthy = false;
            const old = await waitForProblem("well", "Stale: the data is older than two block times.");
            assert.deepEqual([old.price, old.fees, old.isPast], [second.price, second.fees, false]);
            const isGone = ({ problem }) => /^No new data since \d\d:\d\d \(\d+ s\)\.$/.test(problem);
            const gone = await dashboard.waitForCard("well", isGone);
            assert.deepEqual([gone.badge, gone.price, gone.isPast, gone.cap, gone.fees, gone.market, gone.when],
                ["No new data", "21 gwei", true, "Last known price", [], {}, { Block: "101", "Next block": "–" }]);
            assert.match(gone.age, /^Last updated \d+ s ago$/);
            assert.equal(gone.hint, "Is this your service? Ask the chain’s nodes with gas-suggestion check-config --online.");
            assert.deepEqual(gone.tiers.map(({ wait, cost }) => [wait, cost]), Array(3).fill(["", ""]));
            const said = gone.problem.replace(/ \(.*/, ".");
            await dashboard.waitForAnnouncement(`well: ${said}`);
            await check.whole(dashboard, "no-data");
            // The stop is announced once, although its duration changes.
            const texts = await dashboard.page.evaluate(() => window.announcements.filter((text) => text.includes("No new data")));
            assert.equal(texts.length, 1);
            // A page that was opened later has the last price, and the history, of the service.
            await dashboard.page.reload();
            await dashboard.waitForCard("well", ({ price, isPast }) => price === "21 gwei" && isPast);
            const later = await dashboard.card();
            assert.deepEqual([later.badge, later.tiers.map(({ name }) => name), later.costs, later.when.Block],
                ["No new data", ["medium"], [], "101"]);
            await dashboard.page.getByText(/^Price per gas in the last /).first().waitFor();
            await check.whole(dashboard, "stopped");
            well.isHealthy = true;
            // The chain is stale again four seconds after a block.
            const ticking = setInterval(() => (well.newest += 1), 500);
            await dashboard.waitForBlockAbove("well", 101).finally(() => clearInterval(ticking));
        });
    },

    "a chain that was never read has no price until its first block": async ({ check, config, nodes, open, start }) => {
        const [failing, other] = [nodes.chain(42), nodes.chain(43)];
        failing.isHealthy = false;
        const service = await start({ config: config({ failing, other }) });
        await open(`${service.url}/`, async (dashboard) => {
            await dashboard.waitForLiveRow("other");
            const row = await dashboard.waitForRow("failing", ({ badge }) => badge === "No data yet");
            assert.deepEqual([row.price, row.isPast, row.age, row.since], ["– ", false, "", ""]);
            await check.whole(dashboard, "never-read-row");
            await dashboard.page.getByRole("link", { name: "failing" }).click();
            const isKnown = ({ problem }) => problem ===
                "No data yet: the service has not reached a node of this chain since its start.";
            const none = await dashboard.waitForCard("failing", isKnown);
            assert.deepEqual([none.badge, none.tiers, none.cap, none.fees, none.costs, none.age],
                ["No data yet", [], "", [], [], ""]);
            assert.match(none.hint, /check-config --online/);
            await dashboard.waitForTitle("failing is not up to date – Gas prices");
            await check.whole(dashboard, "never-read");
            failing.isHealthy = true;
            await dashboard.waitForBlockAbove("failing", 99);
        });
    },
};
