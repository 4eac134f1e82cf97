// Tests of src/extras/verification/verify/submit.js: the outcome of each verifier response.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { verify } from "../../src/extras/verification/verify/submit.js";

const ADDRESS = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const ID = "00000000-0000-4000-8000-000000000001";
const JOB = `v2/verify/${ID}`;
const METADATA = { compiler: { version: "0.8.28+commit.7893614a" }, sources: {}, settings: {} };
const SOURCES = { "contracts/Counter.sol": "contract Counter {}" };
const INPUT = { language: "Solidity", sources: {}, settings: {} };
const IDENTIFIER = { path: "contracts/Counter.sol", name: "Counter" };
const METADATA_CONTRACT = { ...IDENTIFIER, metadata: METADATA, sources: SOURCES };
const BUILD_INFO_CONTRACT = {
    ...METADATA_CONTRACT, input: INPUT, compilerVersion: "0.8.28+commit.7893614a",
};
const STEPS = ["Sending files…", "Compiling and comparing…"];

const { fetch, setTimeout } = globalThis;
// Requests, and the delays in milliseconds before them.
let log;

// Timers fire at once.
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
const running = json(200, { isJobCompleted: false, contract: { match: null } });
const done = (match, error) => json(200, { isJobCompleted: true, contract: { match }, error });
const refused = (customCode, message) => ({ customCode, message, errorId: ID });

// Verifies against these responses, of which the last one repeats. Returns the outcome, the sent bodies and the
// reported steps.
async function runVerify(responses, { contract = METADATA_CONTRACT, signal = new AbortController().signal } = {}) {
    const remaining = [...responses];
    const sent = [];
    const steps = [];
    globalThis.fetch = async (url, { method, headers, body, signal }) => {
        signal.throwIfAborted();
        assert(url.href.startsWith("https://gas.example/base/verification/"), url.href);
        const path = url.href.slice("https://gas.example/base/verification/".length);
        log.push(`${method} ${path}`);
        if (body !== undefined) {
            assert.deepEqual([method, headers], ["POST", { "content-type": "application/json" }]);
            sent.push(JSON.parse(body));
        }
        const response = remaining.length > 1 ? remaining.shift() : remaining[0];
        return response(signal);
    };
    const options = {
        base: new URL("https://gas.example/base/verification/"),
        signal,
        onStep: (step) => steps.push(step),
    };
    const outcome = await verify({ contract, address: ADDRESS, chainId: 2020 }, options);
    return { outcome, sent, steps };
}

test("metadata and sources start a v2 job that is polled until done", async () => {
    const responses = [started, running, running, done("exact_match")];
    const { outcome, sent, steps } = await runVerify(responses);
    assert.deepEqual(outcome, { match: "exact" });
    assert.deepEqual(sent, [{ metadata: METADATA, sources: SOURCES }]);
    assert.deepEqual(steps, STEPS);
    assert.deepEqual(log, [
        `POST v2/verify/metadata/2020/${ADDRESS}`,
        500, `GET ${JOB}`, 1000, `GET ${JOB}`, 1500, `GET ${JOB}`,
    ]);
});

test("a build-info is sent to v2 as compiler input", async () => {
    const { outcome, sent } = await runVerify([started, done("match")], { contract: BUILD_INFO_CONTRACT });
    assert.deepEqual(outcome, { match: "partial" });
    assert.deepEqual(sent, [{
        stdJsonInput: INPUT,
        compilerVersion: "0.8.28+commit.7893614a",
        contractIdentifier: "contracts/Counter.sol:Counter",
    }]);
    assert.equal(log[0], `POST v2/verify/2020/${ADDRESS}`);
});

test("poll intervals grow to 3 s and no further", async () => {
    await runVerify([started, ...Array(8).fill(running), done("match")]);
    const pauses = log.filter((entry) => typeof entry === "number");
    assert.deepEqual(pauses, [500, 1000, 1500, 2000, 3000, 3000, 3000, 3000, 3000]);
});

