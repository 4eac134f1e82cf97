// The prices and costs that the page shows, compared with the API.

import assert from "node:assert/strict";

import { grouped, gwei, price } from "../../../src/extras/pages/dashboard/amounts.js";
import { ACTIONS } from "../../../src/extras/pages/dashboard/costs.js";
import { until } from "../browser.mjs";
import { blockOf, shownCard } from "./page.mjs";

// Blocks to compare, of both chains of the demo together.
const BLOCKS = 80;
const GAS = [...ACTIONS.map(({ gas }) => gas), 100_000n];
const UNITS = { ETH: 18, gwei: 9 };
const MAX_MS = 300_000;

// Checks that an amount is `wei`, rounded to three significant digits.
function checkRounded(text, wei, what) {
    const [number, unit] = text.split(" ");
    const shown = Number(number.replaceAll(",", ""));
    const exact = Number(wei) / 10 ** UNITS[unit];
    const digit = 10 ** (Math.floor(Math.log10(exact)) - 2);
    assert(Math.abs(shown - exact) <= digit * 0.5001, `${what}: ${text} of ${wei}`);
}

// Compares what the page showed with the fee market of the same block.
function compare(card, market) {
    const { suggestion: { medium }, next_base_fee_per_gas: next, expected_price_per_gas: expected } = market;
    const [cap, paid] = [BigInt(medium.max_fee_per_gas), BigInt(next) + BigInt(medium.max_priority_fee_per_gas)];
    const wei = paid < cap ? paid : cap;
    assert.equal(String(wei), expected.medium);
    assert.equal(card.exact, `${grouped(wei)} wei`);
    assert.equal(card.price, price(wei));
    checkRounded(card.price, wei, "price");
    assert.equal(card.cap, `Max fee (cap) ${price(cap)}`);
    assert.deepEqual(card.fees, Object.entries({ "Max fee": cap, "Priority fee": medium.max_priority_fee_per_gas })
        .map(([label, wei]) => [label, `${gwei(wei)} gwei, ${wei} wei`]));
    assert.deepEqual(card.tiers.map(({ name, price, exact }) => [name, price, exact]), Object.entries(expected)
        .map(([name, wei]) => [name, price(wei), `${grouped(wei)} wei`]));
    assert.equal(card.costs.length, GAS.length);
    for (const [index, gas] of GAS.entries()) {
        checkRounded(card.costs[index], wei * gas, `cost of ${gas} gas`);
        const [coins, unit] = card.exactCosts[index].split(/,? /);
        const [whole, fraction = ""] = coins.split(".");
        assert.deepEqual([BigInt(whole + fraction.padEnd(18, "0")), unit], [wei * gas, "ETH"]);
    }
    const covers = ["medium", "high"].map((tier) => {
        const count = market.covers_full_blocks[tier];
        return `${tier} ${count === 100 ? "100 or more" : count}`;
    });
    assert.deepEqual(Object.values(card.market).slice(0, 5), [
        `${gwei(next)} gwei`, `${gwei(market.average_base_fee_per_gas)} gwei over 20 blocks`, market.base_fee_trend,
        `${Math.round(market.gas_used_ratio.latest * 100)} %, on average ${Math.round(market.gas_used_ratio.average * 100)} %`,
        covers.join(", "),
    ]);
}

async function followChain(chain, count, { demo, open }) {
    const service = await demo();
    await open(`${service.url}/#${chain}`, async (dashboard, { requests }) => {
        const { page } = dashboard;
        await dashboard.waitForLive(chain);
        const [compared, revised] = [new Set(), new Set()];
        const markets = new Map();
        const readMarket = async () => {
            const market = await (await fetch(`${service.url}/v1/${chain}/fee-market`)).json();
            markets.set(market.newest_block, market);
        };
        // The page sends what it shows after each change of its price or of the block.
        const cards = [];
        await page.exposeFunction("shown", (card) => cards.push(card));
        await page.evaluate((read) => {
            const card = new Function(`return (${read})()`);
            let before;
            new MutationObserver(() => {
                const now = card();
                const key = JSON.stringify({ ...now, age: "", when: now.when.Block });
                if (key !== before) window.shown(now);
                before = key;
            }).observe(document.querySelector("#chains .of"), { childList: true, characterData: true, subtree: true });
        }, shownCard.toString());
        const deadline = Date.now() + MAX_MS;
        while (compared.size < count) {
            assert(Date.now() < deadline, `${chain}: only ${compared.size} blocks compared`);
            const [seen] = [cards.length, await readMarket()];
            await until(() => cards.length, (found) => found > seen);
            await readMarket();
            for (const card of cards) {
                const block = blockOf(card);
                const market = markets.get(block);
                if (!market || compared.has(block) || card.of.replaceAll(",", "") !== `at block ${block}`) continue;
                // Asks that are read between the page's event and this request change the price of a block.
                const prices = Object.values(market.expected_price_per_gas).map((wei) => `${grouped(BigInt(wei))} wei`);
                if (card.tiers.some(({ exact }, index) => exact !== prices[index])) {
                    revised.add(block);
                    continue;
                }
                compare(card, market);
                compared.add(block);
                revised.delete(block);
            }
        }
        assert(revised.size <= count / 10, `${chain}: other prices at the blocks ${[...revised]}`);
        assert.equal(requests.filter((request) => request.isNavigationRequest()).length, 1);
        const streams = requests.filter((request) => request.url().endsWith("/stream"));
        assert.deepEqual(streams.map((request) => request.url()), [`${service.url}/v1/gas-suggestions/stream`]);
        // The other chain is not requested.
        const others = requests.filter((request) => request.url().includes(chain === "base" ? "/v1/ethereum/" : "/v1/base/"));
        assert.deepEqual(others, []);
    });
}

export default {
    [`price and costs equal the API's at ${BLOCKS} blocks, without a reload`]: async (tools) => {
        await Promise.all(["ethereum", "base"].map((chain) => followChain(chain, BLOCKS / 2, tools)));
    },
};
