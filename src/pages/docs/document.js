// What an OpenAPI document says, in the order in which the page shows it. Knows no page.

const VERBS = ["get", "post", "put", "patch", "delete"];

/**
 * What a reference leads to, or what is there itself.
 *
 * @param {object} document
 * @param {object | undefined} node
 */
export function resolve(document, node) {
    let found = node;
    while (found?.$ref) {
        const parts = found.$ref.replace(/^#\//, "").split("/");
        const unescaped = parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
        found = unescaped.reduce((place, part) => place?.[part], document);
    }
    return found;
}

/** The last part of a reference; `undefined` for what is none. */
export const nameOf = (node) => node?.$ref?.split("/").at(-1);

/**
 * The operations in groups, in the order of the document.
 *
 * @param {object} document
 */
export function groupsOf(document) {
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
        VERBS.filter((verb) => item[verb]).map((verb) => operationOf(document, path, verb, item[verb])),
    );
    return (document.tags ?? []).map(({ name, description }) => ({
        name,
        description,
        operations: operations.filter(({ tags }) => tags.includes(name)),
    }));
}

function operationOf(document, path, verb, operation) {
    const responses = Object.entries(operation.responses).map(([status, response]) => ({
        status,
        name: nameOf(response),
        ...resolve(document, response),
    }));
    const parameters = (operation.parameters ?? []).map((parameter) => resolve(document, parameter));
    return {
        id: operation.operationId,
        path,
        verb,
        tags: operation.tags ?? [],
        summary: operation.summary,
        description: operation.description,
        parameters,
        body: resolve(document, operation.requestBody),
        responses,
    };
}

/**
 * What a schema says of a value, in a few words. Names of other schemas are in them as they are.
 *
 * @param {object | true | undefined} schema
 * @returns {string}
 */
export function typeOf(schema) {
    if (!schema || schema === true) return "anything";
    if (schema.$ref) return nameOf(schema);
    const alternatives = schema.oneOf ?? schema.anyOf;
    if (alternatives) return [...new Set(alternatives.map(typeOf))].join(" or ");
    if (schema.allOf) return schema.allOf.map(typeOf).join(" and ");
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
    const types = [schema.type ?? "anything"].flat();
    const names = types.map((type) => (type === "array" ? `array of ${typeOf(schema.items)}` : type));
    return names.join(" or ");
}

/**
 * What a value has to be like beside its type.
 *
 * @param {object | undefined} schema
 * @returns {string[]}
 */
export function limitsOf(schema) {
    const limits = {
        format: (format) => format,
        pattern: (pattern) => `matches ${pattern}`,
        minimum: (least) => `at least ${least}`,
        maximum: (most) => `at most ${most}`,
        default: (value) => `${JSON.stringify(value)} when absent`,
    };
    return Object.entries(limits)
        .filter(([name]) => schema?.[name] !== undefined)
        .map(([name, say]) => say(schema[name]));
}

/** All examples of a media type or a parameter with their names, that of the only one being empty. */
export function examplesOf(document, content) {
    if (content.example !== undefined) return [["", content.example]];
    return Object.entries(content.examples ?? {}).map(([name, example]) => [
        name,
        resolve(document, example).value,
    ]);
}

/** First value in the form for this parameter. */
export function firstOf({ required, example, schema = {} }) {
    if (!required) return "";
    return String(example ?? schema.enum?.[0] ?? schema.examples?.[0] ?? schema.default ?? "");
}

/**
 * The URL, relative to the base path, and the headers of a request with these values by the parameters'
 * names. What is empty is left out.
 *
 * @param {object} operation
 * @param {Map<string, string>} values
 */
export function requestOf({ path, parameters }, values) {
    const query = new URLSearchParams();
    const headers = {};
    let target = path.slice(1);
    for (const { name, in: place } of parameters) {
        const value = values.get(name) ?? "";
        if (place === "path") target = target.replace(`{${name}}`, encodeURIComponent(value));
        else if (value === "") continue;
        else if (place === "query") query.append(name, value);
        else headers[name] = value;
    }
    const search = query.size > 0 ? `?${query}` : "";
    return { target: `${target}${search}`, headers };
}
