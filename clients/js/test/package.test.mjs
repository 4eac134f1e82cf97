// The packed package: its size, its exports, its types, and that they agree with the service.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { binary, client, installed, readmeBlocks, repository } from "./rig.mjs";

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
    assert.deepEqual(names.sort(), ["LICENSE", "README.md", "cost", "dist", "ethers", "package.json", "react", "viem"]);
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

// Writes the TypeScript examples of the documentation to files, and returns their names.
function writeExamples() {
    const files = readmeBlocks().map(({ language, text }, index) => [`readme-${index}.${language}`, text]);
    const guide = readFileSync(join(repository, "docs/integrations.md"), "utf8");
    for (const [, text] of guide.matchAll(/^```ts\n(.*?)^```$/gms)) files.push([/^\/\/ (.*)$/m.exec(text)[1], text]);
    const wagmi = join(repository, "docs/examples/wagmi");
    for (const name of readdirSync(wagmi)) files.push([name, readFileSync(join(wagmi, name), "utf8")]);
    // Two examples have a file of this name, in folders of their own.
    for (const [index, [name, text]] of files.entries()) {
        const folder = join(here, index < files.length - 3 ? "examples" : "examples-wagmi");
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, name), text);
        files[index] = join(folder, name);
    }
    assert.ok(files.length > 15, files.join());
    // What the examples use of @types/node and @types/react-dom.
    const types = "declare const process: { env: Record<string, string | undefined> }\ndeclare module 'react-dom/client'\n";
    writeFileSync(join(here, "others.d.ts"), types);
    return [...files, "others.d.ts"];
}

test("strict TypeScript projects and all examples compile, and wrong uses do not", () => {
    for (const [name, copy] of [["types", "types.mts"], ["types", "types.cts"], ["types-viem", "types-viem.mts"], ["types", "types.ts"]]) {
        cpSync(join(client, `test/${name}.ts`), join(here, copy));
    }
    const base = { strict: true, noEmit: true, skipLibCheck: true, target: "es2022", types: [], lib: ["es2022", "dom"] };
    const node16 = { ...base, module: "node16", exactOptionalPropertyTypes: true };
    const bundler = { ...base, module: "esnext", moduleResolution: "bundler", jsx: "react-jsx" };
    const projects = {
        // TypeScript does not let CommonJS import viem.
        node16: { compilerOptions: node16, files: ["types.mts", "types.cts", "types-viem.mts"] },
        node10: { compilerOptions: { ...base, module: "commonjs", moduleResolution: "node10" }, files: ["types.ts"] },
        bundler: { compilerOptions: bundler, files: ["types.mts", "types-viem.mts", ...writeExamples()] },
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
