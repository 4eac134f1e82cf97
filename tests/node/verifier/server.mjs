// A stand-in for a Sourcify server, both generations of its API, with which tests can run without one:
// `node server.mjs --chain 2020=http://127.0.0.1:8545`.
//
// It judges like a real one: it compiles what it is sent with solc 0.8.28 and holds the runtime code
// against the one at the address, and the creation code against the transaction that created it. It knows
// neither immutables nor libraries, and forgets everything when it ends. It leaves out sessions, `/verify/solc-json`, Vyper,
// Etherscan, and whatever else no client of the service uses.
//
// It is stricter where a real one would not mind but no proxy may send such a thing on: that it answers
// 418 and names it under `violations` in its record of the request.
//
// Options:
//   --chain ID=URL       a chain and its node; may be repeated
//   --generation v1      an older server, without /v2; `both` otherwise
//   --prefix /server     all routes are below this path
//   --job-ms N           how long a job of /v2 takes at least; 1000 otherwise
//   --job-polls N        a job is not done before it was asked for more than N times; 0 otherwise
//
// It writes `Listening on 127.0.0.1:PORT` once it listens, and ends when its input closes or on SIGTERM.
// `GET /__received`, not below the prefix, is the list of all requests so far.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { parseArgs } from "node:util";

import { readBody } from "./body.mjs";
import { Contracts } from "./contracts.mjs";
import { Refusal } from "./refusal.mjs";
import * as v1 from "./v1.mjs";
import * as v2 from "./v2.mjs";

const { values: options } = parseArgs({
    options: {
        chain: { type: "string", multiple: true },
        generation: { type: "string", default: "both" },
        prefix: { type: "string", default: "" },
        "job-ms": { type: "string", default: "1000" },
        "job-polls": { type: "string", default: "0" },
    },
});
if (!["v1", "both"].includes(options.generation)) throw new Error("--generation is v1 or both");
if (!/^(\/[^/]+)*$/.test(options.prefix)) throw new Error("--prefix is empty or starts with a slash");
const count = (name) => {
    const value = Number(options[name]);
    if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} is a number`);
    return value;
};
const chains = new Map((options.chain ?? []).map((chain) => {
    const [, id, url] = chain.match(/^([1-9]\d*)=(http:.+)$/) ?? [];
    if (!id) throw new Error(`--chain is ID=URL, not ${chain}`);
    return [id, url];
}));

const contracts = new Contracts(chains);
const jobs = new v2.Jobs(contracts, { atLeastMs: count("job-ms"), polls: count("job-polls") });
const received = [];

// What a proxy keeps to itself: what concerns one connection alone, what tells of the client, and what
// lets the server act for that client.
const HOP_BY_HOP = ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
    "trailer", "upgrade", "http2-settings"];
const OF_THE_CLIENT = ["cookie", "origin", "forwarded", "x-real-ip"];
const SINGLE = ["host", "content-length", "content-type", "content-encoding", "authorization"];

function violations(request, path) {
    const { headersDistinct: headers, httpVersion } = request;
    const names = Object.keys(headers);
    const found = names.filter((name) => HOP_BY_HOP.includes(name) || OF_THE_CLIENT.includes(name) ||
        name.startsWith("x-forwarded-"));
    found.push(...names.filter((name) => SINGLE.includes(name) && headers[name].length > 1));
    const connection = (headers.connection ?? []).join().toLowerCase();
    if (!["", "keep-alive", "close"].includes(connection)) found.push("connection");
    if (!["", "chunked"].includes((headers["transfer-encoding"] ?? []).join())) {
        found.push("transfer-encoding");
    }
    if (headers.authorization && path !== "/verify/create2") found.push("authorization");
    const { port } = server.address();
    const own = [`127.0.0.1:${port}`, `localhost:${port}`];
    if (!own.includes(headers.host?.join())) found.push("host");
    if (httpVersion !== "1.1") found.push("version");
    return found;
}

// As Express answers where there is no route.
function notFound({ method, path }) {
    const text = `Cannot ${method} ${path}`.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt()};`);
    const body = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
        `<title>Error</title>\n</head>\n<body>\n<pre>${text}</pre>\n</body>\n</html>\n`;
    const headers = {
        "Content-Security-Policy": "default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Content-Type": "text/html; charset=utf-8",
    };
    return { status: 404, headers, body };
}

