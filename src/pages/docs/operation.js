// Shows one operation of the OpenAPI document.

import { namedExamples, referenceName } from "./document.js";
import { element, entry, json, prose } from "./element.js";
import { RequestForm } from "./request.js";
import { schemaSummary } from "./schema.js";

/**
 * @param {object} operation
 * @param {{ document: object, names: string[], base: URL }} context the document, the names of its
 *     schemas, and the service's base URL
 */
export function operationNode(operation, context) {
    const { id, method, path, summary } = operation;
    const title = element(
        "summary",
        {},
        element("span", { className: `verb ${method}` }, method.toUpperCase()),
        element("code", { className: "path" }, path),
        element("span", { className: "summary" }, summary),
    );
    const node = element("details", { id, className: "operation" }, title);
    node.append(
        element(
            "div",
            { className: "content" },
            ...prose(operation.description),
            ...parametersSection(operation, context),
            ...bodySection(operation, context),
            ...responsesSection(operation, context),
            ...requestSection(operation, context),
        ),
    );
    return node;
}

function parametersSection({ parameters }, { names }) {
    if (parameters.length === 0) return [];
    const entries = parameters.map(({ name, in: location, required, description, schema }) => {
        const mark = `${location}${required ? "" : ", optional"}`;
        const label = element("code", {}, name);
        const suffix = element("span", { className: "mark" }, ` ${mark}`);
        return entry(label, schemaSummary(schema, names), suffix, ...prose(description));
    });
    return [element("h3", {}, "Parameters"), element("dl", {}, ...entries)];
}

function bodySection({ body }, context) {
    if (!body) return [];
    return [element("h3", {}, "Body"), ...prose(body.description), ...mediaTypes(body, context)];
}

function responsesSection({ responses }, context) {
    const own = responses.filter(({ name }) => !name);
    const shared = responses.filter(({ name }) => name);
    const nodes = own.map((response) => element(
        "section",
        { className: "answer" },
        element("h4", {}, response.status),
        ...responseContent(response, context),
    ));
    const links = shared.map(({ status, name, description }) =>
        entry(element("a", { href: `#answer-${name}` }, status), ...prose(description)));
    return [element("h3", {}, "Responses"), ...nodes, element("dl", { className: "statuses" }, ...links)];
}

/** Returns the description, the headers, the media types and the examples of a response. */
export function responseContent(response, context) {
    const { headers = {}, description } = response;
    const entries = Object.entries(headers).map(([name, header]) => {
        const link = element("a", { href: `#header-${referenceName(header)}` }, name);
        return element("li", {}, link);
    });
    const list = element("ul", { className: "headers" }, ...entries);
    list.setAttribute("aria-label", "Headers");
    const contents = mediaTypes(response, context);
    return [...prose(description), ...(entries.length > 0 ? [list] : []), ...contents];
}

function mediaTypes({ content = {} }, { document, names }) {
    return Object.entries(content).map(([type, media]) => {
        const examples = namedExamples(document, media).flatMap(([name, value]) => [
            element("p", { className: "mark" }, name ? `Example: ${name}` : "Example"),
            json(value),
        ]);
        const title = element("p", {}, element("code", {}, type), " ", schemaSummary(media.schema, names));
        return element("div", { className: "media" }, title, ...examples);
    });
}

function requestSection(operation, { base }) {
    if (operation.method !== "get") return [];
    return [element("h3", {}, "Try it"), new RequestForm(operation, base).node];
}
