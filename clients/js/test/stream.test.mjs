// Subscriptions, against a server that sends what a test tells it to. `npm test` runs it on the built package.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";

import { createGasClient } from "gas-suggestion";

import { atEnd, market, serve, stopServers, suggestion, until } from "./server.mjs";

after(stopServers);

// Records what a subscription reports.
function record(gas) {
    const seen = { suggestions: [], errors: [] };
    seen.unsubscribe = gas.subscribe({
        onSuggestion: (value) => seen.suggestions.push(value),
        onError: (error) => seen.errors.push(error),
    });
    atEnd(seen.unsubscribe);
    // The current suggestion may come twice: from the stream, and with its age.
    seen.blocks = () => seen.suggestions.map(({ block }) => block).filter((block, at, all) => block !== all[at - 1]);
    seen.prices = () => seen.suggestions.map(({ medium }) => Number(medium.maxFeePerGas));
    return seen;
}

const reaches = (seen, block) => until(() => seen.blocks().at(-1), (last) => last === block);

// A timeout that is no delay of a subscription.
const TIMEOUT_MS = 60_001;

// Makes the package's pauses of a second and more a hundred times shorter. Returns how long they were meant to be.
function hurry(t) {
    const { setTimeout: original } = globalThis;
    t.after(() => Object.assign(globalThis, { setTimeout: original }));
    const pauses = [];
    globalThis.setTimeout = (run, delay = 0, ...more) => {
        // Node.js has timers of its own.
        const isPause = delay >= 1000 && delay < 45_000 && /dist\/(shared-)?stream\.js/.test(new Error().stack);
        if (isPause) pauses.push(delay);
        return original(run, isPause ? delay / 100 : delay, ...more);
    };
    return pauses;
}

// The pauses before a reconnect. Those of requests are 1 s and 15 s.
const reconnectsOf = (pauses) => pauses.filter((delay) => delay !== 1000 && delay !== 15_000);

