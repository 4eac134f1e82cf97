// The page that shows the service's OpenAPI document.

import { operationGroups } from "./document.js";
import { element, entry, prose } from "./element.js";
import { responseContent, operationNode } from "./operation.js";
import { schemaSummary, schemaDetails } from "./schema.js";

const base = new URL(".", document.baseURI);
const [title, version, banner, about, source, standard, contents, routes] = [
    "title", "version", "banner", "about", "source", "standard", "contents", "routes",
].map((id) => document.getElementById(id));

try {
    const response = await fetch(new URL("openapi.json", base), { cache: "no-cache" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    show(await response.json());
    banner.hidden = true;
    addEventListener("hashchange", openTarget);
    openTarget();
} catch (error) {
    banner.textContent = `The document could not be loaded: ${error.message}`;
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
    const groups = operationGroups(api).map(({ name, description, operations }) =>
        section(name, description, operations.map((operation) => operationNode(operation, context))));
    const sharedResponses = Object.entries(responses).map(([name, response]) =>
        collapsible(`answer-${name}`, name, responseContent(response, context)));
    const headerEntries = Object.entries(headers).map(([name, header]) => {
        const node = entry(element("code", {}, name), schemaSummary(header.schema, context.names),
            ...prose(header.description));
        node.id = `header-${name}`;
        return node;
    });
    const schemaNodes = Object.entries(schemas).map(([name, schema]) =>
        collapsible(`schema-${name}`, name, schemaDetails(schema, context.names)));
    const sections = [
        ...groups,
        section("Shared responses", "Responses that many routes have in common.", sharedResponses),
        section("Headers", "Response headers.", [element("dl", {}, ...headerEntries)]),
        section("Schemas", "Data types of requests and responses.", schemaNodes),
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

/** Returns a section whose name expands and collapses it. */
function collapsible(id, name, nodes) {
    const title = element("summary", {}, element("code", { className: "path" }, name));
    return element("details", { id, className: "part" }, title, element("div", { className: "content" }, ...nodes));
}

/** Opens and shows the element that the URL's fragment names. */
function openTarget() {
    const node = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!node) return;
    if (node instanceof HTMLDetailsElement) node.open = true;
    node.scrollIntoView();
}
