// Makes pieces of the page. Whatever the document says is text, never HTML.

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

/** The paragraphs of a text, in which what stands in backticks is code. */
export function prose(text = "") {
    return text.split(/\n{2,}/).filter((paragraph) => paragraph).map((paragraph) => {
        const parts = paragraph.split("`");
        const nodes = parts.map((part, index) => (index % 2 ? element("code", {}, part) : part));
        return element("p", {}, ...nodes);
    });
}

/** JSON as people read it. */
export function json(value) {
    // It can be scrolled, so it can be reached.
    const text = JSON.stringify(value, null, 2);
    return element("pre", { tabIndex: 0 }, element("code", {}, text));
}

/** A name with what there is to say of it. */
export function entry(name, ...said) {
    return element("div", { className: "entry" }, element("dt", {}, name), element("dd", {}, ...said));
}
