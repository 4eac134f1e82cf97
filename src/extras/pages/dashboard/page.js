// The dashboard: a table of all chains and a page for each of them, updated by live.js.

import { ChainPage } from "./chain.js";
import { feeName, hasDataFee, isDataFee, transferOf } from "./costs.js";
import { setText } from "./dom.js";
import { announcementText, bannerText } from "./format.js";
import { Favicon } from "./favicon.js";
import { HiddenUpdates, LiveUpdates } from "./live.js";
import { Alerts } from "./notify.js";
import { Overview } from "./overview.js";
import { bucketPrice } from "./points.js";
import {
    applyBlocks,
    applyEvent,
    applyGap,
    applyListEntry,
    applyMarketResponse,
    isWithoutMarket,
    needsFees,
    needsMarket,
    needsScore,
    newChain,
} from "./state.js";
import { DEFAULT_TIER, TIERS } from "./tiers.js";
import { TITLE, chainView, iconOf, rowView, windowTitle } from "./view.js";

// Update interval of the displayed ages, which are in seconds.
const TICK_MS = 250;
// Minimum time between two updates of the table, so that many chains do not keep a processor busy.
const TABLE_MS = 1000;
// `performance.now()` pauses while the computer sleeps, `Date.now()` does not. If the difference between the two
// changes by more than this, the computer has slept.
const MIN_SLEEP_MS = 5000;

// Chains up to which the table begins with earlier prices, which take a request for each.
const MAX_HISTORIES = 12;

// Address of the small view.
const MINI = "mini";

const base = new URL("./", document.baseURI);
const [place, banner, announcer] = ["chains", "banner", "news"].map((id) => document.getElementById(id));
/**
 * By the chain's key, in the order of the list.
 *
 * @type {Map<string, { chain: import('./state.js').Chain, view: object, scoreAskedAt: number,
 *     feesAskedAt: number, dataFeesReadAt: Record<string, string> }>}
 */
let entries = new Map();
const overview = new Overview(new URL("v1/fee-markets", base));
const alerts = new Alerts();
const favicon = new Favicon(document.querySelector("link[rel=icon]"));
/** @type {ChainPage | undefined} */
let open;
/** @type {LiveUpdates | undefined} */
let live;
/** @type {HiddenUpdates | undefined} */
let hidden;
let ticker;
let clockOffset;
/** @type {import('./state.js').Connection} */
let connection = "opening";
let reason;
let pollMs;
let tableShownAt = -Infinity;
let isRenderQueued = false;
// Fee markets that arrived before the first list of chains, and that list if it arrived before them: the page shows both at
// once, so that nothing moves.
let early;
let firstList;
/** @type {string[]} */
const pendingAnnouncements = [];
// Local time at which the connection was lost.
let since;
// True from a lost connection until the stream is open again.
let wasDisconnected = false;

const listener = {
    onEvent(event, now) {
        for (const [key, entry] of entries) {
            if (entry.chain.id !== event.chainId) continue;
            entry.chain = applyEvent(entry.chain, event, now);
            requestMarket(key);
        }
        queueRender();
    },
    onList(list, sentAt, interval, servedAt) {
        pollMs = interval;
        if (entries.size > 0 || early) updateChains(list, sentAt, servedAt);
        else firstList = [list, sentAt, servedAt];
    },
    onMarket(key, response) {
        const entry = entries.get(key);
        if (!entry) return;
        applyMarket(entry, response, connection === "live");
        if (open?.key === key) open.history.update(entry.chain, live, performance.now());
        onLoaded();
    },
    onMarkets(responses) {
        if (entries.size === 0) {
            early = responses;
            if (!firstList) return;
            updateChains(...firstList);
        } else {
            applyMarkets(responses, connection === "live");
        }
        tableShownAt = -Infinity;
        onLoaded();
    },
    onScore(key, score) {
        const entry = entries.get(key);
        if (entry?.chain.suggestion) entry.chain = { ...entry.chain, score };
    },
    onGap() {
        for (const entry of entries.values()) entry.chain = applyGap(entry.chain);
        queueRender();
    },
    onConnection(newConnection, newReason) {
        if (newConnection === connection && newReason === reason) return;
        if (["interrupted", "disconnected"].includes(newConnection)) {
            since ??= new Date().toLocaleTimeString(undefined, { hourCycle: "h23" });
            wasDisconnected = true;
            announcer.textContent = "";
        } else if (newConnection !== "opening") {
            since = undefined;
        }
        if (newConnection === "live" && wasDisconnected) {
            announce("Reconnected to the service.");
            wasDisconnected = false;
        }
        [connection, reason] = [newConnection, newReason];
        render();
    },
};

