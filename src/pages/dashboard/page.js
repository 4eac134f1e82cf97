// The dashboard: a card for each chain, updated by live.js.

import { Card } from "./card.js";
import { TITLE, announcementText, bannerText, cardView, chartText, windowTitle } from "./format.js";
import { LiveUpdates } from "./live.js";
import {
    applyEvent,
    applyGap,
    applyListEntry,
    applyMarketResponse,
    marketKey,
    needsMarket,
    needsScore,
    newChain,
} from "./state.js";

// Update interval of the displayed ages, which are in seconds.
const TICK_MS = 250;
// `performance.now()` pauses while the computer sleeps, `Date.now()` does not. If the difference between the two
// changes by more than this, the computer has slept.
const MIN_SLEEP_MS = 5000;
// Blocks on a chart, if the service keeps that many.
const CHART_BLOCKS = 60;

const base = new URL(document.baseURI);
const [cards, banner, announcer] = ["cards", "banner", "news"].map((id) => document.getElementById(id));
/**
 * By the chain's key.
 *
 * @type {Map<string, { chain: import('./state.js').Chain, card: Card, view: object, scoreAskedAt: number }>}
 */
const entries = new Map();
/** @type {LiveUpdates | undefined} */
let live;
let ticker;
let clockOffset;
/** @type {import('./state.js').Connection} */
let connection = "opening";
let reason;
let pollMs;
/** @type {string[]} */
const pendingAnnouncements = [];
// Local time at which the connection was lost.
let since;
// True from a lost connection until the stream is open again.
let wasDisconnected = false;

const listener = {
    onEvent(event, now) {
        for (const [key, { chain }] of entries) {
            if (chain.id !== event.chainId) continue;
            setChain(key, applyEvent(chain, event, now));
            live.requestMarket(key);
        }
    },
    onList(list, sentAt, interval) {
        pollMs = interval;
        updateCards(list, sentAt);
    },
    onMarket(key, response) {
        const entry = entries.get(key);
        if (!entry) return;
        const isStreaming = connection === "live";
        setChain(key, applyMarketResponse(entry.chain, response, isStreaming, performance.now()));
        if (entry.chain.market) showChart(entry);
    },
    onScore(key, score) {
        const chain = entries.get(key)?.chain;
        if (chain?.suggestion) setChain(key, { ...chain, score });
    },
    onGap() {
        for (const [key, { chain }] of entries) setChain(key, applyGap(chain));
    },
    onConnection(newConnection, newReason) {
        if (newConnection === connection && newReason === reason) return;
        if (["interrupted", "disconnected"].includes(newConnection)) {
            since ??= new Date().toLocaleTimeString();
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
startOrStop();

/** Starts the updates if the page is visible, otherwise stops them. */
function startOrStop() {
    if (document.hidden) stop();
    else if (!live) start();
}

function start() {
    connection = "opening";
    discardAgesAfterSleep();
    live = new LiveUpdates(base, listener);
    ticker = setInterval(tick, TICK_MS);
    render();
}

function stop() {
    live?.stop();
    live = undefined;
    clearInterval(ticker);
    for (const { card } of entries.values()) card.chart.stop();
    listener.onGap();
    // A price in the title of a hidden window would become outdated.
    document.title = TITLE;
}

/** Discards all ages if the computer has slept. They are unknown until the service reports them again. */
function discardAgesAfterSleep() {
    const previousOffset = clockOffset;
    clockOffset = Date.now() - performance.now();
    if (!(Math.abs(clockOffset - previousOffset) > MIN_SLEEP_MS)) return;
    for (const [key, { chain }] of entries) setChain(key, { ...chain, age: undefined });
}

function tick() {
    if (Math.abs(Date.now() - performance.now() - clockOffset) > MIN_SLEEP_MS) {
        // The stream may have died during the sleep.
        stop();
        start();
    }
    requestScores(performance.now());
    render();
}

/** Requests the scores that are due and in view. They change little with a block. */
function requestScores(now) {
    for (const [key, entry] of entries) {
        if (!entry.card.isInView || !needsScore(entry.chain, entry.scoreAskedAt, now)) continue;
        entry.scoreAskedAt = now;
        live.requestScore(key);
    }
}

/** Adds and removes cards so that they match the list of chains. */
function updateCards(list, sentAt) {
    const now = performance.now();
    for (const [key, { card }] of entries) {
        const isListed = ({ chain, chain_id: id }) =>
            chain === key && id === entries.get(key).chain.id;
        if (list.some(isListed)) continue;
        card.node.remove();
        entries.delete(key);
    }
    for (const [index, listed] of list.entries()) {
        const key = listed.chain;
        if (!entries.has(key)) {
            const card = new Card(listed.chain_id, announce);
            cards.insertBefore(card.node, cards.children[index] ?? null);
            entries.set(key, { chain: newChain(listed), card, view: {}, scoreAskedAt: -Infinity });
        }
        setChain(key, applyListEntry(entries.get(key).chain, listed, sentAt));
        if (needsMarket(entries.get(key).chain, listed, now, pollMs)) live.requestMarket(key);
    }
    cards.classList.toggle("one", list.length === 1);
}

function showChart({ chain: { key, name, market }, card }) {
    // The parameter `of` gives each state of the market its own URL, so that the browser does not reuse an older image.
    const version = marketKey(market);
    const url = (query) => {
        const path = `v1/${encodeURIComponent(key)}/fee-history.svg`;
        return new URL(`${path}?${query}of=${version}`, base);
    };
    const urls = [url(`blocks=${CHART_BLOCKS}&`), url("")];
    card.chart.show(version, urls, chartText(name, market));
}

function setChain(key, chain) {
    const entry = entries.get(key);
    entry.chain = chain;
    renderCard(entry);
}

function renderCard(entry) {
    const view = cardView(entry.chain, connection, performance.now());
    const announcement = announcementText(view.name, entry.view, view);
    entry.view = view;
    entry.card.show(view);
    if (announcement) announce(announcement);
}

function render() {
    const isFirst = entries.size === 0;
    setText(banner, bannerText({ connection, since, reason, pollMs, isFirst }));
    banner.classList.toggle("bad", ["interrupted", "disconnected"].includes(connection));
    for (const entry of entries.values()) renderCard(entry);
    const title = windowTitle(
        [...entries.values()].map(({ view }) => view),
        connection,
    );
    if (document.title !== title) document.title = title;
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

function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}
