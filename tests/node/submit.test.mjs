// What the form's submit.js makes of the verification service's answers.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { verify } from "../../src/pages/verify/submit.js";

const ADDRESS = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const ID = "00000000-0000-4000-8000-000000000001";
const JOB = `v2/verify/${ID}`;
const METADATA = { compiler: { version: "0.8.28+commit.7893614a" }, sources: {}, settings: {} };
const SOURCES = { "contracts/Counter.sol": "contract Counter {}" };
const INPUT = { language: "Solidity", sources: {}, settings: {} };
const PLACE = { path: "contracts/Counter.sol", name: "Counter" };
const OF_METADATA = { ...PLACE, metadata: METADATA, sources: SOURCES };
const OF_BUILD_INFO = {
    ...OF_METADATA, input: INPUT, compilerVersion: "0.8.28+commit.7893614a",
};
const TELLS = ["Sending the files…", "Compiling and comparing…"];

const { fetch, setTimeout } = globalThis;
// What was asked and how long was waited before it.
let log;

// Nobody waits in earnest.
beforeEach(() => {
    log = [];
    globalThis.setTimeout = (then, milliseconds) => {
        log.push(milliseconds);
        setImmediate(then);
    };
});
afterEach(() => Object.assign(globalThis, { fetch, setTimeout }));

const json = (status, body, type = "application/json; charset=utf-8") => () =>
    new Response(JSON.stringify(body), { status, headers: { "content-type": type } });
const problem = (status, detail) => json(status, { status, detail }, "application/problem+json");
const html = (status) => () =>
    new Response("<!DOCTYPE html><pre>Cannot POST</pre>", {
        status, headers: { "content-type": "text/html; charset=utf-8" },
    });
const broken = () => {
    throw new TypeError("Failed to fetch");
};
const started = json(202, { verificationId: ID });
const underWay = json(200, { isJobCompleted: false, contract: { match: null } });
const done = (match, error) => json(200, { isJobCompleted: true, contract: { match }, error });
const refused = (customCode, message) => ({ customCode, message, errorId: ID });

// Verifies against these answers, the last of which is given again and again; also tells what was sent.
async function outcomeOf(answers, { contract = OF_METADATA, signal = new AbortController().signal } = {}) {
    const left = [...answers];
    const sent = [];
    const told = [];
    globalThis.fetch = async (url, { method, headers, body, signal }) => {
        signal.throwIfAborted();
        assert(url.href.startsWith("https://gas.example/base/verification/"), url.href);
        const path = url.href.slice("https://gas.example/base/verification/".length);
        log.push(`${method} ${path}`);
        if (body !== undefined) {
            assert.deepEqual([method, headers], ["POST", { "content-type": "application/json" }]);
            sent.push(JSON.parse(body));
        }
        const answer = left.length > 1 ? left.shift() : left[0];
        return answer(signal);
    };
    const way = {
        base: new URL("https://gas.example/base/verification/"),
        signal,
        tell: (step) => told.push(step),
    };
    const outcome = await verify({ contract, address: ADDRESS, chainId: 2020 }, way);
    return { outcome, sent, told };
}

test("metadata and sources go to the second generation as a job that is asked for until it is done", async () => {
    const answers = [started, underWay, underWay, done("exact_match")];
    const { outcome, sent, told } = await outcomeOf(answers);
    assert.deepEqual(outcome, { match: "exact" });
    assert.deepEqual(sent, [{ metadata: METADATA, sources: SOURCES }]);
    assert.deepEqual(told, TELLS);
    assert.deepEqual(log, [
        `POST v2/verify/metadata/2020/${ADDRESS}`,
        500, `GET ${JOB}`, 1000, `GET ${JOB}`, 1500, `GET ${JOB}`,
    ]);
});

test("a build-info goes there as the compiler's input", async () => {
    const { outcome, sent } = await outcomeOf([started, done("match")], { contract: OF_BUILD_INFO });
    assert.deepEqual(outcome, { match: "partial" });
    assert.deepEqual(sent, [{
        stdJsonInput: INPUT,
        compilerVersion: "0.8.28+commit.7893614a",
        contractIdentifier: "contracts/Counter.sol:Counter",
    }]);
    assert.equal(log[0], `POST v2/verify/2020/${ADDRESS}`);
});

