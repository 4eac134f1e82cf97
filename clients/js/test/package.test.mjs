// The packed package: its size, its exports, its types, and that they agree with the service.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { binary, client, installed, repository } from "./rig.mjs";

const MAX_CORE_BYTES = 5 * 1024;
const here = fileURLToPath(installed);
const dist = join(here, "node_modules/gas-suggestion/dist");

const run = (command, arguments_, options) => execFileSync(command, arguments_, { encoding: "utf8", ...options });
const tool = (name) => join(client, "node_modules/.bin", name);

// Returns the size of a page's bundle with these members of the package: minified and compressed.
async function bundled(contents) {
    const options = { bundle: true, minify: true, format: "esm", target: "es2022", write: false, logLevel: "error" };
    const external = ["ethers", "react"];
    const { outputFiles: [{ contents: bytes }] } = await build({ stdin: { contents, resolveDir: here }, external, ...options });
    return gzipSync(bytes).length;
}

test("the core has at most 5 KB, minified and compressed", async () => {
    for (const name of ["", "/cost", "/viem", "/ethers", "/react"]) {
        console.log(`gas-suggestion${name}: ${await bundled(`export * from "gas-suggestion${name}"`)} bytes`);
    }
    const core = await bundled('export { createGasClient } from "gas-suggestion"');
    console.log(`createGasClient: ${core} bytes`);
    assert.ok(core <= MAX_CORE_BYTES && core > 1000, `${core} bytes`);
});

test("the package has its licence, its guide and no tests", () => {
    const names = readdirSync(join(dist, ".."));
    assert.deepEqual(names.sort(), ["LICENSE", "README.md", "dist", "package.json"]);
    const read = (path) => readFileSync(path, "utf8");
    assert.equal(read(join(dist, "../LICENSE")), read(join(repository, "LICENSE")));
    const { dependencies, version } = JSON.parse(read(join(dist, "../package.json")));
    assert.deepEqual([dependencies, version], [undefined, "0.2.0"]);
});

test("publint and attw find nothing", () => {
    const [tarball] = readdirSync(here).filter((name) => name.endsWith(".tgz"));
    run(tool("publint"), ["run", "--strict", join(here, tarball)]);
    run(tool("attw"), [join(here, tarball)]);
});

test("types agree with the OpenAPI document of the service", () => {
    const input = run(binary, ["openapi"]);
    const options = { input, cwd: client };
    const generated = run("node", ["scripts/schema.mjs", "--print"], options);
    const isSame = generated === readFileSync(join(client, "src/schema.ts"), "utf8");
    assert.ok(isSame, "src/schema.ts is out of date: gas-suggestion openapi | npm run schema");
});

test("require returns the same functions", () => {
    const require = createRequire(installed);
    assert.deepEqual(Object.keys(require("gas-suggestion")).sort(), [
        "GasSuggestionError", "createGasClient", "estimateCost", "formatCoin", "formatGwei", "formatUsd",
    ]);
    assert.equal(require("gas-suggestion").formatGwei(1n), "0.000000001");
    const functions = {
        cost: ["dataFee", "operatorFee"],
        ethers: ["gasSuggestionPlugin"],
        react: ["useCost", "useFees", "useMarket", "usePrice", "useSuggestion"],
        viem: ["gasFees", "userOperationFees"],
    };
    for (const [name, members] of Object.entries(functions)) {
        const module = require(`gas-suggestion/${name}`);
        assert.deepEqual(Object.keys(module).sort(), members);
        for (const member of members) assert.equal(typeof module[member], "function");
    }
});

test("strict TypeScript projects compile, and wrong uses do not", () => {
    for (const [name, copy] of [["types", "types.mts"], ["types", "types.cts"], ["types-viem", "types-viem.mts"]]) {
        cpSync(join(client, `test/${name}.ts`), join(here, copy));
    }
    const base = {
        strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true, target: "es2022", types: [],
        lib: ["es2022", "dom"],
    };
    const bundler = { ...base, module: "esnext", moduleResolution: "bundler" };
    const projects = {
        bundler: { compilerOptions: bundler, files: ["types.mts", "types-viem.mts"] },
        // TypeScript does not let CommonJS import viem.
        node16: { compilerOptions: { ...base, module: "node16" }, files: ["types.mts", "types.cts"] },
    };
    for (const [name, project] of Object.entries(projects)) {
        const path = join(here, `tsconfig.${name}.json`);
        writeFileSync(path, JSON.stringify(project));
        const result = (() => {
            try {
                return run(tool("tsc"), ["--project", path]);
            } catch ({ stdout }) {
                return stdout;
            }
        })();
        assert.equal(result, "", name);
    }
});
