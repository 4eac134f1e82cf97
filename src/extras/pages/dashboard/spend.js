// What transactions cost, and what can be sent of a balance.

import { exactCoins, gwei, isWei, parseCoins, parseGas } from "./amounts.js";
import { costTitle } from "./cards.js";
import { CopyButton } from "./copy.js";
import { TRANSFER, actionsOf, costView, hasDataFee, transferOf } from "./costs.js";
import { element, setText, setTitle } from "./dom.js";
import { recall, remember } from "./store.js";

// The reader's numbers, for the pages of all chains.
const inputs = { gas: recall("gas", "100,000"), bytes: "120", balance: "" };

/** Costs of common transactions, of one with the reader's gas limit, and of sending everything. */
export class Costs {
    constructor(actions) {
        this.rows = element("tbody");
        /** @type {CostCells[]} */
        this.actions = [];
        this.own = new CostCells();
        this.gas = this.#input("gas", { id: "gas", inputMode: "numeric" });
        this.bytes = this.#input("bytes", { id: "bytes", inputMode: "numeric" });
        this.problem = element("p", { className: "word", id: "gas-problem" });
        this.gas.setAttribute("aria-describedby", "gas-problem");
        const label = (input, text) => element("label", { htmlFor: input.id }, text);
        this.size = element("span", { className: "size" }, label(this.bytes, "bytes"), " ", this.bytes);
        const head = element("th", { scope: "row" }, label(this.gas, "Your gas limit"), " ", this.gas, " ", this.size);
        const own = element("tr", {}, head, ...this.own.nodes);
        this.note = element("p", { className: "word" });
        const heads = Object.entries({ what: "Transaction", dollars: "USD", coins: "Coins" }).map(([className, text]) =>
            element("th", { scope: "col", className }, text));
        this.table = element("table", {},
            element("thead", {}, element("tr", {}, ...heads)), this.rows, element("tbody", {}, own));
        this.send = new SendAll(actions, this.#input("balance", { id: "balance", inputMode: "decimal" }));
        this.node = element("section", { className: "costs" },
            element("h3", {}, "What it costs"), this.table, this.problem, this.note, this.send.node);
    }

    show({ costs, priced, market, currency, note, isCurrent }, tier) {
        Object.assign(this, { priced, tier });
        const cells = costs ?? [];
        this.node.classList.toggle("past", !market);
        this.table.classList.toggle("coins-only", !cells.some(({ dollars }) => dollars));
        for (const [index, { label, gas, ...cost }] of cells.entries()) {
            this.actions[index] ??= this.#addRow(label);
            setText(this.actions[index].gas, `${gas} gas`);
            this.actions[index].show(cost);
        }
        for (const [index, { line }] of this.actions.entries()) line.hidden = Boolean(costs) && index >= costs.length;
        setText(this.note, note ?? "");
        this.size.hidden = !priced || !hasDataFee(priced);
        this.#showOwn();
        this.send.show({ market: isCurrent ? priced : undefined, tier, currency });
    }

    #addRow(label) {
        const row = new CostCells();
        row.gas = element("span", { className: "gas" });
        row.line = element("tr", {}, element("th", { scope: "row" }, label, " ", row.gas), ...row.nodes);
        this.rows.append(row.line);
        return row;
    }

    #input(name, properties) {
        const input = element("input", { ...properties, value: inputs[name], autocomplete: "off" });
        input.addEventListener("input", () => {
            inputs[name] = input.value;
            if (name === "gas") remember("gas", input.value);
            if (name === "balance") this.send.refresh();
            else this.#showOwn();
        });
        return input;
    }

    /** Transactions whose costs are shown. */
    get orders() {
        const [own, actions] = [this.#own(), actionsOf(this.priced ?? {})];
        return own.gas === undefined || own.bytes === undefined ? actions : [...actions, own];
    }

    #own() {
        return { gas: parseGas(this.gas.value), bytes: this.size.hidden ? TRANSFER.bytes : parseGas(this.bytes.value) };
    }

    #showOwn() {
        const { gas, bytes } = this.#own();
        this.gas.setAttribute("aria-invalid", String(gas === undefined));
        this.bytes.setAttribute("aria-invalid", String(bytes === undefined));
        const problem = gas === undefined ? "Type a gas limit in digits." : "Type the size of the transaction in bytes.";
        setText(this.problem, gas === undefined || bytes === undefined ? problem : "");
        const isKnown = gas !== undefined && bytes !== undefined && this.priced;
        this.own.show(isKnown ? costView(this.priced, this.tier, { gas, bytes }) : undefined);
    }
}

