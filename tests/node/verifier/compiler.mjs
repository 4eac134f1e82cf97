// Compiles in a worker thread, so that the server stays responsive.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { Worker, isMainThread, parentPort } from "node:worker_threads";

import { Refusal } from "./refusal.mjs";

const VERSION = "0.8.28+commit.7893614a";

let worker;
const waiting = new Map();

// Compiles `input` (standard JSON) with the compiler `version` and returns the output of contract `name` in
// `path`.
export async function compile(version, input, { path, name }) {
    if (version.replace(/^v/, "") !== VERSION) {
        throw new Refusal(500, `Invalid compiler version ${version}.`, { code: "invalid_compiler_version" });
    }
    const outputSelection = { "*": { "*": ["abi", "metadata", "evm.bytecode", "evm.deployedBytecode"] } };
    const settings = { ...input.settings, outputSelection };
    const output = await runCompiler({ ...input, settings });
    const errors = (output.errors ?? []).filter((error) => error.severity === "error");
    if (errors.length > 0) {
        const message = `Compiler error. ${JSON.stringify(errors)}`;
        throw new Refusal(500, message, { code: "compiler_error" });
    }
    const contract = output.contracts?.[path]?.[name];
    if (!contract) {
        const code = "contract_not_found_in_compiler_output";
        throw new Refusal(500, "Contract not found in compiler output.", { code });
    }
    return contract;
}

function runCompiler(input) {
    if (!worker) {
        worker = new Worker(new URL(import.meta.url));
        worker.on("message", ({ id, output }) => {
            waiting.get(id)(JSON.parse(output));
            waiting.delete(id);
        });
        // The server must not continue without a compiler.
        worker.on("error", (error) => {
            throw error;
        });
    }
    return new Promise((resolve) => {
        const id = randomUUID();
        waiting.set(id, resolve);
        worker.postMessage({ id, input: JSON.stringify(input) });
    });
}

if (!isMainThread) {
    const require = createRequire(import.meta.url);
    const solc = require("solc/wrapper")(require("solc/soljson.js"));
    if (!solc.version().startsWith(VERSION)) throw new Error(`solc is ${solc.version()}`);
    parentPort.on("message", ({ id, input }) => {
        parentPort.postMessage({ id, output: solc.compile(input) });
    });
}
