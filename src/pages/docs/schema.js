// Shows schemas.

import { limitsOf, nameOf, typeOf } from "./document.js";
import { element, entry, prose } from "./element.js";

/**
 * A schema's type with a link to each schema that it names, and its limits.
 *
 * @param {object | undefined} schema
 * @param {string[]} names of all schemas
 */
export function brief(schema, names) {
    const words = typeOf(schema).split(" ");
    const nodes = words.flatMap((word, index) => {
        const node = names.includes(word) ? element("a", { href: `#schema-${word}` }, word) : word;
        return index > 0 ? [" ", node] : [node];
    });
    const limits = limitsOf(schema);
    const more = limits.length > 0 ? [element("span", { className: "limits" }, `, ${limits.join(", ")}`)] : [];
    return element("span", { className: "type" }, ...nodes, ...more);
}

/** All that a schema says. */
export function whole(schema, names) {
    const nodes = prose(schema.description);
    const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
    if (parts) {
        const word = schema.allOf ? "All of" : "One of";
        const items = parts.map((part) => element("li", {}, ...shape(part, names)));
        nodes.push(element("p", {}, word), element("ol", {}, ...items));
    } else {
        nodes.push(...shape(schema, names));
    }
    return nodes;
}

function shape(schema, names) {
    if (nameOf(schema) || !schema.properties) return [element("p", {}, brief(schema, names))];
    const required = schema.required ?? [];
    const entries = Object.entries(schema.properties).map(([name, property]) => {
        const label = element("code", {}, name);
        const optional = required.includes(name) ? [] : [element("span", { className: "mark" }, " optional")];
        return entry(label, brief(property, names), ...optional, ...prose(property.description));
    });
    return [element("dl", {}, ...entries)];
}
