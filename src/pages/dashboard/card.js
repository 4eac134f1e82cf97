// A chain's card on the page: shows what words.js says of the chain, and its chart.

import { copy } from "./copy.js";
import { gwei } from "./words.js";

const WORDS = {
    live: "Live",
    polled: "Polled",
    stale: "Stale",
    none: "No data",
    old: "Not live",
    wait: "Reading…",
};
// For how long a button tells what came of it.
const TELLING_MS = 2000;
const CHART_PATIENCE_MS = 10_000;
// How long a chart that cannot be had is left alone.
const CHART_PAUSE_MS = 10_000;
// The bar would only flicker.
const SHORTEST_BAR_MS = 1000;

export class Card {
    /**
     * @param {number} id the chain's
     * @param {(text: string) => void} announce tells those who do not see it
     */
    constructor(id, announce) {
        // Names are in any script.
        this.name = element("h2", { id: `chain-${id}`, dir: "auto" });
        this.id = element("p", { className: "id" });
        this.badge = element("p", { className: "badge" });
        this.bar = element("div");
        this.problem = element("p", { className: "problem" });
        this.block = element("dd");
        this.age = element("dd");
        this.next = element("dd");
        this.tiers = ["Medium", "High"].map((title) => new Tier(title, announce));
        this.baseFee = new Amount();
        this.base = pair("Suggested base fee, part of both", this.baseFee.node);
        this.prices = element(
            "div",
            { className: "prices" },
            ...this.tiers.map((tier) => tier.node),
            element("dl", { className: "base" }, this.base),
        );
        this.market = new Market();
        this.chart = new Chart();
        const title = element("div", { className: "chain" }, this.name, this.id);
        this.node = element(
            "article",
            { className: "card" },
            element("div", { className: "bar" }, this.bar),
            element("header", {}, title, this.badge),
            element(
                "dl",
                { className: "when" },
                pair("Block", this.block),
                pair("Data", this.age),
                pair("Next block", this.next),
            ),
            this.problem,
            this.prices,
            this.market.node,
            this.chart.node,
        );
        this.node.setAttribute("aria-labelledby", this.name.id);
    }

    show(view) {
        say(this.name, view.name);
        say(this.id, view.id);
        say(this.badge, WORDS[view.state]);
        this.node.dataset.state = view.state;
        say(this.problem, view.problem ?? "");
        this.problem.hidden = !view.problem;
        say(this.block, view.block ?? "–");
        say(this.age, view.age ?? "–");
        say(this.next, view.next ?? "–");
        this.prices.hidden = !view.tiers;
        for (const [index, rows] of (view.tiers ?? []).entries()) this.tiers[index].show(rows);
        this.base.parentElement.hidden = view.baseFee === undefined;
        if (view.baseFee !== undefined) this.baseFee.show(view.baseFee);
        this.market.show(view.market);
        this.chart.node.hidden = !view.market;
        this.#run(view);
    }

    /** Lets the bar go on to the next block. */
    #run({ bar }) {
        const run = bar && `${bar.from} ${bar.milliseconds}`;
        if (run === this.running) return;
        this.running = run;
        for (const animation of this.bar.getAnimations()) animation.cancel();
        const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
        if (!bar || isStill || bar.milliseconds < SHORTEST_BAR_MS) return;
        this.bar.animate([{ transform: "scaleX(0)" }, { transform: "scaleX(1)" }], {
            duration: bar.milliseconds,
            delay: bar.from - performance.now(),
            fill: "both",
        });
    }
}

class Tier {
    constructor(title, announce) {
        this.rows = [new Row(announce), new Row(announce)];
        const list = element("dl", {}, ...this.rows.map((row) => row.node));
        this.node = element("section", { className: "tier" }, element("h3", {}, title), list);
    }

    show(rows) {
        for (const [index, row] of this.rows.entries()) {
            row.node.hidden = rows[index] === undefined;
            if (rows[index]) row.show(rows[index]);
        }
    }
}

/** An amount with its name and a button that copies it. */
class Row {
    constructor(announce) {
        this.announce = announce;
        this.label = element("dt");
        this.amount = new Amount();
        this.verb = element("span", {}, "Copy wei");
        this.what = element("span", { className: "unseen" });
        this.button = element(
            "button",
            { type: "button", className: "quiet" },
            this.verb,
            this.what,
        );
        this.button.addEventListener("click", () => this.#copy());
        this.amount.node.append(this.button);
        this.node = element("div", {}, this.label, this.amount.node);
    }

    show({ label, wei, what }) {
        this.wei = wei;
        say(this.label, label);
        this.amount.show(wei);
        say(this.what, ` ${what}`);
    }

    async #copy() {
        const { wei } = this;
        const isCopied = await copy(wei);
        say(this.verb, isCopied ? "Copied" : "Not copied");
        this.button.classList.toggle("done", isCopied);
        this.button.classList.toggle("failed", !isCopied);
        this.announce(
            isCopied
                ? `Copied ${wei} wei.`
                : "Not copied: the browser does not let this page use the clipboard.",
        );
        clearTimeout(this.telling);
        this.telling = setTimeout(() => {
            say(this.verb, "Copy wei");
            this.button.classList.remove("done", "failed");
        }, TELLING_MS);
    }
}

