// Reads a request's body as a server with body-parser, express-fileupload and a check of the media type does.

import { Writable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";

import busboy from "busboy";

import { Refusal } from "./refusal.mjs";

const MAX_BYTES = 30 * 1024 * 1024;

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress };

const tooLarge = () => new Refusal(413, "request entity too large");

// Returns a JSON body as `{ json }`, a form as `{ fields, files }` with files as `{ name, content }`.
export async function readBody(request) {
    const type = request.headers["content-type"] ?? "undefined";
    const [media] = type.toLowerCase().split(";");
    if (media.trim() === "application/json") return { json: await readJson(request, type) };
    if (media.trim() === "multipart/form-data") return readForm(request);
    const message = `unsupported media type ${type}`;
    throw new Refusal(415, message, { code: "invalid_parameter", errors: [{ path: request.url, message }] });
}

async function readJson(request, type) {
    const [, charset] = type.match(/charset="?([^";\s]+)/i) ?? [];
    if (charset && !/^utf-?8$/i.test(charset)) {
        throw new Refusal(415, `unsupported charset "${charset.toUpperCase()}"`);
    }
    const encoding = (request.headers["content-encoding"] ?? "identity").toLowerCase();
    if (encoding !== "identity" && !Object.hasOwn(DECODERS, encoding)) {
        throw new Refusal(415, `unsupported content encoding "${encoding}"`);
    }
    const isPlain = encoding === "identity";
    if (isPlain && Number(request.headers["content-length"]) > MAX_BYTES) throw tooLarge();
    const chunks = [];
    let length = 0;
    const collected = new Writable({
        write(chunk, _, done) {
            length += chunk.length;
            chunks.push(chunk);
            done(length > MAX_BYTES ? tooLarge() : null);
        },
    });
    await piped(request, isPlain ? [collected] : [DECODERS[encoding](), collected]);
    const text = Buffer.concat(chunks).toString();
    try {
        const json = JSON.parse(text);
        if (typeof json === "object" && json !== null) return json;
    } catch (error) {
        throw new Refusal(400, error.message, { code: "invalid_json" });
    }
    throw new Refusal(400, `Unexpected token in JSON: ${text.slice(0, 20)}`, { code: "invalid_json" });
}

// Pipes `request` through `stages`. A failing stage does not destroy the request's stream, because the server still has
// to read the rest of the body.
function piped(request, stages) {
    return new Promise((resolve, reject) => {
        const fail = (error) => {
            request.unpipe(stages[0]);
            reject(error instanceof Refusal ? error : new Refusal(400, error.message));
        };
        for (const stage of stages) stage.once("error", fail);
        stages.at(-1).once("finish", resolve);
        request.once("close", () => request.complete || fail(new Refusal(400, "request aborted")));
        stages.reduce((from, to) => from.pipe(to), request);
    });
}

function readForm(request) {
    return new Promise((resolve, reject) => {
        let form;
        try {
            form = busboy({ headers: request.headers, limits: { fileSize: MAX_BYTES } });
        } catch (error) {
            return reject(new Refusal(400, error.message));
        }
        const fields = {};
        const files = [];
        const fail = (refusal) => {
            request.unpipe(form);
            reject(refusal);
        };
        form.on("field", (name, value) => (fields[name] = value));
        form.on("file", (field, stream, { filename }) => {
            const chunks = [];
            stream.on("data", (chunk) => chunks.push(chunk));
            // The server closes the connection at once if a file is too large.
            stream.on("limit", () => fail(new Refusal(413, "File size limit has been reached", {
                response: {
                    status: 413,
                    headers: { Connection: "close", "Content-Type": "text/plain" },
                    body: "File size limit has been reached",
                },
            })));
            stream.on("end", () => {
                const content = Buffer.concat(chunks).toString();
                if (field === "files") files.push({ name: filename, content });
            });
        });
        form.on("error", (error) => fail(new Refusal(400, error.message)));
        form.on("close", () => resolve({ fields, files }));
        request.once("close", () => request.complete || fail(new Refusal(400, "request aborted")));
        request.pipe(form);
    });
}
