// Subscriptions, against the real service and against a server that sends what a test tells it to.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";

import { createGasClient } from "gas-suggestion";

import { Nodes, Service, atEnd, binary, chainSection, folder, serve, stopAll, until } from "./rig.mjs";

after(stopAll);

// Records what a subscription reports.
function record(gas) {
    const seen = { suggestions: [], errors: [] };
    seen.unsubscribe = gas.subscribe({
        onSuggestion: (suggestion) => seen.suggestions.push(suggestion),
        onError: (error) => seen.errors.push(error),
    });
    atEnd(seen.unsubscribe);
    seen.blocks = () => seen.suggestions.map(({ block }) => block);
    return seen;
}

const reaches = (seen, block) => until(() => seen.blocks().at(-1), (last) => last === block);

test("a subscription follows blocks and survives a restart of the service", async () => {
    const nodes = await Nodes.start();
    const chain = nodes.chain(2020);
    const config = chainSection("ronin", 2020, nodes.url(2020));
    const start = (listen) => Service.start({ binary, folder, config, listen });
    const first = await start();
    const seen = record(createGasClient({ url: first.url, chain: "ronin" }));
    await reaches(seen, 100);
    assert.equal(await first.streams(), 1);
    chain.newest += 1;
    chain.baseFee *= 2n;
    await reaches(seen, 101);
    const [before, now] = [seen.suggestions[0], seen.suggestions.at(-1)];
    assert.ok(now.medium.maxFeePerGas > before.medium.maxFeePerGas);
    assert.deepEqual([now.age, now.isStale, now.chainName], [0, false, "ronin"]);
    assert.deepEqual(seen.errors, []);

    await first.stop();
    await until(() => seen.errors.length, (count) => count > 0);
    assert.deepEqual([seen.errors[0].code, seen.errors[0].message], ["network_error", "the stream ended"]);
    chain.newest += 1;
    const second = await start(first.address);
    await reaches(seen, 102);
    assert.deepEqual([...new Set(seen.blocks())], [100, 101, 102]);

    seen.unsubscribe();
    await until(() => second.streams(), (count) => count === 0);
    const count = seen.errors.length + seen.suggestions.length;
    await second.stop();
    assert.equal(seen.errors.length + seen.suggestions.length, count);
});

// A timeout that is no delay of a subscription.
const TIMEOUT_MS = 60_001;

// Makes the package's pauses of a second and more a hundred times shorter. Returns how long they were meant to be.
function hurry(t) {
    const { setTimeout: original } = globalThis;
    t.after(() => Object.assign(globalThis, { setTimeout: original }));
    const pauses = [];
    globalThis.setTimeout = (run, delay = 0, ...more) => {
        // Node.js has timers of its own.
        const isPause = delay >= 1000 && delay < 45_000 && new Error().stack.includes("gas-suggestion/dist");
        if (isPause) pauses.push(delay);
        return original(run, isPause ? delay / 100 : delay, ...more);
    };
    return pauses;
}

// A server whose streams a test writes to. `current` is its suggestion.
async function script() {
    const rig = { streams: [], requests: [], refreshes: 0, current: { block: 1, price: 1, age: 0, isStale: false }, status: 200 };
    rig.body = (price) => {
        const tier = { max_fee_per_gas: `${price}`, max_priority_fee_per_gas: "1" };
        const amounts = { base_fee_per_gas: "0", medium: tier, high: tier };
        return JSON.stringify({ chain_name: "a", type: "eip-1559", ...amounts });
    };
    rig.event = (block, price) => `event: gas-suggestion\nid: ${block}-tag\ndata: ${rig.body(price)}\n\n`;
    const server = await serve((request, response) => {
        const { block, price, age, isStale } = rig.current;
        if (request.url.endsWith("/stream")) {
            rig.requests.push(request.headers);
            response.writeHead(rig.status, { "content-type": "text/event-stream" });
            if (rig.status === 200) rig.streams.push(response);
            else return response.end('{"code":"overloaded","detail":"full"}');
            if (rig.retry) response.write(`retry: ${rig.retry}\n`);
            return rig.isShort ? response.end() : response.flushHeaders();
        }
        rig.refreshes += 1;
        if (rig.hold) return rig.hold.push(response);
        if (rig.failure) return response.writeHead(503).end(`{"code":"${rig.failure}","detail":"none"}`);
        response.writeHead(200, { "X-Newest-Block": block, "Age": age, ...(isStale && { "X-Stale": "true" }) });
        return response.end(rig.body(price));
    });
    rig.server = server;
    rig.client = createGasClient({ url: server.url, chain: "a", timeout: TIMEOUT_MS });
    rig.stream = async () => {
        await until(() => rig.streams.length, (count) => count > 0);
        return rig.streams.at(-1);
    };
    return rig;
}

