// What the page shows of a chain. Pure functions without access to the page or the network.

import { expectedPrice, grouped, gwei, price, priceParts } from "./amounts.js";
import { actionsOf, costView, dataFeeNote, gasNote, transferOf } from "./costs.js";
import { ago, duration, nextBlockText, shortAgo, sinceText } from "./format.js";
import { scoreView } from "./score.js";
import { staleAfter } from "./state.js";
import { DEFAULT_TIER, TIERS, tierFees, waitText } from "./tiers.js";

export const TITLE = "Gas prices";
const BADGES = {
    live: "Live",
    polled: "Polled",
    stale: "Stale",
    none: "No new data",
    old: "Not live",
    wait: "Loading…",
};
// Maximum of the service's `covers_full_blocks`.
const MAX_COVERED_BLOCKS = 100;
// Usual lag of the market data: the page requests it only after the event with the price.
const USUAL_LAG_BLOCKS = 2;
// With a rising base fee, a max fee that suffices for fewer full blocks is soon too low.
const FEW_BLOCKS = 3;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const STALLED = "Stale: no new block";
const NEVER_READ = "No data yet: the service has not reached a node of this chain since its start.";
// Age above which fees by horizon say nothing about the next blocks.
const MAX_FEES_AGE_MS = MINUTE;
const LEVELS = {
    low: "Low: cheaper than in most of the last 24 h",
    normal: "Normal for the last 24 h",
    high: "High: dearer than in most of the last 24 h",
};

/**
 * Returns everything that a chain's page shows.
 *
 * @param {import('./state.js').Chain} chain
 * @param {import('./state.js').Connection} connection
 * @param {number} now
 * @param {'low' | 'medium' | 'high'} tier
 */
export function chainView(chain, connection, now, tier = DEFAULT_TIER) {
    const { name, market, block } = chain;
    const row = rowView(chain, connection, now, tier);
    const { isLive } = row;
    const sinceBlockMs = chain.blockArrivedAt === undefined ? undefined : now - chain.blockArrivedAt;
    const priced = pricedMarket(chain);
    const isStreaming = isLive && chain.blockArrivedAt !== undefined;
    return {
        ...row,
        bar: isStreaming ? { from: chain.blockArrivedAt, milliseconds: chain.blockTimeMs } : undefined,
        next: nextBlockRow(chain, isLive, sinceBlockMs),
        // Until the first response, their place is kept free.
        hasWaits: row.isCurrent && Boolean(market.fees_ready) && chain.fees !== null,
        tiers: Object.entries(TIERS).map(([value, label]) => tierView(chain, value, label, row.isCurrent, now)),
        fees: market && feeRows(name, market, tier),
        priced,
        costs: priced && actionsOf(priced).map(({ label, gas, bytes }) =>
            ({ label, gas: grouped(gas), ...costView(priced, tier, { gas, bytes }) })),
        note: priced && `${gasNote(priced)} ${dataFeeNote(priced)}`.trim(),
        currency: priced?.currency ?? null,
        market: market && marketView(market, block),
        score: chain.score && scoreView(chain.score),
    };
}

/** Returns the market whose costs are shown, with the data fees that are known. */
function pricedMarket({ market, last, dataFees }) {
    const priced = market ?? last?.market;
    return priced && { ...priced, dataFees };
}