document.addEventListener("visibilitychange", startOrStop);
addEventListener("hashchange", () => route(true));
startOrStop();

/** Starts the updates if the page is visible, otherwise reduces them. */
function startOrStop() {
    // A page that was opened in the background first loads the chains.
    if (document.hidden && entries.size > 0) {
        stop();
        hidden ??= new HiddenUpdates(base, onHiddenMarkets);
    } else if (!live) {
        hidden?.stop();
        hidden = undefined;
        start();
    }
}

/** Renders a response. Of a page that was opened in the background, the first one ends the updates. */
function onLoaded() {
    if (!document.hidden) return queueRender();
    showTitle(rowViews());
    startOrStop();
}

function start() {
    connection = "opening";
    discardAgesAfterSleep();
    live = new LiveUpdates(base, listener, Number(place.dataset.blocks));
    // Together with the list of chains, so that the first price takes no round trip more.
    if (entries.size === 0) live.requestMarkets();
    ticker = setInterval(tick, TICK_MS);
    render();
}

function stop() {
    live?.stop();
    live = undefined;
    clearInterval(ticker);
    for (const entry of entries.values()) entry.chain = applyGap(entry.chain);
}

/** Updates the title of a hidden page. */
function onHiddenMarkets(responses) {
    connection = responses ? "polling" : "disconnected";
    if (responses) {
        applyMarkets(responses, false);
        const now = performance.now();
        for (const entry of entries.values()) {
            // The list has only chains with data.
            if (!responses.has(entry.chain.id)) entry.chain = applyMarketResponse(entry.chain, { sentAt: now }, false, now);
        }
    }
    showTitle(rowViews());
}

/** Discards all ages if the computer has slept. They are unknown until the service reports them again. */
function discardAgesAfterSleep() {
    const previousOffset = clockOffset;
    clockOffset = Date.now() - performance.now();
    if (!(Math.abs(clockOffset - previousOffset) > MIN_SLEEP_MS)) return;
    for (const entry of entries.values()) entry.chain = { ...entry.chain, age: undefined };
}

function tick() {
    if (Math.abs(Date.now() - performance.now() - clockOffset) > MIN_SLEEP_MS) {
        // The stream may have died during the sleep.
        stop();
        start();
    }
    requestForOpenChain(performance.now());
    render();
}

/** Requests what the open chain's page shows besides the fee market, if it is due. It changes little with a block. */
function requestForOpenChain(now) {
    const entry = open && entries.get(open.key);
    if (!entry) return;
    if (needsScore(entry.chain, entry.scoreAskedAt, now)) {
        entry.scoreAskedAt = now;
        live.requestScore(open.key);
    }
    if (needsFees(entry.chain, entry.feesAskedAt, now)) requestFees(open.key, now);
    requestDataFees(entry, open.costs.orders);
    open.history.update(entry.chain, live, now);
}

/** Requests the fees by horizon, from which the waiting times are read. */
async function requestFees(key, now) {
    const entry = entries.get(key);
    const { newest_block: block } = entry.chain.market;
    entry.feesAskedAt = now;
    const asked = live;
    const fees = await asked.requestFees(key);
    if (asked.isStopped || !entry.chain.market) return;
    entry.chain = { ...entry.chain, fees: fees ? { cells: fees.cells, block, at: now } : null };
    queueRender();
}

/** Requests the blocks before the first price that the page has seen, once. */
async function requestHistory(key) {
    const entry = entries.get(key);
    if (entry.hasHistory) return;
    entry.hasHistory = true;
    const asked = live;
    const history = await asked.requestBlocks(key);
    if (asked.isStopped || !history) return;
    entry.chain = applyBlocks(entry.chain, history.blocks);
    queueRender();
}

