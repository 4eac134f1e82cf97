// The page that shows the service's OpenAPI document.

import { groupsOf } from "./document.js";
import { element, entry, prose } from "./element.js";
import { answerOf, operationNode } from "./operation.js";
import { brief, whole } from "./schema.js";

const base = new URL(".", document.baseURI);
const [title, version, banner, about, source, standard, contents, routes] = [
    "title", "version", "banner", "about", "source", "standard", "contents", "routes",
].map((id) => document.getElementById(id));

try {
    const response = await fetch(new URL("openapi.json", base), { cache: "no-cache" });
    if (!response.ok) throw new Error(`it answers with status ${response.status}`);
    show(await response.json());
    banner.hidden = true;
    addEventListener("hashchange", open);
    open();
} catch (error) {
    banner.textContent = `The document cannot be read: ${error.message}`;
    banner.classList.add("bad");
}

function show(api) {
    const { schemas = {}, responses = {}, headers = {} } = api.components ?? {};
    const context = { document: api, names: Object.keys(schemas), base };
    title.textContent = api.info.title;
    document.title = `${api.info.title} – API`;
    version.textContent = `Version ${api.info.version}`;
    standard.textContent = api.openapi;
    about.replaceChildren(...prose(api.info.description));
    const groups = groupsOf(api).map(({ name, description, operations }) =>
        section(name, description, operations.map((operation) => operationNode(operation, context))));
    const answers = Object.entries(responses).map(([name, response]) =>
        folded(`answer-${name}`, name, answerOf(response, context)));
    const described = Object.entries(headers).map(([name, header]) => {
        const node = entry(element("code", {}, name), brief(header.schema, context.names),
            ...prose(header.description));
        node.id = `header-${name}`;
        return node;
    });
    const shapes = Object.entries(schemas).map(([name, schema]) =>
        folded(`schema-${name}`, name, whole(schema, context.names)));
    const sections = [
        ...groups,
        section("Shared answers", "What many routes may answer.", answers),
        section("Headers", "Of answers.", [element("dl", {}, ...described)]),
        section("Schemas", "What the parts of requests and answers are like.", shapes),
    ];
    routes.replaceChildren(...sections);
    const links = sections.map(({ id, firstChild }) =>
        element("li", {}, element("a", { href: `#${id}` }, firstChild.textContent)));
    contents.replaceChildren(element("ul", {}, ...links));
    source.hidden = false;
    contents.hidden = false;
}

function section(name, description, nodes) {
    const id = `section-${name.toLowerCase().replaceAll(" ", "-")}`;
    const heading = element("h2", { id: `${id}-title` }, name);
    const node = element("section", { id, className: "group" }, heading, ...prose(description), ...nodes);
    node.setAttribute("aria-labelledby", heading.id);
    return node;
}

/** Content that its name unfolds. */
function folded(id, name, nodes) {
    const title = element("summary", {}, element("code", { className: "path" }, name));
    return element("details", { id, className: "part" }, title, element("div", { className: "content" }, ...nodes));
}

/** Opens what the address names. */
function open() {
    const node = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!node) return;
    if (node instanceof HTMLDetailsElement) node.open = true;
    node.scrollIntoView();
}
