// Builds and updates elements. No script of this page builds HTML from text.

/** Creates an element with these properties and children. */
export function element(name, properties, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
}

/** Creates an element of an SVG drawing with these attributes. */
export function svg(name, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
}

/** Creates a name and its value for a description list. */
export function pair(name, value) {
    return element("div", {}, element("dt", {}, name), value);
}

/** Sets the text only if it differs, so that the user's selection is kept. */
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

/** Sets the tooltip only if it differs. */
export function setTitle(node, text) {
    if (node.title !== text) node.title = text;
}

/** A text for screen readers only. */
export function unseen(text) {
    return element("span", { className: "unseen" }, text);
}

/** A group of buttons of which one is pressed. `onChoice` receives the value of the pressed one. */
export class Choice {
    /**
     * @param {string} label of the group
     * @param {Record<string, string>} options texts by value
     * @param {(value: string) => void} onChoice
     */
    constructor(label, options, onChoice) {
        this.buttons = new Map();
        this.node = element("div", { className: "choice" });
        this.node.setAttribute("role", "group");
        this.node.setAttribute("aria-label", label);
        for (const [value, text] of Object.entries(options)) {
            const button = element("button", { type: "button", className: "quiet" }, text);
            button.addEventListener("click", () => {
                this.select(value);
                onChoice(value);
            });
            this.buttons.set(value, button);
            this.node.append(button);
        }
        this.select([...this.buttons.keys()][0]);
    }

    select(value) {
        this.value = value;
        for (const [other, button] of this.buttons) button.setAttribute("aria-pressed", String(other === value));
    }
}
