// Shows the schemas of the OpenAPI document.

import { limitTexts, referenceName, typeText } from "./document.js";
import { element, entry, prose } from "./element.js";

/**
 * Returns a schema's type, with links to the schemas that it refers to, and its limits.
 *
 * @param {object | undefined} schema
 * @param {string[]} names the names of all schemas
 */
export function schemaSummary(schema, names) {
    const words = typeText(schema).split(" ");
    const nodes = words.flatMap((word, index) => {
        const node = names.includes(word) ? element("a", { href: `#schema-${word}` }, word) : word;
        return index > 0 ? [" ", node] : [node];
    });
    const limits = limitTexts(schema);
    const more = limits.length > 0 ? [element("span", { className: "limits" }, `, ${limits.join(", ")}`)] : [];
    return element("span", { className: "type" }, ...nodes, ...more);
}

/** Returns the description and the properties or alternatives of a schema. */
export function schemaDetails(schema, names) {
    const nodes = prose(schema.description);
    const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
    if (parts) {
        const word = schema.allOf ? "All of" : "One of";
        const items = parts.map((part) => element("li", {}, ...propertyList(part, names)));
        nodes.push(element("p", {}, word), element("ol", {}, ...items));
    } else {
        nodes.push(...propertyList(schema, names));
    }
    return nodes;
}

function propertyList(schema, names) {
    if (referenceName(schema) || !schema.properties) return [element("p", {}, schemaSummary(schema, names))];
    const required = schema.required ?? [];
    const entries = Object.entries(schema.properties).map(([name, property]) => {
        const label = element("code", {}, name);
        const optional = required.includes(name) ? [] : [element("span", { className: "mark" }, " optional")];
        return entry(label, schemaSummary(property, names), ...optional, ...prose(property.description));
    });
    return [element("dl", {}, ...entries)];
}