/** The cells of a cost, in dollars and in coins. */
class CostCells {
    constructor() {
        this.dollars = element("td", { className: "dollars" });
        this.coins = element("td", { className: "coins" });
        this.nodes = [this.dollars, this.coins];
    }

    show(cost) {
        setText(this.dollars, cost?.dollars ?? "–");
        setText(this.coins, cost ? cost.coins + (cost.hasMore ? " +" : "") : "–");
        for (const node of this.nodes) setTitle(node, cost ? costTitle(cost) : "");
    }
}

// The max fee of a transfer of everything covers the base fee for so long, with this probability.
const HOLD = { hold: "30s", probability: 0.999 };
// The service is asked when the reader has stopped typing for so long, and again so long after it had no answer.
const TYPING_MS = 300;
const RETRY_MS = 5000;

/** Amount that can be sent of a balance, if the rest has to pay for the transfer. The service computes it. */
class SendAll {
    constructor({ announce, requestCost }, balance) {
        this.balance = balance;
        this.requestCost = requestCost;
        this.currency = element("span");
        this.amount = element("b", { className: "sendable" });
        this.word = element("p", { className: "word" });
        this.copy = new CopyButton("Copy amount", announce);
        this.answer = element("p", { className: "answer" }, "You can send ", this.amount, " ", this.copy.node);
        this.node = element("div", { className: "send" },
            element("p", {}, element("label", { htmlFor: "balance" }, "Send everything of"), " ", balance, " ", this.currency),
            this.answer, this.word);
    }

    show(shown) {
        this.shown = shown;
        setText(this.currency, shown.currency ?? "coins");
        this.refresh();
    }

    /** Asks the service once for each balance at each block. What it said for the balance before stays until it answers. */
    async refresh() {
        const { market } = this.shown;
        const balance = parseCoins(this.balance.value);
        const asked = market && balance !== undefined ? `${balance} at ${market.newest_block}` : undefined;
        if (this.cost?.balance !== balance) this.cost = undefined;
        this.#render(balance);
        if (asked === this.asked) return;
        this.asked = asked;
        await pause(TYPING_MS);
        if (!asked || asked !== this.asked) return;
        const { gas, bytes } = transferOf(market);
        const tiers = (await this.requestCost({ gas, bytes, balance, ...HOLD }))?.tiers;
        if (asked !== this.asked) return;
        this.cost = tiers && { balance, tiers };
        this.#render(balance);
        if (tiers) return;
        await pause(RETRY_MS);
        if (asked === this.asked) this.asked = undefined;
    }

    #render(balance) {
        const { market, tier, currency } = this.shown;
        const fees = market && this.cost?.tiers[tier];
        const isKnown = isWei(fees?.max_send) && isWei(fees.max_fee_per_gas) && isWei(fees.max_priority_fee_per_gas);
        const left = isKnown ? BigInt(fees.max_send) : 0n;
        const isTyped = this.balance.value.trim() !== "";
        this.balance.setAttribute("aria-invalid", String(isTyped && balance === undefined));
        this.answer.hidden = left === 0n;
        if (left) {
            const text = exactCoins(left, currency);
            setText(this.amount, text);
            this.copy.show(() => text.split(" ")[0], " that can be sent", text);
        }
        setText(this.word, isTyped ? sendWord(balance, market, isKnown ? fees : undefined) : "");
    }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function sendWord(balance, market, fees) {
    if (balance === undefined) return "Type your balance in coins, such as 1.5.";
    if (!market) return "Not known without a current price.";
    if (!fees) return "Not known right now.";
    if (fees.max_send === "0") return "The balance is not enough for a transfer at this max fee.";
    const [max, tip] = [fees.max_fee_per_gas, fees.max_priority_fee_per_gas].map((wei) => `${gwei(BigInt(wei))} gwei`);
    if (market.suggestion.type === "legacy") return `The rest pays for the transfer at a gas price of ${max}.`;
    return `The rest pays for the transfer with a max fee of ${max} and a priority fee of ${tip}. `
        + "It covers the base fee for 30 s in 999 of 1,000 cases.";
}