test("events may be split at any byte and end with either line break", async () => {
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    await reaches(seen, 1);
    const text = rig.event(2, 2).replace('"a"', '"Ξ"').replaceAll("\n", "\r\n");
    for (const byte of Buffer.from(text)) {
        stream.write(Buffer.from([byte]));
        await new Promise(setImmediate);
    }
    await reaches(seen, 2);
    assert.equal(seen.suggestions.at(-1).chainName, "Ξ");
    stream.write(rig.event(3, 3) + rig.event(4, 4));
    await reaches(seen, 4);
    assert.deepEqual(seen.blocks(), [1, 2, 3, 4]);
});

test("the first suggestion has its real age, and a comment refreshes it", async (t) => {
    hurry(t);
    const rig = await script();
    rig.current.age = 9;
    const seen = record(rig.client);
    const stream = await rig.stream();
    stream.write(rig.event(1, 1));
    await reaches(seen, 1);
    assert.deepEqual([seen.suggestions.length, seen.suggestions[0].age], [1, 9]);
    Object.assign(rig.current, { age: 24, isStale: true });
    stream.write(": keep-alive\n");
    await until(() => seen.suggestions.at(-1).isStale, (isStale) => isStale);
    const last = seen.suggestions.at(-1);
    assert.deepEqual([last.block, last.age], [1, 24]);
    rig.failure = "stale_data";
    // A proxy may add an empty line.
    stream.write(":\n\n");
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.status], ["stale_data", 503]);
});

test("a changed status refreshes the suggestion, and other events are ignored", async (t) => {
    hurry(t);
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    stream.write(rig.event(1, 1));
    await reaches(seen, 1);
    const status = (name) => `event: status\ndata: {"chain":"a","status":"${name}","reason":"old_data","observed_at":null}\n\n`;
    stream.write(`event: news\ndata: {}\n\ndata: {"block":9}\n\n`);
    Object.assign(rig.current, { age: 5, isStale: true });
    stream.write(status("stale"));
    await until(() => seen.suggestions.at(-1).isStale, (isStale) => isStale);
    rig.failure = "stale_data";
    stream.write(status("unavailable"));
    const error = await until(() => seen.errors[0], Boolean);
    assert.equal(error.code, "stale_data");
    // The id of a later event is its own, and the stream goes on.
    rig.failure = undefined;
    stream.write(rig.event(2, 2));
    await reaches(seen, 2);
    assert.deepEqual([[...new Set(seen.blocks())], rig.requests.length], [[1, 2], 1]);
});

test("an event that overtakes the request for the age is not lost or undone", async () => {
    const rig = await script();
    rig.hold = [];
    const seen = record(rig.client);
    const stream = await rig.stream();
    await until(() => rig.hold.length, (count) => count === 1);
    const { parse } = JSON;
    const wasRead = new Promise((resolve) => {
        JSON.parse = (text) => {
            resolve();
            JSON.parse = parse;
            return parse(text);
        };
    });
    stream.write(rig.event(2, 2));
    await wasRead;
    assert.deepEqual(seen.blocks(), []);
    rig.hold[0].writeHead(200, { "X-Newest-Block": 1, "Age": 3 }).end(rig.body(1));
    await reaches(seen, 2);
    assert.deepEqual(seen.blocks(), [2]);
    // The next event needs no request.
    stream.write(rig.event(3, 3));
    await reaches(seen, 3);
    assert.equal(rig.hold.length, 1);
});

test("a status that comes during a request causes another one after it", async () => {
    const rig = await script();
    rig.hold = [];
    const seen = record(rig.client);
    const stream = await rig.stream();
    await until(() => rig.hold.length, (count) => count === 1);
    stream.write(":\nevent: status\ndata: {}\n\n:\n");
    await new Promise((resolve) => setTimeout(resolve, 1200));
    assert.equal(rig.hold.length, 1);
    const respond = (response, age) => response.writeHead(200, { "X-Newest-Block": 1, "Age": age }).end(rig.body(1));
    respond(rig.hold[0], 3);
    await until(() => rig.hold.length, (count) => count === 2);
    respond(rig.hold[1], 4);
    await until(() => seen.suggestions.at(-1)?.age, (age) => age === 4);
    assert.deepEqual(seen.suggestions.map(({ age }) => age), [3, 4]);
});

