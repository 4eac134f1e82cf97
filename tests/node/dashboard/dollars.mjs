// Waiting times, costs with a data fee and in dollars, and sending everything: what the page shows equals the API's.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

import { ACTIONS } from "../../../src/extras/pages/dashboard/costs.js";
import { until } from "../browser.mjs";
import { Proxy } from "../services.mjs";
import { choose } from "./page.mjs";

const FEED = "0x5f4ec3df9cbd43714fe2740f5e3616155c5b8419";
const PAIR = "TOK / USD";
// Blocks at which costs are compared.
const BLOCKS = 6;
const BALANCE = 1_234_500_000_000_000_000n;

const word = (number) => BigInt(number).toString(16).padStart(64, "0");
const text = (string) => word(32) + word(string.length) + Buffer.from(string).toString("hex").padEnd(64, "0");

// Starts nodes in front of those of `nodes` that have a price feed besides: a Chainlink contract with eight decimals.
// `priceOf` returns the price of a chain's coin in dollars, times 10⁸.
async function startFeeds(nodes, priceOf) {
    const answers = {
        "0x7284e416": () => text(PAIR),
        "0x313ce567": () => word(8),
        "0xfeaf968c": (id) => {
            const now = Math.floor(Date.now() / 1000);
            return word(1) + word(priceOf(id)) + word(now) + word(now) + word(1);
        },
    };
    const server = createServer(async (request, response) => {
        const body = Buffer.concat(await request.toArray());
        const { id, method, params } = JSON.parse(body);
        const chain = request.url.slice(1);
        const answer = method === "eth_call" && answers[params[0].data ?? params[0].input];
        if (answer) return response.end(JSON.stringify({ jsonrpc: "2.0", id, result: `0x${answer(chain)}` }));
        const forwarded = await fetch(nodes.url(chain), { method: "POST", body }).catch(() => undefined);
        // The service asks again.
        if (forwarded) response.end(await forwarded.text());
        else response.destroy();
    }).listen(0, "127.0.0.1");
    // A failed test must not keep the process running.
    server.unref();
    await once(server, "listening");
    return { server, url: (id) => `http://127.0.0.1:${server.address().port}/${id}` };
}

// The first transaction of an OP Stack block: the L1 attributes of Jovian.
function deposit() {
    const input = Buffer.alloc(178);
    input.write("3db6be2b", "hex");
    input.writeUInt32BE(5227, 4);
    input.writeUInt32BE(1_014_213, 8);
    input.writeBigUInt64BE(23_597_000n, 28);
    input.writeBigUInt64BE(1_055_991_687n, 60);
    input.writeBigUInt64BE(1n, 92);
    input.writeUInt32BE(7, 164);
    input.writeBigUInt64BE(8n, 168);
    return { type: "0x7e", to: "0x4200000000000000000000000000000000000015", input: `0x${input.toString("hex")}` };
}

const get = async (url) => {
    const response = await fetch(url);
    assert.equal(response.status, 200, url);
    return response.json();
};

const cell = (within, probability, max, tip) => ({
    within, probability, max_priority_fee_per_gas: String(tip), max_fee_per_gas: String(max), expected_price_per_gas: String(max),
    kept: null, judged: 0,
});

