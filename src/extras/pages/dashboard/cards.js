// The cards of the three tiers, of which one is chosen.

import { element, setText, setTitle, unseen } from "./dom.js";
import { DEFAULT_TIER, TIERS } from "./tiers.js";

export class TierCards {
    /** @param {(tier: string) => void} onChoice called when the reader chooses another tier */
    constructor(onChoice) {
        this.cards = Object.entries(TIERS).map(([value, label]) => new TierCard(value, label));
        this.node = element("fieldset", { className: "tiers" }, element("legend", { className: "unseen" }, "Speed"),
            ...this.cards.map(({ node }) => node));
        this.node.addEventListener("change", ({ target }) => {
            this.select(target.value);
            onChoice(target.value);
        });
        this.select(DEFAULT_TIER);
    }

    select(value) {
        this.value = value;
        for (const card of this.cards) card.radio.checked = card.value === value;
    }

    show({ tiers, state, hasWaits }) {
        this.node.classList.toggle("no-waits", !hasWaits);
        for (const [index, tier] of tiers.entries()) {
            this.cards[index].show(tier);
            // The history of a chain without data has the price of one tier.
            this.cards[index].node.hidden = state === "none" && !tier.price;
        }
    }
}

class TierCard {
    constructor(value, label) {
        this.value = value;
        const [id, name, details] = ["", "-name", "-details"].map((part) => `tier-${value}${part}`);
        this.radio = element("input", { type: "radio", id, name: "tier", value });
        this.radio.setAttribute("aria-labelledby", name);
        this.radio.setAttribute("aria-describedby", details);
        this.number = element("span", { className: "number" });
        this.unit = element("span", { className: "unit" });
        this.price = element("span", { className: "price" }, this.number, " ", this.unit, unseen(" per gas"));
        this.wait = element("span", { className: "wait" });
        this.dollars = element("span", { className: "dollars" });
        this.coins = element("span", { className: "coins" });
        this.partial = element("span", { className: "partial" });
        this.cost = element("span", { className: "cost" },
            element("span", { className: "what" }, "Transfer"), " ", this.dollars, " ", this.coins, this.partial);
        this.node = element("label", { className: "tier" },
            element("span", { className: "choose" }, this.radio, " ", element("span", { id: name }, label)),
            element("span", { className: "facts", id: details }, this.price, " ", this.wait, " ", this.cost));
    }

    show({ price, wait, transfer }) {
        setText(this.number, price?.number ?? "–");
        setText(this.unit, price?.unit ?? "");
        setTitle(this.price, price?.exact ?? "");
        this.price.classList.toggle("past", price?.isPast ?? false);
        setText(this.wait, wait ?? "");
        this.cost.hidden = !transfer || Boolean(price?.isPast);
        if (!transfer) return;
        setText(this.dollars, transfer.dollars ?? "");
        setText(this.coins, transfer.coins);
        setText(this.partial, transfer.hasMore ? " + data fee" : "");
        setTitle(this.cost, costTitle(transfer));
    }
}

/** Returns the exact amount of a cost, and what is missing in it. */
export function costTitle({ exact, isPartial }) {
    return isPartial ? `${exact}, without a fee for data` : exact;
}
