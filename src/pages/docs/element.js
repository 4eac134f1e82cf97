// Creates parts of the page. Content of the OpenAPI document is always inserted as text, never as HTML.

/**
 * @param {string} name
 * @param {object} properties
 * @param {...(Node | string)} children
 */
export function element(name, properties = {}, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
}

/** Returns the paragraphs of a text. Parts in backticks become code. */
export function prose(text = "") {
    return text.split(/\n{2,}/).filter((paragraph) => paragraph).map((paragraph) => {
        const parts = paragraph.split("`");
        const nodes = parts.map((part, index) => (index % 2 ? element("code", {}, part) : part));
        return element("p", {}, ...nodes);
    });
}

/** Returns `value` as indented JSON. */
export function json(value) {
    // The element is focusable, so that it can be scrolled with the keyboard.
    const text = JSON.stringify(value, null, 2);
    return element("pre", { tabIndex: 0 }, element("code", {}, text));
}

/** Returns an entry of a definition list. */
export function entry(term, ...definition) {
    return element("div", { className: "entry" }, element("dt", {}, term), element("dd", {}, ...definition));
}