export default {
    "costs, dollars and what can be sent equal the API's": async ({ check, config, nodes, open, start }) => {
        const fees = 'pricing.base_fee_floor = "0 wei"\npricing.priority_fee_floor = "0 wei"';
        const feed = `usd_feed = { address = "${FEED}", pair = "${PAIR}", heartbeat = "1h" }`;
        const more = `block_time = "1s"\nmax_age = "1h"\nstall_after = "0s"\nmax_block_age = "0s"\n${feed}`;
        const moving = (id, scale) => nodes.chain(id, {
            baseFee: (number) => scale + ((BigInt(number) * 7919n) % 13n) * (scale / 100n),
            reward: (number) => (scale * (1n + (BigInt(number) % 5n))) / 10n,
            deposit: deposit(),
        });
        const chains = { rollup: moving(471, 10n ** 7n), dear: moving(472, 10n ** 9n), cheap: moving(473, 3n * 10n ** 9n) };
        const kinds = { rollup: "op-stack", dear: "none", cheap: "none" };
        const prices = { 471: 301_255_000_000n, 472: 301_255_000_000n, 473: 12_345n };
        const feeds = await startFeeds(nodes, (id) => prices[id]);
        const service = await start({ config: config.at(feeds, Object.fromEntries(Object.entries(chains).map(([key, { id }]) =>
            [key, { id, fees, more: `${more}\ndata_fee = "${kinds[key]}"` }]))) });
        for (const key of Object.keys(chains)) {
            // Before the first poll the response is a problem.
            const read = async () => (await fetch(`${service.url}/v1/${key}/fee-market`)).json();
            await until(read, ({ usd_per_coin: usd, data_fee: fee }) => usd && fee);
        }
        try {
            await open(`${service.url}/#rollup`, async (dashboard, { requests }) => {
                const { page } = dashboard;
                await dashboard.waitForLive("rollup");
                await page.getByLabel("Send everything of").fill("1.2345");
                const compared = new Set();
                for (let block = 101; block < 101 + BLOCKS; block += 1) {
                    const tier = ["low", "medium", "high"][block % 3];
                    await choose(page, tier[0].toUpperCase() + tier.slice(1));
                    chains.rollup.newest = block;
                    const card = await dashboard.waitForCard("rollup",
                        ({ when, of, sendable }, block) =>
                            when.Block === block && of === `at block ${block}` && sendable !== undefined,
                        String(block));
                    const costs = await Promise.all(ACTIONS.map(({ gas, bytes }) =>
                        get(`${service.url}/v1/rollup/cost?gas=${gas}&bytes=${bytes}&balance=${BALANCE}`)));
                    assert(costs.every(({ newest_block: newest }) => newest === block));
                    for (const [index, { tiers, usd }] of costs.entries()) {
                        const [coins, dollars] = card.exactCosts[index].split(" RON, $");
                        const [whole, fraction = ""] = coins.split(".");
                        assert.equal(BigInt(whole + fraction.padEnd(18, "0")), BigInt(tiers[tier].expected));
                        assert.equal(dollars, usd[tier].expected);
                        compared.add(dollars);
                    }
                    const { tiers: { [tier]: sent } } = costs[0];
                    const hold = `gas=21000&bytes=120&balance=${BALANCE}&hold=30s&probability=0.999`;
                    const { tiers: { [tier]: held } } = await get(`${service.url}/v1/rollup/cost?${hold}`);
                    await until(async () => (await dashboard.card()).sendable.replace(" RON", "").split("."),
                        ([whole, fraction = ""]) => whole + fraction.padEnd(18, "0") === held.max_send);
                    assert(BigInt(held.max_send) >= BigInt(sent.max_send));
                    assert.deepEqual(card.fees.map(([, title]) => /([0-9]+) wei$/.exec(title)[1]),
                        [sent.max_fee_per_gas, sent.max_priority_fee_per_gas]);
                }
                assert(compared.size > BLOCKS, `${compared.size} amounts`);
                // Each row has one request per reading of the parameters. The own gas limit is a transfer's at first.
                const asked = requests.filter((request) => new URL(request.url()).pathname.endsWith("/cost")).length;
                assert(asked >= ACTIONS.length && asked < BLOCKS * ACTIONS.length, `${asked} requests`);
                await page.getByText("With the fee for data on L1").waitFor();
                await page.getByLabel("bytes").fill("5500");
                await page.getByLabel("Your gas limit").fill("1200000");
                await dashboard.waitForCard("rollup", ({ costs }) => costs[6] === costs[5]);
                await check.whole(dashboard, "rollup");
                await page.getByLabel("Send everything of").fill("0.0000000001");
                await page.getByText("The balance is not enough for a transfer at this max fee.").waitFor();
            });
            await open(`${service.url}/`, async (dashboard) => {
                await dashboard.waitForRow("cheap", ({ transfer }) => transfer.includes("$"));
                const cheapest = await get(`${service.url}/v1/cheapest?gas=21000`);
                await until(async () => (await dashboard.rows()).map(({ name }) => name).join(),
                    (found) => found === cheapest.map(({ chain }) => chain).join());
                assert.equal(cheapest[0].chain, "cheap");
                await check.whole(dashboard, "dollars");
            });
        } finally {
            feeds.server.close();
            feeds.server.closeAllConnections();
        }
    },

    "each tier has its waiting time, and none without the route": async ({ check, many, open }) => {
        const inner = await (await many()).proxy(2);
        const proxy = await Proxy.start(inner.url);
        let fees;
        inner.hasFees = true;
        proxy.rule = (path) => (path.endsWith("/fees") ? fees : "pass");
        const market = await until(() => get(`${inner.url}/v1/chain-1/fee-market`), ({ suggestion }) => suggestion);
        const { medium, high } = market.suggestion;
        const of = (within, tier) => cell(within, 0.8, tier.max_fee_per_gas, tier.max_priority_fee_per_gas);
        fees = { cells: [cell(1, 0.5, 0, 0), of(1, high), of(3, medium), cell(25, 0.8, 10n ** 30n, 10n ** 30n)] };
        await open(`${proxy.url}/#chain-1`, async (dashboard, { requests }) => {
            const waits = ["less than 80 % in 25 blocks", "80 % in about 3 blocks, 3 h", "80 % in the next block"];
            const isLow = BigInt(market.expected_price_per_gas.low) < BigInt(market.expected_price_per_gas.medium);
            if (!isLow) waits[0] = waits[1];
            const { tiers } = await dashboard.waitForCard("Chain number 1", ({ tiers }) => tiers[2].wait !== "");
            assert.deepEqual(tiers.map(({ wait }) => wait), waits);
            await check.whole(dashboard, "waits");
            assert.equal(requests.filter((request) => request.url().endsWith("/fees")).length, 1);
        });
        for (const status of [404, 503]) {
            fees = status;
            await open(`${proxy.url}/#chain-1`, async (dashboard) => {
                const answered = dashboard.page.waitForResponse((response) => response.url().endsWith("/fees"));
                await dashboard.waitForLive("Chain number 1");
                await answered.catch(() => {});
                assert.deepEqual((await dashboard.card()).tiers.map(({ wait }) => wait), ["", "", ""]);
            });
        }
    },
};