/** Requests the data fees of transactions, once for each reading of the parameters of the chain. */
function requestDataFees(entry, orders) {
    if (!entry.chain.market || !hasDataFee(entry.chain.market)) return;
    const { observed_at: readAt } = entry.chain.market.data_fee;
    for (const order of orders) {
        const name = feeName(order);
        if (entry.dataFeesReadAt[name] === readAt) continue;
        entry.dataFeesReadAt[name] = readAt;
        requestDataFee(entry, order, name);
    }
}

async function requestDataFee(entry, order, name) {
    const asked = live;
    const { gas, bytes } = order;
    const fee = (await asked.requestCost(entry.chain.key, { gas, bytes }))?.data_fee;
    if (asked.isStopped) {
        delete entry.dataFeesReadAt[name];
        return;
    }
    entry.chain = { ...entry.chain, dataFees: { ...entry.chain.dataFees, [name]: isDataFee(fee) ? fee : undefined } };
    tableShownAt = -Infinity;
    queueRender();
}

/** Requests the fee market of the open chain, or those of all chains for the table. */
function requestMarket(key) {
    if (!open) live.requestMarkets();
    else if (open.key === key) live.requestMarket(key);
}

function applyMarkets(responses, isStreaming) {
    for (const entry of entries.values()) {
        const response = responses.get(entry.chain.id);
        if (response) applyMarket(entry, response, isStreaming);
    }
}

function applyMarket(entry, response, isStreaming) {
    const now = performance.now();
    entry.chain = applyMarketResponse(entry.chain, response, isStreaming, now);
    const isOpen = entry.chain.key === open?.key;
    if (live) requestDataFees(entry, isOpen ? open.costs.orders : [transferOf(entry.chain.market ?? {})]);
    if (alerts.check(rowView(entry.chain, connection, now))) {
        announce(`${entry.chain.name}: the price fell below your limit.`);
    }
}

/** Adds and removes chains so that they match the list. */
function updateChains(list, sentAt, servedAt) {
    const now = performance.now();
    const before = entries;
    entries = new Map();
    for (const listed of list) {
        const known = before.get(listed.chain);
        const isSame = known?.chain.id === listed.chain_id;
        const entry = isSame ? known : { chain: newChain(listed), view: {}, scoreAskedAt: -Infinity, feesAskedAt: -Infinity, dataFeesReadAt: {} };
        entry.chain = applyListEntry(entry.chain, listed, sentAt, servedAt);
        entries.set(listed.chain, entry);
    }
    if (early) applyMarkets(early, connection === "live");
    early = undefined;
    route(false);
    for (const listed of list) {
        if (needsMarket(entries.get(listed.chain).chain, listed, now, pollMs)) requestMarket(listed.chain);
        if (!open && list.length <= MAX_HISTORIES && listed.status !== "unavailable") requestHistory(listed.chain);
    }
    render();
}

/**
 * Shows the chain that the address names, or the table. `mustFocus` moves the focus to it, for readers who followed a
 * link.
 */
function route(mustFocus) {
    if (entries.size === 0) return;
    const isOnly = entries.size === 1;
    const [name, ...choices] = decodeHash(location.hash);
    const wanted = isOnly && name === "" ? [...entries.keys()][0] : keyOf(name);
    const entry = entries.get(wanted);
    const isMini = !entry && name === MINI;
    overview.sayUnknown(entry || isMini ? "" : wanted);
    document.body.classList.toggle("mini", isMini);
    document.querySelector("h1").classList.toggle("unseen", isMini);
    if (isShown(wanted, entry, isOnly)) {
        if (mustFocus) open?.choose(choicesOf(choices));
        return;
    }
    const previous = open?.key;
    open?.stop();
    open = entry && openPage(entry, isOnly, choicesOf(choices));
    place.replaceChildren(open?.node ?? overview.node);
    document.body.classList.toggle("one", open !== undefined);
    if (open) showAddress();
    tableShownAt = -Infinity;
    if (live && !(entry && isWithoutMarket(entry.chain))) requestMarket(entry && wanted);
    render();
    if (!mustFocus) return;
    scrollTo(0, 0);
    if (open) open.name.focus();
    else overview.focus(previous);
}

function isShown(key, entry, isOnly) {
    if (!entry || !open) return !entry && !open && overview.node.isConnected;
    return open.key === key && open.chainId === entry.chain.id && open.isOnly === isOnly;
}