test("pauses between two looks grow to 3 s and no further", async () => {
    await outcomeOf([started, ...Array(8).fill(underWay), done("match")]);
    const pauses = log.filter((entry) => typeof entry === "number");
    assert.deepEqual(pauses, [500, 1000, 1500, 2000, 3000, 3000, 3000, 3000, 3000]);
});

test("a failed job ends with the upstream's reason", async () => {
    const reason = "The deployed and recompiled bytecode don't match.";
    const failed = done(null, refused("no_match", reason));
    assert.deepEqual((await outcomeOf([started, underWay, failed])).outcome, { reason });
    assert.deepEqual((await outcomeOf([started, done(null)])).outcome, {
        reason: "The code at the address is not that of the files.",
    });
});

test("what was verified before is looked up, and nothing is claimed of it that was not found", async () => {
    const conflict = json(409, refused("already_verified", "It is already verified."));
    const ofJob = done(null, refused("already_verified", "It is already verified."));
    for (const [found, outcome] of [
        [json(200, { match: "exact_match" }), { isOld: true, match: "exact" }],
        [json(200, { match: "match" }), { isOld: true, match: "partial" }],
        [json(404, { match: null }), { isOld: true }],
        [broken, { isOld: true }],
    ]) {
        assert.deepEqual((await outcomeOf([conflict, found])).outcome, outcome);
        assert.equal(log.at(-1), `GET v2/contract/2020/${ADDRESS}`);
        assert.deepEqual((await outcomeOf([started, ofJob, found])).outcome, outcome);
    }
});

test("a contract that is being verified already is not said to have failed", async () => {
    const reason = "The contract is already being verified";
    const twice = json(429, refused("duplicate_verification_request", reason));
    assert.deepEqual((await outcomeOf([twice])).outcome, { isOpen: true, reason });
    const byFirst = json(429, { error: reason, message: reason });
    assert.deepEqual((await outcomeOf([html(404), byFirst])).outcome, { isOpen: true, reason });
    // This service's own limit is another matter.
    const tooMany = problem(429, "too many requests");
    assert.deepEqual((await outcomeOf([tooMany])).outcome, { reason: "Too many requests." });
});

test("an order that is refused ends with the reason, and no job is asked for", async () => {
    for (const [answer, reason] of [
        [json(400, refused("unsupported_chain", "Chain 2020 not found")), "Chain 2020 not found"],
        [json(404, refused("x", "Not here")), "Not here"],
        [problem(404, "the verification service is not asked for this path"),
            "The verification service is not asked for this path."],
        [problem(413, "the body is larger than 32 MiB"), "The body is larger than 32 MiB."],
        [html(500), "The verification service answered with status 500 and no reason."],
        [html(200), "The verification service answered with status 200 and no reason."],
        [json(202, {}), "The verification service answered with status 202 and no reason."],
        [json(202, null), "The verification service answered with status 202 and no reason."],
        [json(200, { verificationId: ID }), "The verification service answered with status 200 and no reason."],
    ]) {
        assert.deepEqual((await outcomeOf([answer])).outcome, { reason });
        assert.equal(log.length, 1);
        log = [];
    }
});

test("an order whose answer got lost has an open outcome", async () => {
    for (const [answer, reason] of [
        [problem(502, "the connection ended"), "The connection ended."],
        [problem(504, "no answer"), "No answer."],
        [html(504), "The verification service answered with status 504 and no reason."],
        [broken, "The service cannot be reached, or the connection broke off."],
    ]) {
        assert.deepEqual((await outcomeOf([answer])).outcome, { isOpen: true, reason });
        assert.deepEqual((await outcomeOf([html(404), answer])).outcome, { isOpen: true, reason });
    }
});

test("sources that the verification service would not take are not sent", async () => {
    const contract = { ...OF_METADATA, sources: { "a.sol": "x".repeat(30 * 1024 * 1024) } };
    const { outcome } = await outcomeOf([], { contract });
    assert.deepEqual(outcome, { reason: "The sources are too large: the verification service takes 30 MiB." });
    assert.equal(log.length, 0);
});

test("trouble between two looks is waited out", async () => {
    const trouble = [
        problem(502, "a"), problem(504, "b"), broken, html(503), underWay,
        problem(429, "c"), json(200, null), html(200), json(200, []), done("exact_match"),
    ];
    assert.deepEqual((await outcomeOf([started, ...trouble])).outcome, { match: "exact" });
});