const general = {
    // Text to people, HTML to programs: Express says so of any string.
    "/health": () => ({
        status: 200,
        headers: { "Content-Type": "text/html; charset=utf-8" },
        body: "Alive and kicking!",
    }),
    "/version": () => ({ status: 200, json: { version: "3.12.1", gitCommitHash: "0".repeat(40) } }),
    "/chains": () => ({
        status: 200,
        json: [...chains].map(([id, url]) => ({
            name: `Chain ${id}`,
            title: `Chain ${id}`,
            chainId: Number(id),
            rpc: [url],
            traceSupportedRPCs: [],
            supported: true,
            etherscanAPI: false,
        })),
    }),
};

// The handler of a request, which is asked before the body is read; `undefined` where there is none.
function route({ method, path }) {
    const asked = method === "HEAD" ? "GET" : method;
    if (asked === "GET" && Object.hasOwn(general, path)) return general[path];
    if (path.startsWith("/v2/")) {
        return options.generation === "v1" ? undefined : v2.route(asked, path, jobs, contracts);
    }
    return v1.route(asked, path, contracts);
}

async function answer(request, entry) {
    const [, path, query] = request.url.match(/^([^?]*)\??(.*)$/s);
    const below = path.startsWith(`${options.prefix}/`) ? path.slice(options.prefix.length) : undefined;
    entry.violations = violations(request, below);
    if (entry.violations.length > 0) {
        const error = `no proxy sends this on: ${entry.violations.join(", ")}`;
        return { status: 418, json: { error, message: error } };
    }
    const asked = { method: request.method, path: below ?? path, query };
    const handler = below === undefined ? undefined : route(asked);
    if (!handler) return notFound(asked);
    const isV2 = asked.path.startsWith("/v2/");
    let answered;
    try {
        const body = request.method === "POST" ? await readBody(request) : undefined;
        answered = await handler({ ...asked, body });
    } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        answered = isV2 ? v2.refused(error) : v1.refused(error);
    }
    if (!isV2 && !Object.hasOwn(general, asked.path)) {
        const warning = "299 - \"This API is deprecated, use /v2 instead.\"";
        answered.headers = { Deprecation: "true", Warning: warning, ...answered.headers };
    }
    return answered;
}

function send(response, { status, headers, json, body }) {
    const isJson = json !== undefined;
    const bytes = Buffer.from(isJson ? JSON.stringify(json) : body);
    response.writeHead(status, {
        "X-Powered-By": "Express",
        "Access-Control-Allow-Origin": "*",
        ...(isJson && { "Content-Type": "application/json; charset=utf-8" }),
        "Content-Length": bytes.length,
        ...headers,
    });
    response.end(bytes);
}

const server = createServer(async (request, response) => {
    if (request.url === "/__received") return send(response, { status: 200, json: received });
    const headers = Object.fromEntries(Object.entries(request.headersDistinct)
        .map(([name, values]) => [name, values.join(", ")]));
    // The body is null as long as it has not arrived whole, and for ever when its sender gave up. So is
    // the status until it is sent.
    const entry = {
        method: request.method, url: request.url, headers, body: null, status: null, violations: [],
    };
    received.push(entry);
    const hash = createHash("sha256");
    let length = 0;
    request.on("data", (chunk) => {
        hash.update(chunk);
        length += chunk.length;
    });
    request.on("end", () => (entry.body = { length, sha256: hash.digest("hex") }));
    request.on("error", () => {});
    let answered;
    try {
        answered = await answer(request, entry);
    } catch (error) {
        console.error(error);
        answered = { status: 500, json: { error: error.message, message: error.message } };
    }
    entry.status = answered.status;
    send(response, answered);
    // Whatever of the body nobody was interested in.
    request.unpipe();
    request.resume();
});
// What is no HTTP never becomes a request, and is one more thing that no proxy may send. One that ends in
// its middle is known already.
server.on("clientError", (error, socket) => {
    if (error.code?.startsWith("HPE_") && error.code !== "HPE_INVALID_EOF_STATE") {
        const violations = [error.code];
        received.push({ method: null, url: null, headers: {}, body: null, status: 418, violations });
        socket.end("HTTP/1.1 418 I'm a Teapot\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    } else {
        socket.destroy();
    }
});
// Pauses between the polls of a client are longer than the 5 s that node keeps a connection.
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`Listening on 127.0.0.1:${server.address().port}`));

process.on("SIGTERM", () => process.exit(0));
process.stdin.on("close", () => process.exit(0)).resume();
