// Shows openapi.json: the routes by tag, each with its parameters, its responses and, for GET, a link that sends the request.

import { element } from "../dashboard/dom.js";

// Requests go to where the page came from: a proxy may serve it below a path that the document does not name.
const ROOT = new URL(".", location.href);

let api;
let chains = [];

/** Follows references. A description beside a reference replaces that of its target. */
function resolve(node = {}) {
    const reference = node.$ref ?? node.allOf?.[0].$ref;
    if (!reference) return node;
    const target = reference.split("/").slice(1).reduce((found, key) => found[key], api);
    return { ...resolve(target), ...(node.description && { description: node.description }) };
}

/** The schemas that a value, or each item of a list, may have, without null. */
function alternatives(given) {
    const schema = resolve(given);
    if (schema.type === "array") return alternatives(schema.items);
    if (schema.oneOf) return schema.oneOf.flatMap(alternatives);
    return schema.type === "null" ? [] : [schema];
}

/** Describes the values of a schema in a few words. */
function typeOf(given) {
    const schema = resolve(given);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
    if (schema.oneOf) return schema.oneOf.map(typeOf).join(" or ");
    if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
    const limits = { default: "default", minimum: "from", maximum: "to", pattern: "pattern" };
    const words = Object.entries(limits).filter(([key]) => key in schema).map(([key, word]) => `${word} ${schema[key]}`);
    return [[schema.type ?? "any"].flat().join(" or "), ...words].join(", ");
}

/** A text as an element, in which backticks mark code. */
function prose(text, name = "p") {
    const parts = text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
    return element(name, {}, ...parts);
}

const code = (text) => element("code", {}, text);

/** The members of an object, and of the objects in it. */
function members(given) {
    const lists = alternatives(given).filter(({ properties }) => properties);
    return lists.map(({ properties }) => element("dl", {}, ...Object.entries(properties).flatMap(([name, value]) => {
        const described = [resolve(value), ...alternatives(value)].find(({ description }) => description);
        return [
            element("dt", {}, code(name), ` ${typeOf(value)}`),
            element("dd", {}, ...(described ? [prose(described.description)] : []), ...members(value)),
        ];
    })));
}

/** The types of a body, with members and an example each. */
function bodies(content = {}) {
    return Object.entries(content).flatMap(([type, { schema, example }]) => [
        element("p", {}, code(type)),
        ...members(schema),
        ...(example === undefined ? [] : [element("pre", {}, typeof example === "string" ? example : JSON.stringify(example, null, 2))]),
    ]);
}

/** A control for the value of a parameter. */
function control({ name, in: place, schema, example, required }) {
    const isChain = place === "path" && ["chain", "chain_id"].includes(name);
    const options = isChain ? chains : resolve(schema).enum;
    if (options?.length) {
        const values = required ? options : ["", ...options];
        return element("select", {}, ...values.map((value) => element("option", { value }, String(value))));
    }
    const placeholder = String(resolve(schema).default ?? (required ? "" : "not sent"));
    return element("input", { value: required ? example ?? "" : "", placeholder, autocomplete: "off", spellcheck: false });
}

/** The parameters of a route. Those in the path and the query of a GET have controls, which set the link. */
function parameters(path, verb, { operationId, parameters: given = [] }) {
    const controls = new Map();
    const link = element("a", { target: "_blank", rel: "noopener" });
    const update = () => {
        const value = (name) => encodeURIComponent(controls.get(name)?.value ?? "");
        const url = new URL(path.slice(1).replace(/\{(\w+)\}/g, (_, name) => value(name)), ROOT);
        for (const [name, { value, place }] of controls) if (place === "query" && value) url.searchParams.set(name, value);
        link.href = url;
        link.replaceChildren(url.href);
    };
    const rows = given.map(resolve).map((parameter) => {
        const { name, in: place, required, description, schema } = parameter;
        const facts = `${place}, ${required ? "required" : "optional"}, ${typeOf(schema)}`;
        const id = `${operationId}.${name}`;
        const row = element("div", { className: "parameter" });
        const isSet = verb === "get" && place !== "header";
        row.append(element(isSet ? "label" : "span", isSet ? { htmlFor: id } : {}, code(name)), ` ${facts}`, prose(description ?? ""));
        if (isSet) {
            const field = Object.assign(control(parameter), { id, place });
            field.addEventListener("input", update);
            controls.set(name, field);
            row.append(field);
        }
        return row;
    });
    if (verb === "get") {
        update();
        rows.push(element("p", { className: "try" }, "Try: ", link));
    }
    return rows;
}

function contents(path, verb, route) {
    const answers = Object.entries(route.responses).flatMap(([status, given]) => {
        const { description, content } = resolve(given);
        return [
            element("dt", {}, code(status === "default" ? "other" : status)),
            element("dd", {}, prose(description), ...bodies(content)),
        ];
    });
    const { content } = resolve(route.requestBody);
    return element("div", { className: "route" },
        ...(route.description ?? "").split("\n\n").map((text) => prose(text)),
        element("h3", {}, "Parameters"), ...parameters(path, verb, route),
        ...(content ? [element("h3", {}, "Body"), ...bodies(content)] : []),
        element("h3", {}, "Responses"), element("dl", {}, ...answers));
}

/** A route, which is filled when it is opened. */
function routeOf(path, verb, route) {
    const title = element("span", { className: "summary" }, route.summary);
    const summary = element("summary", {}, element("code", { className: "verb" }, verb.toUpperCase()), " ", code(path), " ", title);
    const details = element("details", { id: route.operationId }, summary);
    details.addEventListener("toggle", () => {
        if (details.children.length === 1) details.append(contents(path, verb, route));
        if (details.open) history.replaceState(null, "", `#${details.id}`);
    });
    return details;
}

/** Opens the route that the address names, also in the form `#/Gas/getChains`. */
function openLinked() {
    const node = document.getElementById(location.hash.replace(/^#(.*\/)?/, ""));
    if (node?.tagName === "DETAILS") node.open = true;
    node?.scrollIntoView();
}

function show() {
    const { title, version, description } = api.info;
    document.title = `${title} – API`;
    const routes = Object.entries(api.paths).flatMap(([path, item]) =>
        Object.entries(item).map(([verb, route]) => ({ path, verb, route })));
    const links = element("nav", {});
    links.setAttribute("aria-label", "Groups");
    const groups = api.tags.map((tag) => {
        const own = routes.filter(({ route }) => route.tags[0] === tag.name);
        const id = tag.name.replace(/\W+/g, "-");
        if (own.length) links.append(element("a", { href: `#${id}` }, tag.name));
        return element("section", { id, hidden: !own.length }, element("h2", {}, tag.name), prose(tag.description ?? ""),
            ...own.map(({ path, verb, route }) => routeOf(path, verb, route)));
    });
    const about = description.split("\n\n").map((text) => prose(text));
    const whole = element("a", { href: "openapi.json" }, "OpenAPI document");
    document.querySelector("main").append(...about, element("p", {}, whole, ` ${version}`), links, ...groups);
}

const banner = document.getElementById("banner");
try {
    const [response, list] = await Promise.all([fetch("openapi.json"), fetch("v1/chains")]);
    if (!response.ok) throw new Error(`status ${response.status}`);
    api = await response.json();
    // The document is the same for all chains. The page offers those of this service.
    if (list.ok) chains = (await list.json()).map(({ chain }) => chain);
    show();
    banner.remove();
    addEventListener("hashchange", openLinked);
    openLinked();
} catch (error) {
    banner.textContent = `The document could not be loaded: ${error.message}`;
}
