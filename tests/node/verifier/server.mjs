// A mock Sourcify server with both versions of the API: `node server.mjs --chain 2020=http://127.0.0.1:8545`.
//
// Like a real server, it compiles the sources with solc 0.8.28 and compares the runtime code with the code at the
// address, and the creation code with the creating transaction. It stores results in memory only. It does not
// support immutables, libraries, sessions, `/verify/solc-json`, Vyper, Etherscan and other features that no client
// of the service uses.
//
// Unlike a real server, it responds with 418 to headers that a proxy must not forward, and lists them under
// `violations` in its record of the request.
//
// Options:
//   --chain ID=URL       a chain and its node; repeatable
//   --generation v1      an older server, without /v2; default `both`
//   --prefix /server     path below which all routes are
//   --job-ms N           minimum duration of a /v2 job in milliseconds; default 1000
//   --job-polls N        a /v2 job finishes after more than N polls; default 0
//
// Prints `Listening on 127.0.0.1:PORT`, and exits when stdin closes or on SIGTERM. `GET /__received` (not below the
// prefix) returns all requests so far.

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

// Headers that a proxy must not forward: hop-by-hop headers, headers that identify the client, and credentials.
const HOP_BY_HOP = ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
    "trailer", "upgrade", "http2-settings"];
const CLIENT_HEADERS = ["cookie", "origin", "forwarded", "x-real-ip"];
const SINGLE = ["host", "content-length", "content-type", "content-encoding", "authorization"];

function violations(request, path) {
    const { headersDistinct: headers, httpVersion } = request;
    const names = Object.keys(headers);
    const found = names.filter((name) => HOP_BY_HOP.includes(name) || CLIENT_HEADERS.includes(name) ||
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

// Returns the response that Express sends if no route matches.
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
    // The body is plain text, but Express labels every string as HTML.
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

// Returns the handler of a request, or `undefined`. Called before the body is read.
function route({ method, path }) {
    const verb = method === "HEAD" ? "GET" : method;
    if (verb === "GET" && Object.hasOwn(general, path)) return general[path];
    if (path.startsWith("/v2/")) {
        return options.generation === "v1" ? undefined : v2.route(verb, path, jobs, contracts);
    }
    return v1.route(verb, path, contracts);
}

async function respond(request, entry) {
    const [, path, query] = request.url.match(/^([^?]*)\??(.*)$/s);
    const below = path.startsWith(`${options.prefix}/`) ? path.slice(options.prefix.length) : undefined;
    entry.violations = violations(request, below);
    if (entry.violations.length > 0) {
        const error = `a proxy must not forward: ${entry.violations.join(", ")}`;
        return { status: 418, json: { error, message: error } };
    }
    const target = { method: request.method, path: below ?? path, query };
    const handler = below === undefined ? undefined : route(target);
    if (!handler) return notFound(target);
    const isV2 = target.path.startsWith("/v2/");
    let result;
    try {
        const body = request.method === "POST" ? await readBody(request) : undefined;
        result = await handler({ ...target, body });
    } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        result = isV2 ? v2.refused(error) : v1.refused(error);
    }
    if (!isV2 && !Object.hasOwn(general, target.path)) {
        const warning = "299 - \"This API is deprecated, use /v2 instead.\"";
        result.headers = { Deprecation: "true", Warning: warning, ...result.headers };
    }
    return result;
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
    // `body` is null until it is complete, `status` until the response is sent.
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
    let result;
    try {
        result = await respond(request, entry);
    } catch (error) {
        console.error(error);
        result = { status: 500, json: { error: error.message, message: error.message } };
    }
    entry.status = result.status;
    send(response, result);
    // Discard an unread rest of the body.
    request.unpipe();
    request.resume();
});
// Malformed HTTP is a violation too. A request that is cut off has been recorded before.
server.on("clientError", (error, socket) => {
    if (error.code?.startsWith("HPE_") && error.code !== "HPE_INVALID_EOF_STATE") {
        const violations = [error.code];
        received.push({ method: null, url: null, headers: {}, body: null, status: 418, violations });
        socket.end("HTTP/1.1 418 I'm a Teapot\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    } else {
        socket.destroy();
    }
});
// Clients pause between polls for longer than Node's default keep-alive of 5 s.
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`Listening on 127.0.0.1:${server.address().port}`));

process.on("SIGTERM", () => process.exit(0));
process.stdin.on("close", () => process.exit(0)).resume();