/** Returns what the overview shows of a chain. */
export function rowView(chain, connection, now, tier = DEFAULT_TIER) {
    const isLive = chain.isContinuous && !["interrupted", "disconnected"].includes(connection);
    const { market, last } = chain;
    const priced = pricedMarket(chain);
    // A list of chains without reasons does not tell data that was never read from data that is too old; the error does.
    const isUnread = chain.wasRead === false && chain.errorCode !== "stale_data" && !last;
    const silence = silenceText(chain, now);
    const [state, problem, notice = problem] = chainState(chain, isLive, connection, now, { isUnread, silence });
    const seen = chain.age ?? (market ? undefined : last?.age);
    const milliseconds = seen && now - seen.at + seen.atLeast;
    const age = seen && ago(milliseconds);
    const block = market?.newest_block ?? chain.block ?? (state === "none" ? chain.standing?.block : undefined);
    // Data that is not current has a price, but no verdict. A verdict is about the price of the default tier.
    const isCurrent = Boolean(market) && !["old", "none", "stale"].includes(state);
    const level = (isCurrent && tier === DEFAULT_TIER && market.level) || undefined;
    return {
        key: chain.key,
        name: chain.name,
        id: `chain id ${chain.id}`,
        state,
        badge: state === "none" && isUnread ? "No data yet" : BADGES[state],
        problem,
        notice,
        isLive,
        isCurrent,
        isUnread: state === "none" && isUnread,
        block: block === undefined ? undefined : grouped(block),
        age: age && `${market ? "Updated" : "Last updated"} ${age}`,
        shortAge: seen && shortAgo(milliseconds),
        since: sinceOf(chain, state, silence, now),
        price: priceView(chain, tier),
        warning: isCurrent ? warningOf(chain, tier) : undefined,
        trend: market?.base_fee_trend,
        history: chain.history ?? [],
        level,
        verdict: level && { level, text: verdictText(level, market.level_deviation) },
        transfer: priced && costView(priced, tier, transferOf(priced)),
    };
}

/** Returns a tier's card. */
function tierView(chain, value, label, isCurrent, now) {
    const { market, fees, blockTimeMs } = chain;
    const priced = pricedMarket(chain);
    const isKnown = isCurrent && fees && now - fees.at < MAX_FEES_AGE_MS;
    return {
        value,
        label,
        price: priceView(chain, value),
        // The fees by horizon may be those of a block before the one whose base fee is above the cap.
        wait: isKnown && !hasToWait(market, value)
            ? waitText(fees.cells, tierFees(market, value), blockTimeMs) : undefined,
        transfer: priced && costView(priced, value, transferOf(priced)),
    };
}

/** Returns since when no node has replied, and how long that is. */
function silenceText({ silence, last }, now) {
    if (silence) return sinceText(silence.since, now - silence.at + silence.atLeast);
    return last?.age && `for ${duration(now - last.age.at + last.age.atLeast)}`;
}

/** Returns what the table says of a chain that stopped, in place of the age of the data. */
function sinceOf({ standing, block }, state, silence, now) {
    if (state === "none") return silence;
    if (state !== "stale" || standing?.block !== block) return undefined;
    return `last block ${shortAgo(now - standing.at + standing.atLeast)}`;
}

/** Returns what a level means, with its distance from the median of the last 24 hours where it has one. */
function verdictText(level, deviation) {
    if (level === "normal" || deviation === null) return LEVELS[level];
    const size = Math.round(Math.abs(deviation) * 100);
    return level === "high" ? `High: ${grouped(size)} % above usual` : `Low: ${size} % below usual`;
}

/** Returns the price of a tier, or the last known one, which is past. */
function priceView({ market, last, pastPrice }, tier) {
    const known = market ?? last?.market;
    if (!known && (pastPrice === undefined || tier !== DEFAULT_TIER)) return undefined;
    const wei = known ? expectedPrice(known, tier) : pastPrice;
    const cap = known && tierFees(known, tier).max_fee_per_gas;
    const isLegacy = known?.suggestion.type === "legacy";
    return {
        ...priceParts(wei),
        wei,
        exact: `${grouped(wei)} wei`,
        cap: cap && (isLegacy ? "Gas price of a legacy transaction" : `Max fee (cap) ${price(cap)}`),
        capExact: cap && `${grouped(cap)} wei`,
        isPast: !market,
    };
}

/** Returns true if the tier's max fee is below the next block's base fee. */
function hasToWait(market, tier) {
    const { next_base_fee_per_gas: next, suggestion } = market;
    if (next === null || suggestion.type === "legacy") return false;
    return BigInt(tierFees(market, tier).max_fee_per_gas) < BigInt(next);
}

/**
 * Returns a warning about the price, and a short one for the table; `undefined` if there is none. The price rises fast if
 * it is more than 5 % above the average price of the window, and the next block's base fee is higher than the one before.
 */