test("a failed job ends with the upstream's reason", async () => {
    const reason = "The deployed and recompiled bytecode don't match.";
    const failed = done(null, refused("no_match", reason));
    assert.deepEqual((await runVerify([started, running, failed])).outcome, { reason });
    assert.deepEqual((await runVerify([started, done(null)])).outcome, {
        reason: "The code at the address does not match the files.",
    });
});

test("an earlier verification is looked up before its match is claimed", async () => {
    const conflict = json(409, refused("already_verified", "It is already verified."));
    const jobConflict = done(null, refused("already_verified", "It is already verified."));
    for (const [found, outcome] of [
        [json(200, { match: "exact_match" }), { isAlreadyVerified: true, match: "exact" }],
        [json(200, { match: "match" }), { isAlreadyVerified: true, match: "partial" }],
        [json(404, { match: null }), { isAlreadyVerified: true }],
        [broken, { isAlreadyVerified: true }],
    ]) {
        assert.deepEqual((await runVerify([conflict, found])).outcome, outcome);
        assert.equal(log.at(-1), `GET v2/contract/2020/${ADDRESS}`);
        assert.deepEqual((await runVerify([started, jobConflict, found])).outcome, outcome);
    }
});

test("a verification in progress is not reported as failed", async () => {
    const reason = "The contract is already being verified";
    const twice = json(429, refused("duplicate_verification_request", reason));
    assert.deepEqual((await runVerify([twice])).outcome, { isUnknown: true, reason });
    const v1Conflict = json(429, { error: reason, message: reason });
    assert.deepEqual((await runVerify([html(404), v1Conflict])).outcome, { isUnknown: true, reason });
    // If the service's own rate limit rejects the request, the outcome is known.
    const tooMany = problem(429, "too many requests");
    assert.deepEqual((await runVerify([tooMany])).outcome, { reason: "Too many requests." });
});

test("a refused submission ends with the reason and without polls", async () => {
    for (const [response, reason] of [
        [json(400, refused("unsupported_chain", "Chain 2020 not found")), "Chain 2020 not found"],
        [json(404, refused("x", "Not here")), "Not here"],
        [problem(404, "this path is not forwarded to the verification service"),
            "This path is not forwarded to the verification service."],
        [problem(413, "the body is larger than 32 MiB"), "The body is larger than 32 MiB."],
        [html(500), "The verification service responded with status 500 and gave no reason."],
        [html(200), "The verification service responded with status 200 and gave no reason."],
        [json(202, {}), "The verification service responded with status 202 and gave no reason."],
        [json(202, null), "The verification service responded with status 202 and gave no reason."],
        [json(200, { verificationId: ID }), "The verification service responded with status 200 and gave no reason."],
    ]) {
        assert.deepEqual((await runVerify([response])).outcome, { reason });
        assert.equal(log.length, 1);
        log = [];
    }
});

test("a submission without a usable response has an open outcome", async () => {
    for (const [response, reason] of [
        [problem(502, "the connection ended"), "The connection ended."],
        [problem(504, "no response"), "No response."],
        [html(504), "The verification service responded with status 504 and gave no reason."],
        [broken, "The service is unreachable, or the connection was lost."],
    ]) {
        assert.deepEqual((await runVerify([response])).outcome, { isUnknown: true, reason });
        assert.deepEqual((await runVerify([html(404), response])).outcome, { isUnknown: true, reason });
    }
});

test("sources above the verifier's limit are not sent", async () => {
    const contract = { ...METADATA_CONTRACT, sources: { "a.sol": "x".repeat(30 * 1024 * 1024) } };
    const { outcome } = await runVerify([], { contract });
    const reason = "The sources are too large: the verification service accepts at most 30 MiB.";
    assert.deepEqual(outcome, { reason });
    assert.equal(log.length, 0);
});

test("temporary poll failures are tolerated", async () => {
    const trouble = [
        problem(502, "a"), problem(504, "b"), broken, html(503), running,
        problem(429, "c"), json(200, null), html(200), json(200, []), done("exact_match"),
    ];
    assert.deepEqual((await runVerify([started, ...trouble])).outcome, { match: "exact" });
});

test("after five poll failures the outcome is open with the last reason", async () => {
    const detail = "no connection could be made";
    const { outcome } = await runVerify([started, running, problem(502, detail)]);
    assert.deepEqual(outcome, { isUnknown: true, reason: "No connection could be made." });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 1 + 5);
});

