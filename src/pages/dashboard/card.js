// The card of a chain: shows the texts of format.js and the chart.

import { copy } from "./copy.js";
import { gwei } from "./format.js";

const BADGES = {
    live: "Live",
    polled: "Polled",
    stale: "Stale",
    none: "No data",
    old: "Not live",
    wait: "Loading…",
};
// Time for which a copy button shows the result.
const FEEDBACK_MS = 2000;
const CHART_TIMEOUT_MS = 10_000;
// Delay before a chart that failed to load is requested again.
const CHART_RETRY_MS = 10_000;
// Minimum duration of the bar: a shorter one would only flicker.
const MIN_BAR_MS = 1000;

export class Card {
    /**
     * @param {number} id the chain id
     * @param {(text: string) => void} announce announces a text to screen readers
     */
    constructor(id, announce) {
        // The chain's name may be in a right-to-left script.
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
        this.base = pair("Suggested base fee (included in both)", this.baseFee.node);
        this.prices = element(
            "div",
            { className: "prices" },
            ...this.tiers.map((tier) => tier.node),
            element("dl", { className: "base" }, this.base),
        );
        this.market = new Market();
        this.score = new Score();
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
            this.score.node,
            this.chart.node,
        );
        this.node.setAttribute("aria-labelledby", this.name.id);
        this.isInView = false;
        const observer = new IntersectionObserver((changes) => {
            this.isInView = changes.at(-1).isIntersecting;
        });
        observer.observe(this.node);
    }

    show(view) {
        setText(this.name, view.name);
        setText(this.id, view.id);
        setText(this.badge, BADGES[view.state]);
        this.node.dataset.state = view.state;
        setText(this.problem, view.problem ?? "");
        this.problem.hidden = !view.problem;
        setText(this.block, view.block ?? "–");
        setText(this.age, view.age ?? "–");
        setText(this.next, view.next ?? "–");
        this.prices.hidden = !view.tiers;
        for (const [index, rows] of (view.tiers ?? []).entries()) this.tiers[index].show(rows);
        this.base.parentElement.hidden = view.baseFee === undefined;
        if (view.baseFee !== undefined) this.baseFee.show(view.baseFee);
        this.market.show(view.market);
        this.score.show(view.score);
        this.chart.node.hidden = !view.market;
        this.#runBar(view);
    }

    /** Animates the bar until the next block is due. */
    #runBar({ bar }) {
        const key = bar && `${bar.from} ${bar.milliseconds}`;
        if (key === this.barKey) return;
        this.barKey = key;
        for (const animation of this.bar.getAnimations()) animation.cancel();
        const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
        if (!bar || isStill || bar.milliseconds < MIN_BAR_MS) return;
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

/** An amount with its label and a button that copies it. */
class Row {
    constructor(announce) {
        this.announce = announce;
        this.label = element("dt");
        this.amount = new Amount();
        this.action = element("span", {}, "Copy wei");
        this.description = element("span", { className: "unseen" });
        this.button = element(
            "button",
            { type: "button", className: "quiet" },
            this.action,
            this.description,
        );
        this.button.addEventListener("click", () => this.#copy());
        this.amount.node.append(this.button);
        this.node = element("div", {}, this.label, this.amount.node);
    }

    show({ label, wei, description }) {
        this.wei = wei;
        setText(this.label, label);
        this.amount.show(wei);
        setText(this.description, ` ${description}`);
    }

    async #copy() {
        const { wei } = this;
        const isCopied = await copy(wei);
        setText(this.action, isCopied ? "Copied" : "Copy failed");
        this.button.classList.toggle("done", isCopied);
        this.button.classList.toggle("failed", !isCopied);
        this.announce(
            isCopied
                ? `Copied ${wei} wei.`
                : "Copy failed: the browser blocked access to the clipboard.",
        );
        clearTimeout(this.feedbackTimer);
        this.feedbackTimer = setTimeout(() => {
            setText(this.action, "Copy wei");
            this.button.classList.remove("done", "failed");
        }, FEEDBACK_MS);
    }
}

/** An amount in gwei, with all digits, and in wei. */
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
        setText(this.number, text);
        setText(this.digits, wei);
        this.node.classList.toggle("long", text.length > 12);
    }
}

/** How the price was calculated. */
class Market {
    constructor() {
        this.block = element("p", { className: "of" });
        this.warning = element("p", { className: "warning" });
        const labels = {
            nextBaseFee: "Next block’s base fee",
            averageBaseFee: "Average base fee",
            trend: "Base fee trend",
            gasUsed: "Gas used",
            covers: "Full blocks covered",
        };
        this.values = Object.fromEntries(Object.keys(labels).map((key) => [key, element("dd")]));
        const pairs = Object.entries(labels).map(([key, label]) => pair(label, this.values[key]));
        const title = element("h3", {}, "Fee market");
        this.node = element(
            "section",
            { className: "market" },
            element("header", {}, title, this.block),
            this.warning,
            element("dl", {}, ...pairs),
        );
    }

