// How amounts, times and states are written. Knows neither page nor network.

import { staleAfter } from "./state.js";

// As many as the service counts.
const MOST_BLOCKS = 100;
// How many blocks come while an answer is on its way.
const MOST_BEHIND = 2;
export const TITLE = "Gas prices";
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STANDS = "Stale: the newest block has not changed";

/**
 * Wei as gwei, exact to the last digit.
 *
 * @param {string} wei decimal digits
 */
export function gwei(wei) {
    const digits = BigInt(wei).toString().padStart(10, "0");
    const fraction = digits.slice(-9).replace(/0+$/, "");
    return digits.slice(0, -9) + (fraction && `.${fraction}`);
}

/** A span of time in its two largest units, rounded down. */
export function span(milliseconds) {
    const left = Math.max(milliseconds, 0);
    const of = (size) => Math.floor(left / size);
    const two = (size, name, part, partName) => {
        const rest = Math.floor((left % size) / part);
        return rest === 0 ? `${of(size)} ${name}` : `${of(size)} ${name} ${rest} ${partName}`;
    };
    if (left < MINUTE) return `${of(SECOND)} s`;
    if (left < HOUR) return two(MINUTE, "min", SECOND, "s");
    if (left < DAY) return two(HOUR, "h", MINUTE, "min");
    return two(DAY, "d", HOUR, "h");
}

/** How old something is. */
export function ago(milliseconds) {
    return milliseconds < SECOND ? "just now" : `${span(milliseconds)} ago`;
}

/**
 * When the next block comes.
 *
 * @param {number | undefined} since for how long the newest block has been the newest
 * @param {number} blockTimeMs
 */
export function nextBlock(since, blockTimeMs) {
    if (since === undefined) return "not known yet";
    const left = blockTimeMs - since;
    // The service looks once per block time, so the time is no more exact than that.
    if (-left >= Math.max(SECOND, blockTimeMs / 2)) return `overdue by ${span(-left)}`;
    if (left <= 0) return "due now";
    return left < SECOND ? "in less than 1 s" : `in about ${span(left + SECOND / 2)}`;
}

/** How many blocks a price lasts. */
export function blocksCovered(count) {
    if (count >= MOST_BLOCKS) return `${MOST_BLOCKS} or more`;
    return String(count);
}

/** A share of 1 in percent. */
function percent(ratio) {
    return ratio === null ? "not known" : `${Math.round(ratio * 100)} %`;
}

/**
 * All that a card says.
 *
 * @param {import('./state.js').Chain} chain
 * @param {import('./state.js').Connection} connection
 * @param {number} now
 */
export function cardOf(chain, connection, now) {
    const { name, suggestion, block } = chain;
    const isLive = chain.isWatched && !["interrupted", "disconnected"].includes(connection);
    const since = chain.moved === undefined ? undefined : now - chain.moved;
    const age = chain.age && ago(now - chain.age.at + chain.age.atLeast);
    const [state, problem] = stateOf(chain, isLive, connection, now);
    return {
        name,
        id: `chain id ${chain.id}`,
        state,
        problem,
        isLive,
        block: block === undefined ? undefined : String(block),
        age: age && `read ${age}`,
        bar: isLive && chain.moved !== undefined ? barOf(chain) : undefined,
        next: nextOf(chain, isLive, since),
        tiers: suggestion && ["medium", "high"].map((tier) => tierOf(name, suggestion, tier)),
        baseFee: suggestion?.type === "eip-1559" ? suggestion.base_fee_per_gas : undefined,
        market: chain.market && marketOf(chain.market, block),
    };
}

function nextOf({ block, blockTimeMs }, isLive, since) {
    if (block === undefined) return undefined;
    return isLive ? nextBlock(since, blockTimeMs) : "not known";
}

/** From which instant on, and for how long, the next block is awaited. */
function barOf({ moved, blockTimeMs }) {
    return { from: moved, milliseconds: blockTimeMs };
}

function tierOf(name, suggestion, tier) {
    const { max_fee_per_gas: max, max_priority_fee_per_gas: priority } = suggestion[tier];
    const amounts =
        suggestion.type === "legacy"
            ? { "Gas price": max }
            : { "Max fee": max, "Priority fee": priority };
    return Object.entries(amounts).map(([label, wei]) => ({
        label,
        wei,
        what: `${tier} ${label.toLowerCase()} of ${name}`,
    }));
}