test("a flood of comments or of events causes a request a second, and no memory grows", async () => {
    const before = process.memoryUsage().rss;
    await Promise.all([":\n", "event: status\ndata: {}\n\n", ":\n\n"].map(async (line) => {
        const rig = await script();
        const seen = record(rig.client);
        const stream = await rig.stream();
        await reaches(seen, 1);
        const begin = performance.now();
        for (let round = 0; round < 50; round += 1) {
            stream.write(line.repeat(2000));
            await new Promise((resolve) => setTimeout(resolve, 25));
        }
        stream.write(rig.event(2, 2));
        await reaches(seen, 2);
        const seconds = (performance.now() - begin) / 1000;
        assert.ok(rig.refreshes <= 2 + seconds, `${line}: ${rig.refreshes} requests in ${seconds} s`);
        assert.deepEqual(seen.errors, []);
    }));
    const grown = (process.memoryUsage().rss - before) / 2 ** 20;
    assert.ok(grown < 50, `${grown} MiB`);
});

test("a reconnect sends the last id and reports the current suggestion again", async (t) => {
    hurry(t);
    const rig = await script();
    const seen = record(rig.client);
    (await rig.stream()).write(rig.event(7, 7));
    await reaches(seen, 7);
    rig.streams[0].end();
    await until(() => rig.requests.length, (count) => count === 2);
    assert.deepEqual(rig.requests.map((headers) => headers["last-event-id"]), [undefined, "7-tag"]);
    rig.current.block = 8;
    // The stream sends nothing, as the id is current. The request after the reconnect ends the error.
    await until(() => seen.suggestions.length, (count) => count > 1);
    assert.deepEqual(seen.errors.map(({ code }) => code), ["network_error"]);
});

test("attempts after failures are further and further apart", async (t) => {
    const pauses = hurry(t);
    const rig = await script();
    rig.retry = 1500;
    const seen = record(rig.client);
    await rig.stream();
    await reaches(seen, 1);
    rig.status = 503;
    rig.streams[0].end();
    await until(() => seen.errors.length, (count) => count >= 8);
    assert.deepEqual([seen.errors[1].code, seen.errors[1].status], ["overloaded", 503]);
    const reconnects = pauses.filter((delay) => delay !== 1000);
    assert.equal(reconnects[0], 1500);
    // Twice as long each time, less at most a quarter, and at most 30 s.
    for (const [index, longest] of [3000, 6000, 12_000, 24_000, 30_000, 30_000].entries()) {
        const delay = reconnects[index + 1];
        assert.ok(delay < longest && delay >= 0.75 * longest, `${delay} ms before attempt ${index + 2}`);
    }
    rig.status = 200;
    rig.current.block = 9;
    await reaches(seen, 9);
});

test("no `retry` of a server makes the client reconnect within a second", async () => {
    const retries = ["1", "0", "-5", "1e-9", "0x1", "NaN", `0.${"0".repeat(400)}`];
    await Promise.all(retries.map(async (retry) => {
        const rig = await script();
        rig.retry = retry;
        const seen = record(rig.client);
        (await rig.stream()).end();
        const begin = performance.now();
        await until(() => rig.requests.length, (count) => count > 1);
        const pause = performance.now() - begin;
        assert.ok(pause >= 950, `${pause} ms after retry: ${retry}`);
        seen.unsubscribe();
    }));
});

test("a server that ends each stream at once is asked less and less often", async (t) => {
    const pauses = hurry(t);
    const rig = await script();
    Object.assign(rig, { retry: 1, isShort: true });
    const seen = record(rig.client);
    await until(() => seen.errors.length, (count) => count > 7);
    seen.unsubscribe();
    const reconnects = pauses.filter((delay) => delay !== 1000);
    assert.ok(Math.max(...reconnects) > 20_000, reconnects.join());
    assert.ok(rig.refreshes <= rig.requests.length);
});

test("a stream that lasted is followed by a short pause again", async (t) => {
    const { now } = Date;
    t.after(() => Object.assign(Date, { now }));
    const pauses = hurry(t);
    const rig = await script();
    rig.retry = 1500;
    rig.status = 503;
    const seen = record(rig.client);
    await until(() => seen.errors.length, (count) => count > 4);
    rig.status = 200;
    const stream = await rig.stream();
    Date.now = () => now() + 11_000;
    pauses.length = 0;
    stream.end();
    await until(() => rig.streams.length, (count) => count > 1);
    assert.ok(pauses.includes(1500), pauses.join());
});