test("an unknown job is not polled again", async () => {
    const reason = `No verification job found for id ${ID}`;
    const gone = json(404, refused("job_not_found", reason));
    assert.deepEqual((await runVerify([started, running, gone])).outcome, { isUnknown: true, reason });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 2);
});

test("a job is polled for at most 15 minutes", async (context) => {
    let now = 0;
    context.mock.method(performance, "now", () => (now += 60_000));
    const { outcome } = await runVerify([started, running]);
    assert.deepEqual(outcome, { isUnknown: true, reason: "The verification is taking longer than 15 minutes." });
    assert.equal(log.filter((entry) => entry === `GET ${JOB}`).length, 14);
});

test("the job id is percent-encoded in the path", async () => {
    await runVerify([json(202, { verificationId: "../../x?y" }), done("match")]);
    assert.equal(log.at(-1), "GET v2/verify/..%2F..%2Fx%3Fy");
});

test("without a v2 API, v1 receives the metadata and sources", async () => {
    for (const contract of [METADATA_CONTRACT, BUILD_INFO_CONTRACT]) {
        for (const [status, match] of [["perfect", "exact"], ["partial", "partial"]]) {
            const result = [{ address: ADDRESS, chainId: "2020", status }];
            const { outcome, sent, steps } = await runVerify([html(404), json(200, { result })], { contract });
            assert.deepEqual(outcome, { match });
            assert.deepEqual(sent[1], {
                address: ADDRESS,
                chain: "2020",
                files: {
                    "metadata.json": JSON.stringify(METADATA),
                    "contracts/Counter.sol": "contract Counter {}",
                },
            });
            assert.deepEqual(steps, STEPS);
            assert.equal(log.at(-1), "POST verify");
        }
    }
});

test("v1 is not sent a build-info without output", async () => {
    const contract = { ...BUILD_INFO_CONTRACT, metadata: undefined, sources: {} };
    const { outcome } = await runVerify([html(404)], { contract });
    assert.deepEqual(outcome, {
        reason: "The verification service has only the v1 API, which does not accept a build-info without " +
            "compiler output. Choose the metadata and its sources.",
    });
    assert.equal(log.length, 1);
});

test("v1 reasons are reported", async () => {
    const mismatch = "The deployed and recompiled bytecode don't match.";
    const schema = "request/body must have required property 'chain'";
    for (const [response, outcome] of [
        [json(500, { error: mismatch, message: mismatch }), { reason: mismatch }],
        [json(400, { error: "Invalid address" }), { reason: "Invalid address" }],
        [json(400, { message: schema, errors: [{ message: "x" }] }), { reason: schema }],
        [json(200, { result: [{ status: null, message: mismatch }] }), { reason: mismatch }],
        [json(409, { error: "It is already partially verified." }), { isAlreadyVerified: true, match: "partial" }],
        [html(404), { reason: "The verification service responded with status 404 and gave no reason." }],
        [json(200, { result: [null] }),
            { reason: "The verification service responded with status 200 and gave no reason." }],
        [json(200, { result: "perfect" }),
            { reason: "The verification service responded with status 200 and gave no reason." }],
        [json(500, { result: [{ status: "perfect" }], error: "no" }), { reason: "no" }],
    ]) {
        assert.deepEqual((await runVerify([html(404), response])).outcome, outcome);
    }
});

test("aborting ends a submission or a pause at once", async () => {
    const reason = new Error("stopped");
    const never = (signal) => new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)));
    for (const responses of [[never], [started, never], [html(404), never]]) {
        const controller = new AbortController();
        const outcome = runVerify(responses, { signal: controller.signal });
        setTimeout(() => controller.abort(reason), 10);
        await assert.rejects(outcome, reason);
    }
    log = [];
    const controller = new AbortController();
    globalThis.setTimeout = () => setImmediate(() => controller.abort(reason));
    await assert.rejects(runVerify([started], { signal: controller.signal }), reason);
    assert.deepEqual(log, [`POST v2/verify/metadata/2020/${ADDRESS}`]);
});