// A server whose streams a test writes to. `current` is the suggestion of its chain, whose key is `a`.
async function script({ id = 1 } = {}) {
    const rig = { streams: [], requests: 0, refreshes: 0, current: { block: 1, price: 1, age: 0, isStale: false }, status: 200 };
    rig.event = (block, price, chainId = id) =>
        `event: gas-suggestion\nid: ${chainId}-${block}-tag${price}\ndata: ${JSON.stringify(suggestion(price))}\n\n`;
    const server = await serve((request, response) => {
        const { block, price, age, isStale } = rig.current;
        if (request.url.endsWith("/v1/gas-suggestions/stream")) {
            rig.requests += 1;
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
        return response.end(JSON.stringify(market(price, id)));
    });
    rig.server = server;
    rig.gas = (chain = "a") => createGasClient({ url: server.url, chain, timeout: TIMEOUT_MS });
    rig.stream = async () => {
        await until(() => rig.streams.length);
        return rig.streams.at(-1);
    };
    return rig;
}

// Responds to a request that the script holds.
const respond = (response, { block = 1, price = 1, age = 0 }) =>
    response.writeHead(200, { "X-Newest-Block": block, "Age": age }).end(JSON.stringify(market(price)));

test("all subscriptions of a service share one stream, and each gets its chain", async () => {
    const rig = await script();
    rig.hold = [];
    const gas = rig.gas(7);
    const all = [rig.gas(7), gas, gas, rig.gas(8)].map(record);
    (await rig.stream()).write(rig.event(5, 70, 7) + rig.event(9, 80, 8));
    // The first value is the stream's own.
    await Promise.all(all.map((seen, at) => reaches(seen, at < 3 ? 5 : 9)));
    // A later subscription has it too.
    const late = record(rig.gas(8));
    await reaches(late, 9);
    assert.deepEqual([all[0].prices(), all[3].prices(), late.prices()], [[70], [80], [80]]);
    rig.streams[0].write(rig.event(6, 71, 7));
    await Promise.all(all.slice(0, 3).map((seen) => reaches(seen, 6)));
    assert.deepEqual([all[3].blocks(), rig.requests], [[9], 1]);
    for (const seen of [...all, late]) seen.unsubscribe();
    await once(rig.streams[0], "close");
});

test("the key of a chain gets its id once, and misses no event meanwhile", async () => {
    const rig = await script();
    rig.hold = [];
    const seen = record(rig.gas());
    const stream = await rig.stream();
    await until(() => rig.hold.length);
    const numeric = record(rig.gas(1));
    stream.write(rig.event(3, 3) + rig.event(9, 9, 5));
    await reaches(numeric, 3);
    assert.deepEqual(seen.blocks(), []);
    respond(rig.hold[0], { block: 2, price: 2 });
    await reaches(seen, 3);
    assert.deepEqual(seen.blocks(), [2, 3]);
    stream.write(rig.event(4, 4));
    await reaches(seen, 4);
    assert.deepEqual(seen.suggestions.at(-1), {
        chainName: "a", type: "eip-1559", baseFeePerGas: 0n, block: 4, age: 0, isStale: false,
        medium: { maxFeePerGas: 4n, maxPriorityFeePerGas: 1n }, high: { maxFeePerGas: 4n, maxPriorityFeePerGas: 1n },
    });
});

for (const [name, end] of [["LF", "\n"], ["CR LF", "\r\n"], ["CR", "\r"]]) {
    test(`events may be split at any byte, and lines end with ${name}`, async () => {
        const rig = await script();
        const seen = record(rig.gas(1));
        const stream = await rig.stream();
        await reaches(seen, 1);
        const text = `:\u2028\nnews: \u2028\n\n${rig.event(2, 2)}`.replace('"a"', '"Ξ\u2028"').replaceAll("\n", end);
        for (const byte of Buffer.from(text)) {
            stream.write(Buffer.from([byte]));
            await new Promise(setImmediate);
        }
        await reaches(seen, 2);
        assert.equal(seen.suggestions.at(-1).chainName, "Ξ\u2028");
        stream.write((rig.event(3, 3) + rig.event(4, 4)).replaceAll("\n", end));
        await reaches(seen, 4);
        assert.deepEqual([seen.blocks(), seen.errors], [[1, 2, 3, 4], []]);
    });
}

test("the first suggestion gets its real age, and an old one is requested again", async (t) => {
    hurry(t);
    const rig = await script();
    rig.current.age = 9;
    const seen = record(rig.gas(1));
    (await rig.stream()).write(rig.event(1, 1));
    await until(() => seen.suggestions.at(-1)?.age, (age) => age === 9);
    // After 15 s without a block.
    Object.assign(rig.current, { age: 24, isStale: true });
    await until(() => seen.suggestions.at(-1).isStale);
    const last = seen.suggestions.at(-1);
    assert.deepEqual([last.block, last.age], [1, 24]);
    rig.failure = "stale_data";
    const error = await until(() => seen.errors[0]);
    assert.deepEqual([error.code, error.status], ["stale_data", 503]);
});

test("a changed status refreshes the suggestion, and other events are ignored", async () => {
    const rig = await script();
    const seen = record(rig.gas());
    const stream = await rig.stream();
    stream.write(rig.event(1, 1));
    await reaches(seen, 1);
    const status = (name) => `event: status\ndata: {"chain":"a","status":"${name}","reason":"old_data","observed_at":null}\n\n`;
    stream.write(`event: news\ndata: {}\n\ndata: {"block":9}\n\n`);
    Object.assign(rig.current, { age: 5, isStale: true });
    stream.write(status("stale"));
    await until(() => seen.suggestions.at(-1).isStale);
    rig.failure = "stale_data";
    stream.write(status("unavailable"));
    const error = await until(() => seen.errors[0]);
    assert.equal(error.code, "stale_data");
    // A later subscription does not get what the stream said before.
    const late = record(rig.gas(1));
    await until(() => late.errors[0]);
    assert.deepEqual(late.suggestions, []);
    late.unsubscribe();
    rig.failure = undefined;
    stream.write(rig.event(2, 2));
    await reaches(seen, 2);
    assert.deepEqual([seen.blocks(), rig.requests], [[1, 2], 1]);
});

test("an event that overtakes the request for the age is not undone", async () => {
    const rig = await script();
    rig.hold = [];
    const seen = record(rig.gas(1));
    const stream = await rig.stream();
    await until(() => rig.hold.length);
    stream.write(rig.event(1, 1) + rig.event(2, 2));
    await reaches(seen, 2);
    const isRead = once(rig.hold[0], "close");
    respond(rig.hold[0], { block: 1, age: 3 });
    await isRead;
    stream.write(rig.event(3, 3));
    await reaches(seen, 3);
    assert.deepEqual([seen.prices(), rig.hold.length], [[1, 2, 3], 1]);
});

test("a flood of comments or of events causes a request a second, and no memory grows", async () => {
    const before = process.memoryUsage().rss;
    await Promise.all([":\n", "event: status\ndata: {}\n\n", ":\n\n"].map(async (line) => {
        const rig = await script();
        const seen = record(rig.gas());
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

test("a reconnect gets the current suggestion again", async (t) => {
    hurry(t);
    const rig = await script();
    const seen = record(rig.gas(1));
    (await rig.stream()).write(rig.event(1, 1));
    await reaches(seen, 1);
    rig.streams[0].end();
    await until(() => seen.errors.length);
    await until(() => rig.requests, (count) => count === 2);
    const count = seen.suggestions.length;
    rig.streams[1].write(rig.event(1, 1));
    // It ends the error.
    await until(() => seen.suggestions.length > count);
    assert.deepEqual(seen.errors.map(({ code, message }) => [code, message]), [["network_error", "the stream ended"]]);
});

test("attempts after failures are further and further apart", async (t) => {
    const pauses = hurry(t);
    const rig = await script();
    rig.retry = 1500;
    const seen = record(rig.gas());
    await rig.stream();
    await reaches(seen, 1);
    rig.status = 503;
    rig.streams[0].end();
    await until(() => seen.errors.length >= 8);
    assert.deepEqual([seen.errors[1].code, seen.errors[1].status], ["overloaded", 503]);
    const reconnects = reconnectsOf(pauses);
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
        const seen = record(rig.gas());
        (await rig.stream()).end();
        const begin = performance.now();
        await until(() => rig.requests > 1);
        const pause = performance.now() - begin;
        assert.ok(pause >= 950, `${pause} ms after retry: ${retry}`);
        seen.unsubscribe();
    }));
});

test("a server that ends each stream at once is asked less and less often", async (t) => {
    const pauses = hurry(t);
    const rig = await script();
    Object.assign(rig, { retry: 1, isShort: true });
    const seen = record(rig.gas());
    await until(() => seen.errors.length > 7);
    seen.unsubscribe();
    const reconnects = reconnectsOf(pauses);
    assert.ok(Math.max(...reconnects) > 20_000, reconnects.join());
});

test("a stream that lasted is followed by a short pause again", async (t) => {
    const { now } = Date;
    t.after(() => Object.assign(Date, { now }));
    const pauses = hurry(t);
    const rig = await script();
    rig.retry = 1500;
    rig.status = 503;
    const seen = record(rig.gas());
    await until(() => seen.errors.length > 4);
    rig.status = 200;
    const stream = await rig.stream();
    Date.now = () => now() + 11_000;
    pauses.length = 0;
    stream.end();
    await until(() => rig.streams.length > 1);
    assert.ok(pauses.includes(1500), pauses.join());
});

test("an event whose id is no chain, block and tag is an error", async () => {
    const ids = ["", "7", "1-7", "1-7-", "x-7-tag", "1-7-\u00e9", `1-7-${"x".repeat(2000)}`, `${"9".repeat(30)}-7-tag`];
    await Promise.all(ids.map(async (id) => {
        const rig = await script();
        const seen = record(rig.gas());
        (await rig.stream()).write(`event: gas-suggestion\nid: ${id}\ndata: ${JSON.stringify(suggestion(1))}\n\n`);
        const error = await until(() => seen.errors[0]);
        assert.equal(error.code, "invalid_response", id);
        seen.unsubscribe();
    }));
});

test("an event that is no suggestion is an error of its chain", async () => {
    const rig = await script();
    const [seen, other] = [record(rig.gas(1)), record(rig.gas(2))];
    const stream = await rig.stream();
    stream.write(rig.event(2, 2).replaceAll('"2"', '"0x2"') + rig.event(3, 3, 2));
    const error = await until(() => seen.errors[0]);
    assert.equal(error.code, "invalid_response");
    await reaches(other, 3);
    assert.ok(!seen.blocks().includes(2));
    stream.write(rig.event(4, 4));
    await reaches(seen, 4);
    assert.equal(rig.requests, 1);
});

test("fees of another chain are an error", async () => {
    const rig = await script({ id: 5 });
    const seen = record(rig.gas(1));
    (await rig.stream()).write(rig.event(2, 2));
    const { code, message } = await until(() => seen.errors[0]);
    assert.deepEqual([code, message], ["invalid_response", "the response is not a suggestion: Error: it is that of chain 5"]);
    assert.deepEqual(seen.suggestions, []);
});

test("a hidden page has no stream", async (t) => {
    globalThis.document = Object.assign(new EventTarget(), { visibilityState: "hidden" });
    t.after(() => delete globalThis.document);
    const rig = await script();
    const show = (state) => {
        document.visibilityState = state;
        document.dispatchEvent(new Event("visibilitychange"));
    };
    const seen = record(rig.gas());
    show("visible");
    const stream = await rig.stream();
    await reaches(seen, 1);
    const closed = once(stream, "close");
    show("hidden");
    await closed;
    rig.current.block = 2;
    show("visible");
    await reaches(seen, 2);
    assert.deepEqual([rig.requests, seen.errors], [2, []]);
    seen.unsubscribe();
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
    const unsubscribe = rig.gas(1).subscribe({
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
    assert.deepEqual([blocks, errors, rig.requests], [[1, 2], [], 1]);
    stream.end();
    await until(() => rig.requests, (count) => count === 2);
    rig.streams[1].write(rig.event(3, 3));
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

test("a line without end is given up", async () => {
    const before = process.memoryUsage().rss;
    const rig = await script();
    const seen = record(rig.gas());
    const stream = await rig.stream();
    stream.write("data: ");
    const line = "x".repeat(2 ** 16);
    const isOver = new Promise((resolve) => stream.once("close", () => resolve(true)));
    let size = 0;
    while (!stream.destroyed && size < 2 ** 28) {
        size += line.length;
        if (!stream.write(line)) await Promise.race([once(stream, "drain"), isOver]);
    }
    const error = await until(() => seen.errors[0]);
    assert.deepEqual([error.code, error.message], ["invalid_response", "an event is too long"]);
    const grown = (process.memoryUsage().rss - before) / 2 ** 20;
    assert.ok(grown < 50 && size < 2 ** 26, `${grown} MiB after ${size} bytes`);
});

test("a silent connection is replaced", async (t) => {
    const { setTimeout: original } = globalThis;
    t.after(() => Object.assign(globalThis, { setTimeout: original }));
    // The client waits 45 s for the comment that the service sends after 15 s.
    globalThis.setTimeout = (run, delay, ...more) => original(run, delay === 45_000 ? 200 : delay, ...more);
    const rig = await script();
    const seen = record(rig.gas());
    const error = await until(() => seen.errors[0], Boolean);
    assert.deepEqual([error.code, error.message], ["network_error", "the service is unreachable: the stream is silent"]);
    await until(() => rig.requests, (count) => count > 1);
});

test("unsubscribing closes the connection and silences the callbacks", async () => {
    const rig = await script();
    const seen = record(rig.gas());
    const stream = await rig.stream();
    await reaches(seen, 1);
    seen.unsubscribe();
    await once(stream, "close");
    assert.deepEqual([seen.suggestions.length, seen.errors], [1, []]);
});
