// The dashboard: a card for each chain, kept up to date by live.js.

import { Card } from "./card.js";
import { Live } from "./live.js";
import { chainOf, hear, isBehind, leave, learn, list, markOf } from "./state.js";
import { TITLE, bannerOf, cardOf, changeOf, chartText, titleOf } from "./words.js";

// Ages are shown in seconds.
const TICK_MS = 250;
// The clock of ages stands while a computer sleeps, the other does not.
const SLEPT_MS = 5000;
// Of a chart, where the service remembers as many.
const CHART_BLOCKS = 60;

const base = new URL(document.baseURI);
const [cards, banner, news] = ["cards", "banner", "news"].map((id) => document.getElementById(id));
/** @type {Map<string, { chain: import('./state.js').Chain, card: Card, view: object }>} by the key */
const shown = new Map();
/** @type {Live | undefined} */
let live;
let ticking;
let clocksApart;
/** @type {import('./state.js').Connection} */
let connection = "opening";
let reason;
let paceMs;
/** @type {string[]} */
const unsaid = [];
// When it was no longer connected, as people tell the time.
let since;
// Whether it was since the stream was there.
let wasAway = false;

const listener = {
    event(event, now) {
        for (const [key, { chain }] of shown) {
            if (chain.id !== event.chainId) continue;
            change(key, hear(chain, event, now));
            live.ask(key);
        }
    },
    list(entries, sentAt, pace) {
        paceMs = pace;
        take(entries, sentAt);
    },
    market(key, answer) {
        const one = shown.get(key);
        if (!one) return;
        change(key, learn(one.chain, answer, connection === "live", performance.now()));
        if (one.chain.market) draw(one);
    },
    gap() {
        for (const [key, { chain }] of shown) change(key, leave(chain));
    },
    connection(now, why) {
        if (now === connection && why === reason) return;
        if (["interrupted", "disconnected"].includes(now)) {
            since ??= new Date().toLocaleTimeString();
            wasAway = true;
            news.textContent = "";
        } else if (now !== "opening") {
            since = undefined;
        }
        if (now === "live" && wasAway) {
            announce("Connected to the service again.");
            wasAway = false;
        }
        [connection, reason] = [now, why];
        show();
    },
};

document.addEventListener("visibilitychange", follow);
follow();

/** Follows the service while the page is visible. */
function follow() {
    if (document.hidden) end();
    else if (!live) begin();
}

function begin() {
    connection = "opening";
    forgetAges();
    live = new Live(base, listener);
    ticking = setInterval(tick, TICK_MS);
    show();
}

function end() {
    live?.end();
    live = undefined;
    clearInterval(ticking);
    for (const { card } of shown.values()) card.chart.rest();
    listener.gap();
    // It would stay as it is, and be read as if it were of now.
    document.title = TITLE;
}

/** After a sleep every age is unknown until the service reports it again. */
function forgetAges() {
    const before = clocksApart;
    clocksApart = Date.now() - performance.now();
    if (!(Math.abs(clocksApart - before) > SLEPT_MS)) return;
    for (const [key, { chain }] of shown) change(key, { ...chain, age: undefined });
}

function tick() {
    if (Math.abs(Date.now() - performance.now() - clocksApart) > SLEPT_MS) {
        // The stream may be dead.
        end();
        begin();
    }
    show();
}

/** Makes the cards those of the chains that are listed. */
function take(entries, sentAt) {
    const now = performance.now();
    for (const [key, { card }] of shown) {
        const isListed = ({ chain, chain_id: id }) =>
            chain === key && id === shown.get(key).chain.id;
        if (entries.some(isListed)) continue;
        card.node.remove();
        shown.delete(key);
    }
    for (const [index, entry] of entries.entries()) {
        const key = entry.chain;
        if (!shown.has(key)) {
            const card = new Card(entry.chain_id, announce);
            cards.insertBefore(card.node, cards.children[index] ?? null);
            shown.set(key, { chain: chainOf(entry), card, view: {} });
        }
        change(key, list(shown.get(key).chain, entry, sentAt));
        if (isBehind(shown.get(key).chain, entry, now, paceMs)) live.ask(key);
    }
    cards.classList.toggle("one", entries.length === 1);
}

function draw({ chain: { key, name, market }, card }) {
    // What it is of keeps the browser from showing again what it has of an earlier state.
    const what = markOf(market);
    const url = (query) => {
        const path = `v1/${encodeURIComponent(key)}/fee-history.svg`;
        return new URL(`${path}?${query}of=${what}`, base);
    };
    card.chart.draw(what, [url(`blocks=${CHART_BLOCKS}&`), url("")], chartText(name, market));
}

function change(key, chain) {
    const one = shown.get(key);
    one.chain = chain;
    render(one);
}

function render(one) {
    const view = cardOf(one.chain, connection, performance.now());
    const news = changeOf(view.name, one.view, view);
    one.view = view;
    one.card.show(view);
    if (news) announce(news);
}

function show() {
    const isFirst = shown.size === 0;
    say(banner, bannerOf({ connection, since, reason, paceMs, isFirst }));
    banner.classList.toggle("bad", ["interrupted", "disconnected"].includes(connection));
    for (const one of shown.values()) render(one);
    const title = titleOf(
        [...shown.values()].map(({ view }) => view),
        connection,
    );
    if (document.title !== title) document.title = title;
}

/** Tells those who do not see the page what has changed on it, all that changes at once together. */
function announce(text) {
    if (unsaid.push(text) > 1) return;
    queueMicrotask(() => {
        const said = unsaid.splice(0).join(" ");
        // What is the same as before would not be read again.
        news.textContent = said === news.textContent ? `${said}\u00a0` : said;
    });
}

function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
}
