// Shows one operation of the document.

import { Attempt } from "./attempt.js";
import { examplesOf, nameOf } from "./document.js";
import { element, entry, json, prose } from "./element.js";
import { brief } from "./schema.js";

/**
 * @param {object} operation
 * @param {{ document: object, names: string[], base: URL }} context the document, its schemas' names, and
 *     where the service is
 */
export function operationNode(operation, context) {
    const { id, verb, path, summary } = operation;
    const title = element(
        "summary",
        {},
        element("span", { className: `verb ${verb}` }, verb.toUpperCase()),
        element("code", { className: "path" }, path),
        element("span", { className: "summary" }, summary),
    );
    const node = element("details", { id, className: "operation" }, title);
    node.append(
        element(
            "div",
            { className: "content" },
            ...prose(operation.description),
            ...parametersOf(operation, context),
            ...bodyOf(operation, context),
            ...responsesOf(operation, context),
            ...attemptOf(operation, context),
        ),
    );
    return node;
}

function parametersOf({ parameters }, { names }) {
    if (parameters.length === 0) return [];
    const entries = parameters.map(({ name, in: place, required, description, schema }) => {
        const mark = `${place}${required ? "" : ", optional"}`;
        const label = element("code", {}, name);
        const where = element("span", { className: "mark" }, ` ${mark}`);
        return entry(label, brief(schema, names), where, ...prose(description));
    });
    return [element("h3", {}, "Parameters"), element("dl", {}, ...entries)];
}

function bodyOf({ body }, context) {
    if (!body) return [];
    return [element("h3", {}, "Body"), ...prose(body.description), ...contentsOf(body, context)];
}

function responsesOf({ responses }, context) {
    const own = responses.filter(({ name }) => !name);
    const shared = responses.filter(({ name }) => name);
    const nodes = own.map((response) => element(
        "section",
        { className: "answer" },
        element("h4", {}, response.status),
        ...answerOf(response, context),
    ));
    const links = shared.map(({ status, name, description }) =>
        entry(element("a", { href: `#answer-${name}` }, status), ...prose(description)));
    return [element("h3", {}, "Answers"), ...nodes, element("dl", { className: "statuses" }, ...links)];
}

/** An answer with its headers, its bodies and their examples. */
export function answerOf(response, context) {
    const { headers = {}, description } = response;
    const entries = Object.entries(headers).map(([name, header]) => {
        const link = element("a", { href: `#header-${nameOf(header)}` }, name);
        return element("li", {}, link);
    });
    const list = element("ul", { className: "headers" }, ...entries);
    list.setAttribute("aria-label", "Headers");
    const contents = contentsOf(response, context);
    return [...prose(description), ...(entries.length > 0 ? [list] : []), ...contents];
}

function contentsOf({ content = {} }, { document, names }) {
    return Object.entries(content).map(([type, media]) => {
        const examples = examplesOf(document, media).flatMap(([name, value]) => [
            element("p", { className: "mark" }, name ? `Example: ${name}` : "Example"),
            json(value),
        ]);
        const what = element("p", {}, element("code", {}, type), " ", brief(media.schema, names));
        return element("div", { className: "media" }, what, ...examples);
    });
}

function attemptOf(operation, { base }) {
    if (operation.verb !== "get") return [];
    return [element("h3", {}, "Try it"), new Attempt(operation, base).node];
}
