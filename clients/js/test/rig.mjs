// What the tests share. The system test sets these variables: CLIENT is clients/js, BINARY is the service, and ANVIL
// is a node.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

import { transformSync } from "esbuild";

import { atEnd, serve, stopServers } from "./server.mjs";
export { atEnd, serve };

export const { CLIENT: client, BINARY: binary, ANVIL: anvilPath } = process.env;
export const repository = join(client, "../..");
/** The folder in which the package is installed. */
export const installed = new URL("..", import.meta.url);

const shared = (name) => import(pathToFileURL(join(repository, "tests/node", name)));
const services = await shared("services.mjs");
export const { Nodes, Proxy, Service } = services;
export const { launch, until } = await shared("browser.mjs");

/** A folder for the configurations of services. */
export const folder = mkdtempSync(join(tmpdir(), "gas-suggestion-client-"));

export async function stopAll() {
    await stopServers();
    await services.stopAll();
    rmSync(folder, { recursive: true, force: true });
}

/** Returns the TypeScript blocks of the README: their heading, language and text. */
export function readmeBlocks() {
    const sections = readFileSync(join(client, "README.md"), "utf8").split(/^## /m);
    const blocks = (section) => [...section.matchAll(/^```(tsx?)\n(.*?)^```$/gms)];
    return sections.flatMap((section) =>
        blocks(section).map(([, language, text]) => ({ heading: section.split("\n", 1)[0], language, text })));
}

/** Returns the only TypeScript block below this heading of the README, with these replacements, as JavaScript. */
export function readmeBlock(heading, replacements = {}) {
    const [block, ...others] = readmeBlocks().filter((one) => one.heading === heading);
    if (!block || others.length > 0) throw new Error(`${others.length} blocks too many below ${heading}`);
    let { text } = block;
    for (const [from, to] of Object.entries(replacements)) text = text.replaceAll(from, to);
    return transformSync(text, { loader: block.language, jsx: "automatic", target: "es2022" }).code;
}

/** Starts anvil with this chain id and these arguments. */
export async function startAnvil(chainId, ...more) {
    const arguments_ = ["--chain-id", chainId, "--port", 0, "--base-fee", 3_000_000_000, ...more].map(String);
    const child = spawn(anvilPath, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
    let url;
    for await (const line of createInterface({ input: child.stdout })) {
        url = /^Listening on (.*)$/.exec(line)?.[1];
        if (url) break;
    }
    child.stdout.resume();
    const ended = once(child, "exit");
    atEnd(async () => {
        child.kill();
        await ended;
    });
    url = `http://${url}`;
    return {
        url,
        async call(method, ...params) {
            const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
            const headers = { "content-type": "application/json" };
            const { error, result } = await (await fetch(url, { method: "POST", headers, body })).json();
            if (error) throw new Error(`${method}: ${error.message}`);
            return result;
        },
    };
}

/** Returns the section of a chain with short blocks. */
export function chainSection(key, id, url, more = "") {
    return `[chains.${key}]\nchain_id = ${id}\nrpc_urls = ["${url}"]\nblock_time = "250ms"\nstall_after = "0s"\n${more}\n`;
}

/** A URL at which nothing listens. */
export async function nowhere() {
    const server = await serve(() => {});
    server.stop();
    return server.url;
}
