#!/usr/bin/env node
// npm's solc with the part of the command-line interface that Foundry uses:
// `solc.mjs --version` and `solc.mjs --standard-json` with the input on standard input.

import { readFileSync } from "node:fs";

import solc from "solc";

const [version] = solc.version().split(".Emscripten");
if (process.argv.includes("--version")) {
    console.log(`solc, the solidity compiler commandline interface\nVersion: ${version}.Linux.g++`);
} else if (process.argv.includes("--standard-json")) {
    process.stdout.write(solc.compile(readFileSync(0, "utf8")));
} else {
    console.error(`unknown arguments: ${process.argv.slice(2).join(" ")}`);
    process.exit(1);
}