function warningOf({ market, nextBefore }, tier) {
    const { next_base_fee_per_gas: next, suggestion } = market;
    if (next === null || suggestion.type === "legacy") return undefined;
    const to = BigInt(next);
    if (hasToWait(market, tier)) {
        return { text: "The max fee is below the next block’s base fee: a transaction has to wait", short: "has to wait" };
    }
    // Without the market before, a block that is more than half full raises the base fee of most chains.
    const isRising = nextBefore ? to > BigInt(nextBefore) : market.gas_used_ratio.latest > 0.5;
    const [paid, usual] = [expectedPrice(market, "medium"), averagePrice(market)];
    if (!isRising || 100n * paid <= 105n * usual || usual === 0n) return undefined;
    const size = `price ${grouped((100n * (paid - usual)) / usual)} % above average`;
    const covered = market.covers_full_blocks[tier] ?? market.covers_full_blocks.medium;
    const isShort = Number.isInteger(covered) && covered < FEW_BLOCKS;
    const text = isShort ? `Rising fast: ${size}; the max fee may soon be too low` : `Rising fast: ${size}`;
    return { text, short: "rising fast" };
}

/**
 * Returns the average price per gas of the window: its average base fee and reward. A tip above the average reward is
 * that of a floor or of the strategy, and not a rise: then it counts.
 */
function averagePrice({ average_base_fee_per_gas: baseFee, average_reward_per_gas: [reward], suggestion }) {
    const [average, tip] = [reward ?? 0, suggestion.medium.max_priority_fee_per_gas].map(BigInt);
    return BigInt(baseFee) + (average > tip ? average : tip);
}

function nextBlockRow({ block, blockTimeMs }, isLive, sinceBlockMs) {
    if (block === undefined) return undefined;
    return isLive ? nextBlockText(sinceBlockMs, blockTimeMs) : "unknown";
}

function feeRows(name, market, tier) {
    const { max_fee_per_gas: max, max_priority_fee_per_gas: priority } = tierFees(market, tier);
    const amounts = market.suggestion.type === "legacy" ? { "Gas price": max } : { "Max fee": max, "Priority fee": priority };
    return Object.entries(amounts).map(([label, wei]) => ({
        label,
        wei,
        gwei: gwei(wei),
        description: `${tier} ${label.toLowerCase()} of ${name}`,
    }));
}

/** Returns what the page shows of a fee market. `newest` is the block of the newest event. */
function marketView(market, newest) {
    const { covers_full_blocks: covers, gas_used_ratio: used, window } = market;
    const next = market.next_base_fee_per_gas;
    const blocks = `${window.blocks} ${window.blocks === 1 ? "block" : "blocks"}`;
    const rows = {
        "Next block’s base fee": next === null ? "unknown" : `${gwei(next)} gwei`,
        "Average base fee": `${gwei(market.average_base_fee_per_gas)} gwei over ${blocks}`,
        "Base fee trend": market.base_fee_trend,
        "Gas used": `${percent(used.latest)}, on average ${percent(used.average)}`,
        "Safe for full blocks": coveredText(covers),
        "Minimum applied": floorsText(market.floors_applied),
        ...parameterRows(market),
    };
    return {
        block: grouped(market.newest_block),
        behind: lagText(newest - market.newest_block),
        rows: Object.entries(rows).filter(([, text]) => text !== undefined),
        warning: floorWarning(market.floors_above_market ?? {}),
    };
}

function floorsText(floors) {
    if (!floors) return undefined;
    const names = [floors.base_fee && "base fee", floors.priority_fee && "priority fee"].filter(Boolean);
    return names.length === 0 ? "none" : names.join(" and ");
}

function parameterRows({ chain_parameters: parameters, strategy }) {
    const { minimum_base_fee: minimum } = parameters ?? {};
    return {
        "Pricing strategy": strategy,
        "Base fee step": stepText(parameters ?? {}),
        "Least base fee": minimum ? `${gwei(minimum)} gwei` : undefined,
    };
}

/** Formats how far blocks move the base fee; `undefined` if that is unknown. */
function stepText({ base_fee_change_denominator: full, empty_block_denominator: empty, source }) {
    if (!full) return undefined;
    const step = full === empty ? `at most 1/${full}` : `at most +1/${full} and −1/${empty}`;
    return `${step} per block (from ${source})`;
}

