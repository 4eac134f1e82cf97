// Writes tests/fixtures/verification/build-info.json as Hardhat 2 would, from the contracts beside it and
// solc 0.8.28.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

import solc from "solc";

const folder = new URL("../fixtures/verification/", import.meta.url);
const names = readdirSync(new URL("contracts/", folder)).sort();
const sources = Object.fromEntries(names.map((name) => [
    `contracts/${name}`,
    { content: readFileSync(new URL(`contracts/${name}`, folder), "utf8") },
]));
const outputSelection = {
    "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object", "metadata"] },
};
const settings = { optimizer: { enabled: false, runs: 200 }, evmVersion: "paris", outputSelection };
const input = { language: "Solidity", sources, settings };
const output = JSON.parse(solc.compile(JSON.stringify(input)));
if (output.errors) throw new Error(JSON.stringify(output.errors));
const solcLongVersion = solc.version().replace(/\.Emscripten.*/, "");
const buildInfo = {
    id: createHash("md5").update(JSON.stringify(input)).digest("hex"),
    _format: "hh-sol-build-info-1",
    solcVersion: solcLongVersion.split("+")[0],
    solcLongVersion,
    input,
    output,
};
writeFileSync(new URL("build-info.json", folder), `${JSON.stringify(buildInfo, null, 2)}\n`);
