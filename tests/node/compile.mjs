// `node compile.mjs FILE` compiles a Solidity file without imports, and prints each contract as
// `{"Name": {"abi": […], "creation": "0x…", "runtime": "0x…"}}`.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

import solc from "solc";

// Returns the contracts in the file by name. Compiler warnings count as errors.
export function compile(file) {
    const source = basename(file);
    const settings = {
        // Code for this version also runs on chains without the newest hardforks.
        evmVersion: "paris",
        outputSelection: {
            "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] },
        },
    };
    const sources = { [source]: { content: readFileSync(file, "utf8") } };
    const input = { language: "Solidity", sources, settings };
    const { errors, contracts } = JSON.parse(solc.compile(JSON.stringify(input)));
    if (errors) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
    const compiled = Object.entries(contracts[source]).map(([name, { abi, evm }]) => [
        name,
        {
            abi,
            creation: `0x${evm.bytecode.object}`,
            runtime: `0x${evm.deployedBytecode.object}`,
        },
    ]);
    return Object.fromEntries(compiled);
}

if (argv[1] === fileURLToPath(import.meta.url)) {
    try {
        console.log(JSON.stringify(compile(argv[2])));
    } catch (error) {
        console.error(error.message);
        process.exitCode = 1;
    }
}