function openPage({ chain: { key, id } }, isOnly, wanted) {
    const onTrend = (trend) => rememberPrice(key, trend);
    const onChoice = () => {
        showAddress();
        render();
    };
    const requestCost = (order) => live?.requestCost(key, order);
    const actions = { announce, alerts, requestCost, onTier: onChoice, onPeriod: onChoice, onTrend };
    const page = new ChainPage({ key, id, base, isOnly, hasWeek: "week" in place.dataset }, wanted, actions);
    return Object.assign(page, { chainId: id, isOnly });
}

/** Keeps the last usual price of a chain without data, to show it as past. */
function rememberPrice(key, { buckets }) {
    const [entry, last] = [entries.get(key), buckets.at(-1)];
    if (entry && last) entry.chain = { ...entry.chain, pastPrice: bucketPrice(last) };
}

/** Writes what the reader chose into the address, so that a link to it shows the same. */
function showAddress() {
    const [name] = location.hash.slice(1).split("/");
    const { tier: { value: tier }, history: { chosen } } = open;
    const parts = chosen ? [tier, chosen] : tier === DEFAULT_TIER ? [] : [tier];
    const hash = `#${[name || encodeURIComponent(open.key), ...parts].join("/")}`;
    if (parts.length > 0 || location.hash.includes("/")) history.replaceState(history.state, "", hash);
}

/** Returns tier and period of an address, as far as it has them. */
function choicesOf(names) {
    const [tier, period] = names;
    return { tier: tier in TIERS ? tier : undefined, period };
}

/** Returns the key of the chain that is named by its key, in any case, or by its id. */
function keyOf(name) {
    if (entries.has(name)) return name;
    const isNamed = ([key, { chain }]) => key.toLowerCase() === name.toLowerCase() || String(chain.id) === name;
    return [...entries].find(isNamed)?.[0] ?? name;
}

/** Returns the parts of an address: the chain, and what the reader chose. */
function decodeHash(hash) {
    try {
        return hash.slice(1).split("/").map(decodeURIComponent);
    } catch {
        return [""];
    }
}

/** Returns the rows of all chains: that of the open one with the tier that its page shows. */
function rowViews() {
    const now = performance.now();
    const tierOf = (key) => (key === open?.key ? open.tier.value : DEFAULT_TIER);
    return [...entries.values()].map(({ chain }) => rowView(chain, connection, now, tierOf(chain.key)));
}

/** Renders before the next frame. Many events can arrive between two frames. */
function queueRender() {
    if (isRenderQueued || document.hidden) return;
    isRenderQueued = true;
    requestAnimationFrame(() => {
        isRenderQueued = false;
        if (live) render();
    });
}

function render() {
    const now = performance.now();
    const isFirst = entries.size === 0;
    setText(banner, bannerText({ connection, since, reason, pollMs, isFirst }));
    banner.classList.toggle("bad", ["interrupted", "disconnected"].includes(connection));
    if (open && entries.has(open.key)) open.show(chainView(entries.get(open.key).chain, connection, now, open.tier.value));
    if (open && !isFirst) return finish(rowViews());
    if (now - tableShownAt < TABLE_MS || isFirst) return;
    tableShownAt = now;
    const rows = rowViews();
    overview.show(rows);
    finish(rows);
}

/** Announces the changes of the chains' states and shows the title. */
function finish(rows) {
    for (const [index, entry] of [...entries.values()].entries()) {
        const view = rows[index];
        const announcement = announcementText(view.name, entry.view, { state: view.state, problem: view.notice });
        entry.view = { state: view.state, problem: view.notice };
        if (announcement) announce(announcement);
    }
    showTitle(rows);
}

function showTitle(rows) {
    const title = entries.size === 0 ? TITLE : windowTitle(rows, open?.key, connection);
    if (document.title !== title) document.title = title;
    favicon.show(iconOf(rows, open?.key, connection));
}

/** Announces a change to screen readers. Changes at the same time are combined. */
function announce(text) {
    if (pendingAnnouncements.push(text) > 1) return;
    queueMicrotask(() => {
        const joined = pendingAnnouncements.splice(0).join(" ");
        // Screen readers do not repeat an unchanged text.
        announcer.textContent = joined === announcer.textContent ? `${joined}\u00a0` : joined;
    });
}