/** How a price was calculated, and for which block. */
function marketOf(market, newest) {
    const { covers_full_blocks: covers, gas_used_ratio: used, window } = market;
    const next = market.next_base_fee_per_gas;
    return {
        block: String(market.newest_block),
        behind: behindOf(newest - market.newest_block),
        nextBaseFee: next === null ? "not known" : `${gwei(next)} gwei`,
        averageBaseFee: `${gwei(market.average_base_fee_per_gas)} gwei`,
        averageOf: `over ${window.blocks} ${window.blocks === 1 ? "block" : "blocks"}`,
        trend: market.base_fee_trend,
        gasUsed: `${percent(used.latest)}, on average ${percent(used.average)}`,
        covers: { medium: blocksCovered(covers.medium), high: blocksCovered(covers.high) },
    };
}

/** The facts are always a moment behind the price; the page says so if it is more than a moment. */
function behindOf(blocks) {
    return blocks > MOST_BEHIND ? `, ${blocks} behind` : "";
}

/** A word for a chain's state, and a sentence where it is not as it should be. */
function stateOf(chain, isLive, connection, now) {
    if (chain.status === "unknown") return ["wait"];
    if (chain.status === "unavailable") {
        const sentences = {
            no_data: "No data was read yet.",
            stale_data: "The newest data is too old to be served.",
        };
        return ["none", sentences[chain.why] ?? "There is no data that can be served."];
    }
    if (!isLive) return ["old"];
    if (chain.status === "fresh") return [connection === "polling" ? "polled" : "live"];
    // The age is shown in whole seconds, rounded down.
    const isOld = chain.age && chain.age.atLeast + SECOND > staleAfter(chain);
    if (isOld) return ["stale", "Stale: the data is older than two blocks."];
    const still = now - (chain.moved ?? chain.since);
    if (chain.moved !== undefined) return ["stale", `${STANDS} for ${span(still)}.`];
    // The block arrived before the page was open.
    return [
        "stale",
        still < MINUTE ? `${STANDS} for some time.` : `${STANDS} for at least ${span(still)}.`,
    ];
}

/** Text alternative of a chart. */
export function chartText(name, market) {
    const { nextBaseFee, averageBaseFee, averageOf, trend, gasUsed, block } = marketOf(market);
    return (
        `Chart of ${name}’s recent blocks. At block ${block}: base fee ${trend}, ` +
        `${averageBaseFee} ${averageOf}, next ${nextBaseFee}; gas used ${gasUsed}.`
    );
}

/**
 * What the banner says of the connection; nothing while all is well.
 *
 * @param {{ connection: import('./state.js').Connection, since?: string, reason?: string,
 *     paceMs: number, isFirst: boolean }} trouble
 */
export function bannerOf({ connection, since, reason, paceMs, isFirst }) {
    const why = reason ? ` (${reason})` : "";
    switch (connection) {
        case "interrupted":
            return isFirst ? "" : "Live updates broke off; trying again…";
        case "disconnected":
            return isFirst
                ? `No answer from the service yet${why}; trying again…`
                : `Disconnected from the service since ${since}${why}; trying again…`;
        case "polling":
            return (
                "No live updates at the moment; trying again. " +
                `Until then the numbers are asked for every ${paceMs / SECOND} s.`
            );
        default:
            return isFirst ? "Reading the prices…" : "";
    }
}

/** Announcement of a change of a chain's state; nothing if it needs none. */
export function changeOf(name, before, after) {
    // Why there is nothing is known a little later; for how long a block stands changes all the time.
    const isSame = before.problem === after.problem || after.state !== "none";
    if (before.state === after.state && isSame) return "";
    if (after.state === "old" || after.state === "wait") return "";
    if (after.problem) return `${name}: ${after.problem}`;
    return ["stale", "none"].includes(before.state) ? `${name} is up to date again.` : "";
}

/** The title of the window: the price where there is one chain, and what is wrong. */
export function titleOf(cards, connection) {
    if (connection === "disconnected") return `Disconnected – ${TITLE}`;
    const ill = cards.filter(({ state }) => ["stale", "none"].includes(state)).length;
    if (ill > 0) return `${ill} of ${cards.length} not up to date – ${TITLE}`;
    const [card] = cards;
    if (cards.length !== 1 || !card.isLive || !card.tiers) return TITLE;
    return `${gwei(card.tiers[0][0].wei)} gwei on ${card.name} – ${TITLE}`;
}
