// The page of one chain: shows the texts of view.js, the charts, and what the reader can copy and set.

import { gwei, parseGwei, price } from "./amounts.js";
import { TierCards } from "./cards.js";
import { CopyButton } from "./copy.js";
import { MarketDetails, ScoreDetails } from "./details.js";
import { element, pair, setText, setTitle } from "./dom.js";
import { History } from "./history.js";
import { snippets } from "./snippets.js";
import { Costs } from "./spend.js";
import { DEFAULT_TIER } from "./tiers.js";
import { cheapQuarter } from "./trend.js";

// Minimum duration of the bar: a shorter one would only flicker.
const MIN_BAR_MS = 1000;

// The reader's choice, for the pages of all chains.
const choices = { tier: DEFAULT_TIER };
const HINT = "Is this your service? Ask the chain’s nodes with ";
const HINT_COMMAND = "gas-suggestion check-config --online";

/**
 * @typedef {object} Actions what the page does for a chain's page
 * @property {(text: string) => void} announce announces a text to screen readers
 * @property {() => void} onTier called when the reader chooses another tier
 * @property {() => void} onPeriod called when the reader chooses another period
 * @property {(trend: object) => void} onTrend receives each trend of the chain
 * @property {import('./notify.js').Alerts} alerts
 */

export class ChainPage {
    /**
     * @param {{ key: string, id: number, base: URL, isOnly: boolean, hasWeek: boolean }} chain `isOnly` is true without an
     *     overview, `hasWeek` if the service keeps the prices of a week
     * @param {{ tier?: string, period?: string }} wanted by the address
     * @param {Actions} actions
     */
    constructor({ key, id, base, isOnly, hasWeek }, wanted, actions) {
        this.key = key;
        const route = (path) => String(new URL(`v1/${encodeURIComponent(key)}/${path}`, base));
        this.suggestionUrl = route("gas-suggestion");
        const { announce } = actions;
        // The chain's name may be in a right-to-left script.
        this.name = element("h2", { id: `chain-${id}`, dir: "auto", tabIndex: -1 });
        this.id = element("p", { className: "id" });
        this.badge = element("p", { className: "badge" });
        this.bar = element("div");
        this.problem = element("p", { className: "problem" });
        this.hint = element("p", { className: "word hint" }, HINT, element("code", {}, HINT_COMMAND), ".");
        this.tier = new TierCards((tier) => {
            choices.tier = tier;
            actions.onTier();
        });
        this.answer = new Answer();
        this.block = element("dd");
        this.next = element("dd");
        this.when = element("dl", { className: "when" }, pair("Block", this.block), pair("Next block", this.next));
        this.costs = new Costs(actions);
        const urlOf = (tier) => (tier === "low" ? route("cost?gas=21000") : this.suggestionUrl);
        this.fees = new Fees(announce, (name) => snippets(urlOf(this.tier.value), this.tier.value, this.isLegacy)[name]);
        this.alert = new AlertForm(key, actions);
        this.history = new History(key, hasWeek, actions.onPeriod, (trend) => {
            this.alert.suggest(trend);
            actions.onTrend(trend);
        });
        this.choose(wanted);
        this.market = new MarketDetails();
        this.score = new ScoreDetails();
        const back = element("a", { href: "#", className: "back" }, "← All chains");
        back.hidden = isOnly;
        const details = element("div", { className: "details" }, this.market.node, this.score.node);
        const json = element("p", { className: "word" }, "The same as JSON: ",
            element("a", { href: this.suggestionUrl }, "suggestion"), ", ",
            element("a", { href: route("fee-market") }, "fee market"), ", ",
            element("a", { href: route("fee-history") }, "blocks"), ".");
        const title = element("div", { className: "chain" }, this.name, this.id);
        this.use = element("div", { className: "use" }, this.costs.node,
            element("div", { className: "wallet" }, this.fees.node, this.alert.node));
        this.node = element(
            "article",
            { className: "card" },
            element("div", { className: "bar" }, this.bar),
            back,
            element("header", {}, title, this.badge),
            this.problem,
            this.hint,
            this.tier.node,
            element("div", { className: "top" },
                this.answer.node,
                this.when),
            this.use,
            this.history.node,
            details,
            json,
        );
        this.node.setAttribute("aria-labelledby", this.name.id);
    }

    show(view) {
        this.isLegacy = view.fees?.length === 1;
        setText(this.name, view.name);
        setText(this.id, view.id);
        setText(this.badge, view.badge);
        this.node.dataset.state = view.state;
        setText(this.problem, view.problem ?? "");
        this.problem.hidden = !view.problem;
        this.hint.hidden = view.state !== "none";
        this.tier.show(view);
        this.tier.node.hidden = this.when.hidden = view.isUnread;
        setText(this.block, view.block === undefined ? "–" : `${view.block}${view.market?.behind ?? ""}`);
        setText(this.next, view.next ?? "–");
        this.answer.show(view);
        this.costs.show(view, this.tier.value);
        this.fees.show(view);
        this.alert.show(view);
        this.use.hidden = !view.priced;
        this.market.show(view.market);
        this.score.show(view.score);
        this.#runBar(view);
    }

