// The states of a chain's data, each with its layout and its accessibility.

import assert from "node:assert/strict";

export default {
    "stale data is labelled, and expired data is shown as past": async ({ check, config, nodes, open, start }) => {
        const well = nodes.chain(41);
        const service = await start({ config: config({ well: { ...well, more:
            'block_time = "1s"\nmax_age = "8s"\nstall_after = "2s"' } }) });
        await open(`${service.url}/`, async (dashboard) => {
            const waitForProblem = (name, problem) =>
                dashboard.waitForCard(name, (card, problem) => card.problem === problem, problem);
            // The chain was stalled before the page was opened.
            const isStalled = ({ problem }) => problem?.startsWith("Stale: no new block");
            const first = await dashboard.waitForCard("well", isStalled);
            assert.equal(first.problem, "Stale: no new block for some time.");
            assert.deepEqual([first.when.Block, first.badge, first.price], ["100", "Stale", "21 gwei"]);
            assert.equal(first.when["Next block"], "not known yet");
            await dashboard.waitForTitle("well is not up to date – Gas prices");
            await check.whole(dashboard, "stale");
            well.newest += 1;
            await dashboard.waitForAnnouncement("well is up to date again.");
            const next = await dashboard.waitForBlockAbove("well", 100);
            assert.match(next.when["Next block"], /^(in |due now|overdue by)/);
            await dashboard.waitForCard("well", ({ when }) => /^overdue by \d+ s$/.test(when["Next block"]));
            const second = await dashboard.waitForCard("well", isStalled);
            assert.match(second.problem, /^Stale: no new block for \d+ s\.$/);
            well.isHealthy = false;
            const old = await waitForProblem("well", "Stale: the data is older than two block times.");
            assert.deepEqual([old.price, old.fees, old.isPast], [second.price, second.fees, false]);
            const problem = "The newest data is too old to serve. The service keeps asking its nodes.";
            const gone = await waitForProblem("well", problem);
            assert.deepEqual([gone.badge, gone.price, gone.isPast, gone.cap, gone.fees, gone.market, gone.when],
                ["Unavailable", "21 gwei", true, "Last known price", [], {}, { Block: "–", "Next block": "–" }]);
            assert.match(gone.age, /^Last updated \d+ s ago$/);
            await dashboard.waitForAnnouncement(`well: ${problem}`);
            await check.whole(dashboard, "no-data");
            well.isHealthy = true;
            well.newest += 1;
            await dashboard.waitForBlockAbove("well", 101);
        });
    },

    "a chain that was never read has no price until its first block": async ({ check, config, nodes, open, start }) => {
        const [failing, other] = [nodes.chain(42), nodes.chain(43)];
        failing.isHealthy = false;
        const service = await start({ config: config({ failing, other }) });
        await open(`${service.url}/`, async (dashboard) => {
            await dashboard.waitForLiveRow("other");
            const row = await dashboard.waitForRow("failing", ({ badge }) => badge === "No data yet");
            assert.deepEqual([row.price, row.isPast, row.age], ["– ", false, ""]);
            await check.whole(dashboard, "never-read-row");
            await dashboard.page.getByRole("link", { name: "failing" }).click();
            const isKnown = ({ problem }) => problem === "No data received yet. The service keeps asking its nodes.";
            const none = await dashboard.waitForCard("failing", isKnown);
            assert.deepEqual([none.badge, none.price, none.cap, none.fees, none.costs, none.when, none.age],
                ["No data yet", "– ", "", [], [], { Block: "–", "Next block": "–" }, ""]);
            await dashboard.waitForTitle("failing is not up to date – Gas prices");
            await check.whole(dashboard, "never-read");
            failing.isHealthy = true;
            await dashboard.waitForBlockAbove("failing", 99);
        });
    },

    "a chain with legacy pricing has one gas price per tier": async ({ check, config, nodes, open, start }) => {
        const chain = nodes.chain(51, { baseFee: 0n, reward: 21n * 10n ** 9n });
        const service = await start({ config: config({ old: chain }) });
        await open(`${service.url}/`, async (dashboard) => {
            const legacy = await dashboard.waitForLive("old");
            assert.deepEqual([legacy.price, legacy.cap, legacy.fees],
                ["21 gwei", "Gas price of a legacy transaction", [["Gas price", "21 gwei, 21000000000 wei"]]]);
            await dashboard.page.locator(".plot canvas").waitFor();
            await check.whole(dashboard, "legacy");
            await dashboard.waitForTitle("21 gwei on old – Gas prices");
            chain.baseFee = 1n;
            chain.newest += 1;
            const { fees } = await dashboard.waitForCard("old", ({ fees }) => fees.length === 2);
            assert.deepEqual(fees, [["Max fee", "23 gwei, 23000000000 wei"], ["Priority fee", "21 gwei, 21000000000 wei"]]);
        });
    },
};
