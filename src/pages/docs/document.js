// Reads the parts of an OpenAPI document that the page shows. Has no access to the page.

const METHODS = ["get", "post", "put", "patch", "delete"];

/**
 * Returns the target of a reference, or `node` itself if it is not a reference.
 *
 * @param {object} document
 * @param {object | undefined} node
 */
export function resolve(document, node) {
    let found = node;
    while (found?.$ref) {
        const parts = found.$ref.replace(/^#\//, "").split("/");
        const unescaped = parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
        found = unescaped.reduce((parent, part) => parent?.[part], document);
    }
    return found;
}

/** Returns the last part of a reference, or `undefined` if `node` is not a reference. */
export const referenceName = (node) => node?.$ref?.split("/").at(-1);

/**
 * Returns the operations grouped by tag, in the order of the document.
 *
 * @param {object} document
 */
export function operationGroups(document) {
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
        METHODS.filter((method) => item[method]).map((method) => readOperation(document, path, method, item[method])),
    );
    return (document.tags ?? []).map(({ name, description }) => ({
        name,
        description,
        operations: operations.filter(({ tags }) => tags.includes(name)),
    }));
}

function readOperation(document, path, method, operation) {
    const responses = Object.entries(operation.responses).map(([status, response]) => ({
        status,
        name: referenceName(response),
        ...resolve(document, response),
    }));
    const parameters = (operation.parameters ?? []).map((parameter) => resolve(document, parameter));
    return {
        id: operation.operationId,
        path,
        method,
        tags: operation.tags ?? [],
        summary: operation.summary,
        description: operation.description,
        parameters,
        body: resolve(document, operation.requestBody),
        responses,
    };
}

/**
 * Returns a schema's type in a few words, in which other schemas appear by name.
 *
 * @param {object | true | undefined} schema
 * @returns {string}
 */
export function typeText(schema) {
    if (!schema || schema === true) return "anything";
    if (schema.$ref) return referenceName(schema);
    const alternatives = schema.oneOf ?? schema.anyOf;
    if (alternatives) return [...new Set(alternatives.map(typeText))].join(" or ");
    if (schema.allOf) return schema.allOf.map(typeText).join(" and ");
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
    const types = [schema.type ?? "anything"].flat();
    const names = types.map((type) => (type === "array" ? `array of ${typeText(schema.items)}` : type));
    return names.join(" or ");
}

/**
 * Returns a schema's format, pattern, bounds and default as texts.
 *
 * @param {object | undefined} schema
 * @returns {string[]}
 */
export function limitTexts(schema) {
    const limits = {
        format: (format) => format,
        pattern: (pattern) => `matches ${pattern}`,
        minimum: (minimum) => `at least ${minimum}`,
        maximum: (maximum) => `at most ${maximum}`,
        default: (value) => `default ${JSON.stringify(value)}`,
    };
    return Object.entries(limits)
        .filter(([name]) => schema?.[name] !== undefined)
        .map(([name, format]) => format(schema[name]));
}

/** Returns the examples of a media type or a parameter as pairs of name and value. A single example has no name. */
export function namedExamples(document, content) {
    if (content.example !== undefined) return [["", content.example]];
    return Object.entries(content.examples ?? {}).map(([name, example]) => [
        name,
        resolve(document, example).value,
    ]);
}

/** Returns the initial value of a parameter's field. */
export function initialValue({ required, example, schema = {} }) {
    if (!required) return "";
    return String(example ?? schema.enum?.[0] ?? schema.examples?.[0] ?? schema.default ?? "");
}

/**
 * Builds a request from the parameters' values by name, omitting empty ones. `target` is the URL relative to the base
 * path.
 *
 * @param {object} operation
 * @param {Map<string, string>} values
 */
export function buildRequest({ path, parameters }, values) {
    const query = new URLSearchParams();
    const headers = {};
    let target = path.slice(1);
    for (const { name, in: location } of parameters) {
        const value = values.get(name) ?? "";
        if (location === "path") target = target.replace(`{${name}}`, encodeURIComponent(value));
        else if (value === "") continue;
        else if (location === "query") query.append(name, value);
        else headers[name] = value;
    }
    const search = query.size > 0 ? `?${query}` : "";
    return { target: `${target}${search}`, headers };
}