    /** Follows the address: without a tier, the reader's choice stays. */
    choose({ tier, period }) {
        choices.tier = tier ?? choices.tier;
        this.tier.select(choices.tier);
        this.history.choose(period);
    }

    stop() {
        this.history.stop();
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

/** The chosen tier's cap, whether it is a good time, and how old the data is. */
class Answer {
    constructor() {
        this.cap = element("p", { className: "cap" });
        this.age = element("p", { className: "age" });
        this.verdict = element("p", { className: "verdict" });
        this.warning = element("p", { className: "price-warning" });
        this.node = element("div", { className: "answer" },
            element("div", { className: "good" }, this.verdict, this.warning), this.cap, this.age);
    }

    show({ price, verdict, warning, age }) {
        setText(this.cap, price && !price.isPast ? price.cap : price ? "Last known price" : "");
        setTitle(this.cap, price?.capExact ?? "");
        setText(this.age, age ?? "");
        setText(this.verdict, verdict?.text ?? "");
        this.verdict.hidden = !verdict;
        this.verdict.dataset.level = verdict?.level ?? "";
        setText(this.warning, warning?.text ?? "");
    }
}

/** The amounts for a wallet, with buttons to copy them, and code. */
class Fees {
    constructor(announce, codeFor) {
        this.rows = [0, 1].map(() => new FeeRow(announce));
        const codes = ["curl", "viem", "ethers"].map((name) => {
            const button = new CopyButton(name, announce);
            button.show(() => codeFor(name), ` code for ${name}`, `the code for ${name}`);
            return button.node;
        });
        this.node = element("section", { className: "fees" },
            element("h3", {}, "For your wallet"),
            element("dl", {}, ...this.rows.map(({ node }) => node)),
            element("p", { className: "codes" }, element("span", {}, "Copy code: "), ...codes));
    }

    show({ fees }) {
        this.node.hidden = !fees;
        for (const [index, row] of this.rows.entries()) {
            row.node.hidden = fees?.[index] === undefined;
            if (fees?.[index]) row.show(fees[index]);
        }
    }
}

class FeeRow {
    constructor(announce) {
        this.label = element("dt");
        this.amount = element("span", { className: "amount" });
        this.gwei = new CopyButton("Copy gwei", announce);
        this.wei = new CopyButton("Copy wei", announce);
        this.node = element("div", {}, this.label, element("dd", {}, this.amount,
            element("span", { className: "buttons" }, this.gwei.node, this.wei.node)));
    }

    show({ label, wei, gwei, description }) {
        setText(this.label, label);
        setText(this.amount, price(wei));
        setTitle(this.amount, `${gwei} gwei, ${wei} wei`);
        this.gwei.show(() => gwei, ` ${description}`, `${gwei} gwei`);
        this.wei.show(() => wei, ` ${description}`, `${wei} wei`);
    }
}

/** The form that sets a notification. */
class AlertForm {
    constructor(key, { alerts, announce }) {
        Object.assign(this, { key, alerts });
        this.limit = element("input", { id: "limit", inputMode: "decimal", autocomplete: "off", size: 8 });
        this.button = element("button", { type: "submit", className: "quiet" }, "Tell me");
        this.word = element("p", { className: "word" });
        this.hint = element("p", { className: "word" });
        const label = element("label", { htmlFor: "limit" }, "Tell me below");
        this.node = element("form", { className: "alert", noValidate: true },
            element("h3", {}, "Notification"),
            element("div", { className: "line" }, label, this.limit, " gwei ", this.button), this.hint, this.word);
        this.#showSet();
        this.node.addEventListener("submit", async (event) => {
            event.preventDefault();
            if (alerts.limit(key) !== undefined) {
                alerts.clear(key);
                announce(this.#say("The notification is off."));
                return;
            }
            const wei = parseGwei(this.limit.value || this.limit.placeholder);
            const problem = wei ? await alerts.set(key, wei) : "Type a price in gwei, such as 1.5.";
            announce(problem ? this.#say(problem) : this.#showSet());
        });
    }

    /** Shows the limit, if one is set. Returns the sentence. */
    #showSet() {
        const limit = this.alerts.limit(this.key);
        if (limit === undefined) return "";
        this.limit.value = gwei(limit);
        return this.#say(`Waiting for a medium price below ${gwei(limit)} gwei, while this tab stays open.`);
    }

    show(view) {
        if (this.alerts.limit(this.key) === undefined && this.wasSet) this.#say("The price fell below your limit.");
        this.#showButton();
    }

    /** Suggests the price that a quarter of the last day was not above. */
    suggest(trend) {
        const wei = cheapQuarter(trend);
        if (wei === undefined) return;
        this.limit.placeholder = price(wei).replace(" gwei", "");
        setText(this.hint, `A quarter of the last 24 h was at most ${price(wei)}.`);
    }

    #say(text) {
        setText(this.word, text);
        this.#showButton();
        return text;
    }

    #showButton() {
        this.wasSet = this.alerts.limit(this.key) !== undefined;
        setText(this.button, this.wasSet ? "Turn off" : "Tell me");
        this.limit.disabled = this.wasSet;
    }
}