/** An amount in gwei, exact, and in wei. */
class Amount {
    constructor() {
        this.number = element("span", { className: "number" });
        this.gwei = element("span", { className: "gwei" }, this.number, " gwei");
        this.digits = element("span", { className: "digits" });
        this.wei = element("span", { className: "wei" }, this.digits, " wei");
        this.node = element("dd", { className: "amount" }, this.gwei, this.wei);
    }

    show(wei) {
        const text = gwei(wei);
        say(this.number, text);
        say(this.digits, wei);
        this.node.classList.toggle("long", text.length > 12);
    }
}

/** How the price was calculated. */
class Market {
    constructor() {
        this.block = element("p", { className: "of" });
        const names = {
            nextBaseFee: "Next block’s base fee",
            averageBaseFee: "Average base fee",
            trend: "Base fee trend",
            gasUsed: "Gas used",
            covers: "Full blocks covered",
        };
        this.values = Object.fromEntries(Object.keys(names).map((key) => [key, element("dd")]));
        const pairs = Object.entries(names).map(([key, name]) => pair(name, this.values[key]));
        const title = element("h3", {}, "Behind the price");
        this.node = element(
            "section",
            { className: "market" },
            element("header", {}, title, this.block),
            element("dl", {}, ...pairs),
        );
    }

    show(market) {
        this.node.hidden = !market;
        if (!market) return;
        const { trend, covers } = market;
        say(this.block, `at block ${market.block}${market.behind}`);
        this.node.classList.toggle("behind", market.behind !== "");
        say(this.values.nextBaseFee, market.nextBaseFee);
        say(this.values.averageBaseFee, `${market.averageBaseFee} ${market.averageOf}`);
        say(this.values.trend, trend);
        this.values.trend.dataset.trend = trend;
        say(this.values.gasUsed, market.gasUsed);
        say(this.values.covers, `medium ${covers.medium}, high ${covers.high}`);
    }
}

/** The chart, which changes when the next one is there. */
class Chart {
    constructor() {
        this.image = undefined;
        this.word = element("p", { className: "word" }, "There is no chart at the moment.");
        this.word.hidden = true;
        this.node = element("figure", {}, this.word);
        // The one of the URLs to begin with.
        this.first = 0;
        this.pausedUntil = -Infinity;
    }

    /**
     * Shows the chart at the first of these that there is, or that of a later call.
     *
     * @param {string} what it shows: where that is there or on its way, nothing is done
     * @param {URL[]} urls
     * @param {string} text for those who do not see it
     */
    async draw(what, urls, text) {
        this.wanted = what === (this.loading ?? this.shown) ? undefined : { what, urls, text };
        if (this.loading !== undefined || performance.now() < this.pausedUntil) return;
        while (this.wanted) {
            const { what, urls, text } = this.wanted;
            this.wanted = undefined;
            this.loading = what;
            const { image, index } = await firstOf(urls, this.first);
            this.loading = undefined;
            this.first = index;
            this.shown = image && what;
            this.word.hidden = image !== undefined;
            if (image) image.alt = text;
            this.#replace(image);
            if (!image) {
                this.pausedUntil = performance.now() + CHART_PAUSE_MS;
                break;
            }
        }
    }

    /** Asks for no further one until it is to draw again. */
    rest() {
        this.wanted = undefined;
    }

    /** Shows the image in the place of the one before; where there is none, nothing. */
    #replace(image) {
        const before = this.image;
        this.image = image;
        // Both at once, or where it is scrolled to would be lost.
        if (before && image) return before.replaceWith(image);
        before?.remove();
        if (!image) return;
        this.node.prepend(image);
        // Where there is not enough room for all of it, the newest blocks and the prices are shown.
        this.node.scrollLeft = this.node.scrollWidth;
    }
}

/** The image at the first URL from that index on that has one, ready to be painted, and its index. */
async function firstOf(urls, first) {
    for (const [index, url] of [...urls.entries()].slice(first)) {
        const image = new Image();
        image.src = url;
        const late = new Promise((_, reject) => setTimeout(reject, CHART_PATIENCE_MS));
        try {
            await Promise.race([image.decode(), late]);
            return { image, index };
        } catch {
            // Ends the request where it is still under way.
            image.removeAttribute("src");
        }
    }
    return { index: 0 };
}

function pair(name, value) {
    return element("div", {}, element("dt", {}, name), value);
}

/** Changes what has changed alone: a selection in the rest stays. */
function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function element(name, properties, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
}
