// Tests of src/pages/docs/document.js, with which the /docs page reads the OpenAPI document.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
    buildRequest, initialValue, limitTexts, namedExamples, operationGroups, referenceName, resolve, typeText,
} from "../../src/pages/docs/document.js";

const DOCUMENT = {
    tags: [{ name: "B", description: "of B" }, { name: "A" }],
    paths: {
        "/a/{b}": {
            post: { tags: ["A"], operationId: "postA", responses: { 204: { description: "done" } } },
            get: {
                tags: ["B"],
                operationId: "getA",
                summary: "get it",
                parameters: [{ $ref: "#/components/parameters/path.b~1c" }],
                responses: { 200: { description: "it" }, 404: { $ref: "#/components/responses/None" } },
            },
        },
    },
    components: {
        parameters: { "path.b/c": { name: "b", in: "path", required: true } },
        responses: { None: { description: "there is none" } },
        examples: { one: { value: 1 } },
    },
};

test("operations are grouped by tag, with references resolved", () => {
    const [b, a] = operationGroups(DOCUMENT);
    assert.deepEqual([b.name, b.description, a.name, a.description], ["B", "of B", "A", undefined]);
    assert.deepEqual(a.operations.map(({ id, method, path }) => [id, method, path]), [["postA", "post", "/a/{b}"]]);
    const [{ id, summary, parameters, responses, body }] = b.operations;
    assert.deepEqual({ id, summary, parameters, responses, body }, {
        id: "getA",
        summary: "get it",
        parameters: [{ name: "b", in: "path", required: true }],
        responses: [
            { status: "200", name: undefined, description: "it" },
            { status: "404", name: "None", description: "there is none" },
        ],
        body: undefined,
    });
});

test("missing references resolve to undefined", () => {
    assert.equal(resolve(DOCUMENT, { $ref: "#/components/none/x" }), undefined);
    assert.equal(resolve(DOCUMENT, undefined), undefined);
    const names = [undefined, {}, { $ref: "#/a/b" }].map(referenceName);
    assert.deepEqual(names, [undefined, undefined, "b"]);
});

test("types are described in words", () => {
    const cases = [
        [undefined, "anything"], [true, "anything"], [{}, "anything"],
        [{ type: "string" }, "string"],
        [{ type: ["integer", "null"] }, "integer or null"],
        [{ type: "array", items: { $ref: "#/components/schemas/Chain" } }, "array of Chain"],
        [{ oneOf: [{ $ref: "#/x/Wei" }, { type: "null" }] }, "Wei or null"],
        [{ anyOf: [{ type: "string" }, { type: "string" }] }, "string"],
        [{ allOf: [{ $ref: "#/x/A" }, { type: "object" }] }, "A and object"],
        [{ type: "string", enum: ["a", "b"] }, '"a" or "b"'],
    ];
    for (const [schema, expected] of cases) assert.equal(typeText(schema), expected);
});

test("limits are described in words", () => {
    const schema = { type: "integer", format: "int64", minimum: 0, maximum: 5, default: 3 };
    assert.deepEqual(limitTexts(schema), ["int64", "at least 0", "at most 5", "default 3"]);
    assert.deepEqual(limitTexts({ pattern: "^a$" }), ["matches ^a$"]);
    assert.deepEqual([limitTexts(undefined), limitTexts({})], [[], []]);
});

test("examples are found inline and by reference", () => {
    assert.deepEqual(namedExamples(DOCUMENT, { example: null }), [["", null]]);
    const examples = { first: { $ref: "#/components/examples/one" }, second: { value: 2 } };
    assert.deepEqual(namedExamples(DOCUMENT, { examples }), [["first", 1], ["second", 2]]);
    assert.deepEqual(namedExamples(DOCUMENT, {}), []);
});

test("required parameters are prefilled, optional ones are empty", () => {
    const cases = [
        [{ required: true, example: 7, schema: { enum: ["a"] } }, "7"],
        [{ required: true, schema: { enum: ["a", "b"] } }, "a"],
        [{ required: true, schema: { examples: ["e"] } }, "e"],
        [{ required: true, schema: { default: 20 } }, "20"],
        [{ required: true }, ""],
        [{ required: false, example: 7, schema: { default: 20 } }, ""],
    ];
    for (const [parameter, expected] of cases) assert.equal(initialValue(parameter), expected);
});

test("request values go to path, query and headers", () => {
    const operation = {
        path: "/v1/{chain}/x",
        parameters: [
            { name: "chain", in: "path" }, { name: "a", in: "query" }, { name: "b", in: "query" },
            { name: "If-None-Match", in: "header" }, { name: "X-Request-Id", in: "header" },
        ],
    };
    const values = new Map([["chain", "a/b"], ["a", "1&2"], ["b", ""], ["X-Request-Id", "me"]]);
    assert.deepEqual(buildRequest(operation, values),
        { target: "v1/a%2Fb/x?a=1%262", headers: { "X-Request-Id": "me" } });
    assert.deepEqual(buildRequest({ path: "/", parameters: [] }, new Map()), { target: "", headers: {} });
});