test("an event whose id is no block and tag is an error, and no header", async (t) => {
    hurry(t);
    for (const id of ["", "7", "7-", "x-tag", "-7-tag", "7-\u00e9", `7-${"x".repeat(20_000)}`, "9".repeat(30) + "-tag"]) {
        const rig = await script();
        const seen = record(rig.client);
        (await rig.stream()).write(`event: gas-suggestion\nid: ${id}\ndata: ${rig.body(1)}\n\n`);
        const error = await until(() => seen.errors[0], Boolean);
        assert.equal(error.code, "invalid_response", id);
        await until(() => rig.requests.length, (count) => count > 1);
        assert.equal(rig.requests[1]["last-event-id"], undefined);
        seen.unsubscribe();
    }
});

test("an event that is no suggestion is an error", async () => {
    const rig = await script();
    const seen = record(rig.client);
    (await rig.stream()).write(rig.event(2, 2).replaceAll('"2"', '"0x2"'));
    const error = await until(() => seen.errors[0], Boolean);
    assert.equal(error.code, "invalid_response");
    assert.ok(!seen.blocks().includes(2));
});

test("an exception of a callback is not a failure of the stream", async (t) => {
    hurry(t);
    const listeners = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const exceptions = [];
    process.on("uncaughtException", (error) => exceptions.push(error.message));
    t.after(() => {
        process.removeAllListeners("uncaughtException");
        for (const listener of listeners) process.on("uncaughtException", listener);
    });
    const rig = await script();
    const errors = [];
    const blocks = [];
    const unsubscribe = rig.client.subscribe({
        onSuggestion({ block }) {
            blocks.push(block);
            throw new Error(`mine at ${block}`);
        },
        onError(error) {
            errors.push(error.code);
            throw new Error("mine, too");
        },
    });
    atEnd(unsubscribe);
    const stream = await rig.stream();
    await until(() => blocks.length, (count) => count === 1);
    stream.write(rig.event(2, 2));
    await until(() => exceptions.length, (count) => count === 2);
    assert.deepEqual([blocks, errors, rig.requests.length], [[1, 2], [], 1]);
    stream.end();
    await until(() => rig.requests.length, (count) => count === 2);
    await until(() => blocks.length, (count) => count > 2);
    assert.deepEqual(errors, ["network_error"]);
    unsubscribe();
    await until(() => exceptions.length, (count) => count === blocks.length + 1);
    assert.deepEqual(exceptions.slice(0, 3), ["mine at 1", "mine at 2", "mine, too"]);
});

test("a subscription that cannot work throws a TypeError at once", (t) => {
    const gas = createGasClient({ url: "http://localhost:1", chain: 1 });
    for (const callbacks of [undefined, {}, { onSuggestion: null }, () => {}, { onError() {} }]) {
        assert.throws(() => gas.subscribe(callbacks), TypeError);
    }
    // As in React Native.
    const { TextDecoder } = globalThis;
    t.after(() => Object.assign(globalThis, { TextDecoder }));
    delete globalThis.TextDecoder;
    assert.throws(() => gas.subscribe({ onSuggestion() {} }), /^TypeError: this runtime has no streams/);
});

test("a body without end and without a line break is given up", async () => {
    const rig = await script();
    const seen = record(rig.client);
    (await rig.stream()).write(`data: ${"x".repeat(70_000)}`);
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.message], ["invalid_response", "an event is too long"]);
});

test("a silent connection is replaced", async (t) => {
    const { setTimeout: original } = globalThis;
    t.after(() => Object.assign(globalThis, { setTimeout: original }));
    // The client waits 45 s for the comment that the service sends after 15 s.
    globalThis.setTimeout = (run, delay, ...more) => original(run, delay === 45_000 ? 200 : delay, ...more);
    const rig = await script();
    const seen = record(rig.client);
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.message], ["network_error", "the service is unreachable: the stream is silent"]);
    await until(() => rig.requests.length, (count) => count > 1);
});

test("unsubscribing closes the connection and silences the callbacks", async () => {
    const rig = await script();
    const seen = record(rig.client);
    const stream = await rig.stream();
    await reaches(seen, 1);
    seen.unsubscribe();
    await once(stream, "close");
    assert.deepEqual([seen.suggestions.length, seen.errors], [1, []]);
});
