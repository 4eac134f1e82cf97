// The page of one chain: shows the texts of view.js, the charts, and what the reader can copy and set.

import { gwei, parseGas, parseGwei, price } from "./amounts.js";
import { CopyButton } from "./copy.js";
import { MarketDetails, ScoreDetails } from "./details.js";
import { Choice, element, pair, setText, setTitle, unseen } from "./dom.js";
import { History } from "./history.js";
import { snippets } from "./snippets.js";
import { costView } from "./view.js";

// Minimum duration of the bar: a shorter one would only flicker.
const MIN_BAR_MS = 1000;

// The reader's choices, for the pages of all chains.
const choices = { tier: "medium", gas: "100,000" };

/**
 * @typedef {object} Actions what the page does for a chain's page
 * @property {(text: string) => void} announce announces a text to screen readers
 * @property {() => void} onTier called when the reader chooses another tier
 * @property {import('./notify.js').Alerts} alerts
 */

export class ChainPage {
    /**
     * @param {{ key: string, id: number, base: URL, isOnly: boolean }} chain `isOnly` is true without an overview
     * @param {Actions} actions
     */
    constructor({ key, id, base, isOnly }, actions) {
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
        this.tier = new Choice("Speed", { medium: "Medium", high: "High" }, (tier) => {
            choices.tier = tier;
            actions.onTier();
        });
        this.tier.select(choices.tier);
        this.answer = new Answer();
        this.block = element("dd");
        this.age = element("p", { className: "age" });
        this.next = element("dd");
        this.costs = new Costs();
        this.fees = new Fees(announce, (name) => snippets(this.suggestionUrl, this.tier.value, this.isLegacy)[name]);
        this.alert = new AlertForm(key, actions);
        this.history = new History(key);
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
            element("div", { className: "top" },
                element("div", { className: "now" }, this.tier.node, this.answer.node, this.age),
                element("dl", { className: "when" }, pair("Block", this.block), pair("Next block", this.next))),
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
        setText(this.block, view.block === undefined ? "–" : `${view.block}${view.market?.behind ?? ""}`);
        setText(this.age, view.age ?? "");
        setText(this.next, view.next ?? "–");
        this.answer.show(view);
        this.costs.show(view);
        this.fees.show(view);
        this.alert.show(view);
        this.use.hidden = !view.price;
        this.market.show(view.market);
        this.score.show(view.score);
        this.#runBar(view);
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

/** The price per gas, its cap, and whether it is a good time. */
class Answer {
    constructor() {
        this.number = element("span", { className: "number" });
        this.unit = element("span", { className: "unit" });
        this.price = element("p", { className: "price" }, this.number, " ", this.unit, unseen(" per gas"));
        this.cap = element("p", { className: "cap" });
        this.verdict = element("p", { className: "verdict" });
        this.warning = element("p", { className: "price-warning" });
        this.node = element("div", { className: "answer" }, this.price, this.cap, this.verdict, this.warning);
    }

    show({ price, verdict, warning }) {
        setText(this.number, price?.number ?? "–");
        setText(this.unit, price?.unit ?? "");
        setTitle(this.price, price?.exact ?? "");
        this.price.classList.toggle("past", price?.isPast ?? false);
        setText(this.cap, price && !price.isPast ? price.cap : price ? "Last known price" : "");
        setTitle(this.cap, price?.capExact ?? "");
        setText(this.verdict, verdict?.text ?? "");
        this.verdict.hidden = !verdict;
        this.verdict.dataset.level = verdict?.level ?? "";
        setText(this.warning, warning?.text ?? "");
    }
}

/** Costs of common transactions, and of one with the reader's gas limit. */
class Costs {
    constructor() {
        this.rows = element("tbody");
        this.gas = element("input", { id: "gas", inputMode: "numeric", value: choices.gas, autocomplete: "off" });
        this.gas.addEventListener("input", () => {
            choices.gas = this.gas.value;
            this.#showOwn();
        });
        this.own = element("td");
        this.problem = element("p", { className: "word", id: "gas-problem" });
        this.gas.setAttribute("aria-describedby", "gas-problem");
        const label = element("label", { htmlFor: "gas" }, "Your gas limit");
        const ownRow = element("tr", {}, element("th", { scope: "row" }, label, " ", this.gas), this.own);
        const heads = ["Transaction", "Cost"].map((text) => element("th", { scope: "col" }, text));
        this.node = element("section", { className: "costs" },
            element("h3", {}, "What it costs"),
            element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.rows, element("tbody", {}, ownRow)),
            this.problem);
    }

    show({ costs, price, market, currency }) {
        this.wei = price?.wei;
        this.currency = currency;
        const cells = (costs ?? []).map(({ label, gas, text, exact }) => [label, gas, text, exact]);
        const key = JSON.stringify(cells);
        this.node.classList.toggle("past", !market);
        if (key !== this.shownKey) {
            this.shownKey = key;
            for (const [index, [label, gas, text, exact]] of cells.entries()) {
                const row = this.rows.children[index] ?? this.rows.appendChild(element("tr", {},
                    element("th", { scope: "row" }, label, " ", element("span", { className: "gas" }, `${gas} gas`)),
                    element("td")));
                setText(row.children[1], text);
                setTitle(row.children[1], exact);
            }
        }
        this.#showOwn();
    }

    #showOwn() {
        const gas = parseGas(this.gas.value);
        this.gas.setAttribute("aria-invalid", String(gas === undefined));
        setText(this.problem, gas === undefined ? "Type a gas limit in digits." : "");
        if (gas === undefined || this.wei === undefined) return setText(this.own, "–");
        const { text, exact } = costView(this.wei, gas, this.currency);
        setText(this.own, text);
        setTitle(this.own, exact);
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
        const label = element("label", { htmlFor: "limit" }, "Tell me below");
        this.node = element("form", { className: "alert", noValidate: true },
            element("h3", {}, "Notification"),
            element("div", { className: "line" }, label, this.limit, " gwei ", this.button), this.word);
        this.#showSet();
        this.node.addEventListener("submit", async (event) => {
            event.preventDefault();
            if (alerts.limit(key) !== undefined) {
                alerts.clear(key);
                announce(this.#say("The notification is off."));
                return;
            }
            const wei = parseGwei(this.limit.value);
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
        if (this.limit.value === "" && view.price && !this.limit.placeholder) {
            this.limit.placeholder = "1.5";
        }
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