    show(market) {
        this.node.hidden = !market;
        if (!market) return;
        const { trend, covers } = market;
        setText(this.block, `at block ${market.block}${market.behind}`);
        this.node.classList.toggle("behind", market.behind !== "");
        setText(this.warning, market.warning);
        this.warning.hidden = market.warning === "";
        setText(this.values.nextBaseFee, market.nextBaseFee);
        setText(this.values.averageBaseFee, `${market.averageBaseFee} ${market.averageOf}`);
        setText(this.values.trend, trend);
        this.values.trend.dataset.trend = trend;
        setText(this.values.gasUsed, market.gasUsed);
        setText(this.values.covers, `medium ${covers.medium}, high ${covers.high}`);
    }
}

/** How the suggestions that were served did. */
class Score {
    constructor() {
        this.title = element("summary");
        const heads = ["Medium", "High"].map((title) => element("th", { scope: "col" }, title));
        this.rows = element("tbody");
        this.notes = element("div");
        this.node = element(
            "details",
            { className: "score" },
            this.title,
            element("table", {}, element("thead", {}, element("tr", {}, element("td"), ...heads)), this.rows),
            this.notes,
        );
    }

    show(score) {
        this.node.hidden = !score;
        const key = JSON.stringify(score);
        if (!score || key === this.shownKey) return;
        this.shownKey = key;
        setText(this.title, score.title);
        const rows = score.rows.map(({ label, cells }) => {
            const texts = cells.map(({ text, reason = "" }) => element("td", { title: reason }, text));
            return element("tr", {}, element("th", { scope: "row" }, label), ...texts);
        });
        this.rows.replaceChildren(...rows);
        this.notes.replaceChildren(...score.notes.map((note) => element("p", {}, note)));
    }
}

/** The chart. Its image is replaced once the next one has loaded. */
class Chart {
    constructor() {
        this.image = undefined;
        this.message = element("p", { className: "word" }, "The chart is not available right now.");
        this.message.hidden = true;
        this.node = element("figure", {}, this.message);
        // Index of the URL to try first.
        this.firstIndex = 0;
        this.pausedUntil = -Infinity;
    }

    /**
     * Shows the chart at the first of these URLs that loads. While another chart is loading, only the latest call is
     * queued.
     *
     * @param {string} key identifies the chart: a chart that is shown or loading is not requested again
     * @param {URL[]} urls
     * @param {string} text the text alternative
     */
    async show(key, urls, text) {
        this.queued = key === (this.loadingKey ?? this.shownKey) ? undefined : { key, urls, text };
        if (this.loadingKey !== undefined || performance.now() < this.pausedUntil) return;
        while (this.queued) {
            const { key, urls, text } = this.queued;
            this.queued = undefined;
            this.loadingKey = key;
            const { image, index } = await loadFirst(urls, this.firstIndex);
            this.loadingKey = undefined;
            this.firstIndex = index;
            this.shownKey = image && key;
            this.message.hidden = image !== undefined;
            if (image) image.alt = text;
            this.#replace(image);
            if (!image) {
                this.pausedUntil = performance.now() + CHART_RETRY_MS;
                break;
            }
        }
    }

    /** Drops the queued chart, so that nothing more is requested until the next call of `show`. */
    stop() {
        this.queued = undefined;
    }

    /** Replaces the previous image; `undefined` removes it. */
    #replace(image) {
        const previous = this.image;
        this.image = image;
        // Replacing the image in one step keeps the scroll position.
        if (previous && image) return previous.replaceWith(image);
        previous?.remove();
        if (!image) return;
        this.node.prepend(image);
        // A narrow screen first shows the right end of the chart, with the newest blocks and the prices.
        this.node.scrollLeft = this.node.scrollWidth;
    }
}

/** Loads and decodes the first available image, starting at the index `first`. Returns it with its index. */
async function loadFirst(urls, first) {
    for (const [index, url] of [...urls.entries()].slice(first)) {
        const image = new Image();
        image.src = url;
        const timeout = new Promise((_, reject) => setTimeout(reject, CHART_TIMEOUT_MS));
        try {
            await Promise.race([image.decode(), timeout]);
            return { image, index };
        } catch {
            // Without a source, the browser cancels the request if it is still in flight.
            image.removeAttribute("src");
        }
    }
    return { index: 0 };
}

function pair(name, value) {
    return element("div", {}, element("dt", {}, name), value);
}

/** Sets the text only if it differs, so that the user's selection is kept. */
function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function element(name, properties, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
}