function coveredText({ medium, high }) {
    if (medium === null) return "unknown";
    return `medium ${blocksCovered(medium)}, high ${blocksCovered(high)}`;
}

/** Formats the number of full blocks for which a price suffices. */
export function blocksCovered(count) {
    return count >= MAX_COVERED_BLOCKS ? `${MAX_COVERED_BLOCKS} or more` : String(count);
}

/** Formats a ratio as a percentage; `null` if unknown. */
function percent(ratio) {
    return ratio === null ? "unknown" : `${Math.round(ratio * 100)} %`;
}

/** Returns a sentence about floors that are far above what the market pays; empty if none is. */
function floorWarning({ base_fee: baseFee, priority_fee: priorityFee }) {
    const floors = [baseFee && "base fee", priorityFee && "priority fee"].filter(Boolean);
    if (floors.length === 0) return "";
    return `The configured minimum of the ${floors.join(" and of the ")} is more than ten times what the market pays.`;
}

/** Returns a text if the market data lags by more than usual. It normally arrives a moment after the price. */
function lagText(blocks) {
    return blocks > USUAL_LAG_BLOCKS ? `, ${blocks} blocks behind` : "";
}

/**
 * Returns a chain's state, a sentence if something is wrong, and another to announce if the sentence changes with time.
 */
function chainState(chain, isLive, connection, now, { isUnread, silence }) {
    if (chain.status === "unknown") return ["wait"];
    if (chain.status === "unavailable") {
        if (isUnread) return ["none", NEVER_READ];
        const text = silence ? `No new data ${silence}.` : "No data available.";
        return ["none", text, text.replace(/ (\(.*\)|for .*)\.$/, ".")];
    }
    if (!isLive) return ["old"];
    if (chain.status === "fresh") return [connection === "polling" ? "polled" : "live"];
    // The service reports the age in whole seconds, rounded down.
    const isOld = chain.age && chain.age.atLeast + SECOND > staleAfter(chain);
    if (isOld) return ["stale", "Stale: the data is older than two block times."];
    const stalledMs = now - (chain.blockArrivedAt ?? chain.blockSeenAt);
    if (chain.blockArrivedAt !== undefined) return ["stale", `${STALLED} for ${duration(stalledMs)}.`];
    // The page did not see the block arrive. The list of chains may have its time, or else there is a lower bound.
    const { standing } = chain;
    if (standing?.block === chain.block) {
        return ["stale", `${STALLED} ${sinceText(standing.since, now - standing.at + standing.atLeast)}.`];
    }
    return [
        "stale",
        stalledMs < MINUTE ? `${STALLED} for some time.` : `${STALLED} for at least ${duration(stalledMs)}.`,
    ];
}

/**
 * Returns the window's title: the problem if there is one, or else the price of the open chain, or of the first one
 * that has a price.
 *
 * @param {object[]} rows of the chains
 * @param {string} [openKey] key of the open chain
 */
export function windowTitle(rows, openKey, connection) {
    if (connection === "disconnected") return `Disconnected – ${TITLE}`;
    const shown = openKey === undefined ? rows : rows.filter(({ key }) => key === openKey);
    const outdated = shown.filter(({ state }) => ["stale", "none"].includes(state)).length;
    if (outdated > 0 && shown.length === 1) return `${shown[0].name} is not up to date – ${TITLE}`;
    if (outdated > 0 && outdated === shown.length) return `No price is up to date – ${TITLE}`;
    const known = shown.find(({ isLive, price, state }) => isLive && price && !["stale", "none"].includes(state));
    return known ? `${known.price.number} ${known.price.unit} on ${known.name} – ${TITLE}` : TITLE;
}

/** Returns what the window's icon shows: the price of the open chain, or that of the first one with a price. */
export function iconOf(rows, openKey, connection) {
    const shown = rows.find(({ key, price }) => (openKey === undefined ? price : key === openKey));
    if (!shown) return undefined;
    const isOutdated = !shown.isLive || ["stale", "none"].includes(shown.state) || connection === "disconnected";
    return { price: shown.price, level: shown.level, isOutdated };
}