test("after five failures in a row the outcome is open, with the last one's reason", async () => {
    const detail = "no connection could be made";
    const { outcome } = await outcomeOf([started, underWay, problem(502, detail)]);
    assert.deepEqual(outcome, { isOpen: true, reason: "No connection could be made." });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 1 + 5);
});

test("a job that the upstream has forgotten is not asked for again", async () => {
    const reason = `No verification job found for id ${ID}`;
    const gone = json(404, refused("job_not_found", reason));
    assert.deepEqual((await outcomeOf([started, underWay, gone])).outcome, { isOpen: true, reason });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 2);
});

test("a job is asked for no longer than a quarter of an hour", async (context) => {
    let now = 0;
    context.mock.method(performance, "now", () => (now += 60_000));
    const { outcome } = await outcomeOf([started, underWay]);
    assert.deepEqual(outcome, { isOpen: true, reason: "The verification takes very long." });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 14);
});

test("the job's id is no path of its own", async () => {
    await outcomeOf([json(202, { verificationId: "../../x?y" }), done("match")]);
    assert.equal(log.at(-1), "GET v2/verify/..%2F..%2Fx%3Fy");
});

test("where there is no second generation, the first is sent the metadata with its sources", async () => {
    for (const contract of [OF_METADATA, OF_BUILD_INFO]) {
        for (const [status, match] of [["perfect", "exact"], ["partial", "partial"]]) {
            const result = [{ address: ADDRESS, chainId: "2020", status }];
            const { outcome, sent, told } = await outcomeOf([html(404), json(200, { result })], { contract });
            assert.deepEqual(outcome, { match });
            assert.deepEqual(sent[1], {
                address: ADDRESS,
                chain: "2020",
                files: {
                    "metadata.json": JSON.stringify(METADATA),
                    "contracts/Counter.sol": "contract Counter {}",
                },
            });
            assert.deepEqual(told, TELLS);
            assert.equal(log.at(-1), "POST verify");
        }
    }
});

test("the first generation is not asked for what it cannot do", async () => {
    const contract = { ...OF_BUILD_INFO, metadata: undefined, sources: {} };
    const { outcome } = await outcomeOf([html(404)], { contract });
    assert.deepEqual(outcome, {
        reason: "The verification service is an older one, which does not take a build-info without " +
            "the compiler’s output. Choose the metadata with its sources.",
    });
    assert.equal(log.length, 1);
});

test("the first generation's reasons are told", async () => {
    const mismatch = "The deployed and recompiled bytecode don't match.";
    const schema = "request/body must have required property 'chain'";
    for (const [answer, outcome] of [
        [json(500, { error: mismatch, message: mismatch }), { reason: mismatch }],
        [json(400, { error: "Invalid address" }), { reason: "Invalid address" }],
        [json(400, { message: schema, errors: [{ message: "x" }] }), { reason: schema }],
        [json(200, { result: [{ status: null, message: mismatch }] }), { reason: mismatch }],
        [json(409, { error: "It is already partially verified." }), { isOld: true, match: "partial" }],
        [html(404), { reason: "The verification service answered with status 404 and no reason." }],
        [json(200, { result: [null] }),
            { reason: "The verification service answered with status 200 and no reason." }],
        [json(200, { result: "perfect" }),
            { reason: "The verification service answered with status 200 and no reason." }],
        [json(500, { result: [{ status: "perfect" }], error: "no" }), { reason: "no" }],
    ]) {
        assert.deepEqual((await outcomeOf([html(404), answer])).outcome, outcome);
    }
});

test("who stops waiting ends it at once, while something is sent as well as between two looks", async () => {
    const reason = new Error("stopped");
    const never = (signal) => new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)));
    for (const answers of [[never], [started, never], [html(404), never]]) {
        const controller = new AbortController();
        const outcome = outcomeOf(answers, { signal: controller.signal });
        setTimeout(() => controller.abort(reason), 10);
        await assert.rejects(outcome, reason);
    }
    log = [];
    const controller = new AbortController();
    globalThis.setTimeout = () => setImmediate(() => controller.abort(reason));
    await assert.rejects(outcomeOf([started], { signal: controller.signal }), reason);
    assert.deepEqual(log, [`POST v2/verify/metadata/2020/${ADDRESS}`]);
});
