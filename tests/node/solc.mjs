#!/usr/bin/env node
// The compiler of npm as the program that Foundry takes for solc, as far as Foundry uses it:
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
