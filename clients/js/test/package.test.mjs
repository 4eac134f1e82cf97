// The packed package: its size, its exports, its types, and that they agree with the service.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { binary, client, installed, repository } from "./rig.mjs";

const MAX_CORE_BYTES = 4.1 * 1024;
const here = fileURLToPath(installed);
const dist = join(here, "node_modules/gas-suggestion/dist");

const run = (command, arguments_, options) => execFileSync(command, arguments_, { encoding: "utf8", ...options });
const tool = (name) => join(client, "node_modules/.bin", name);

// Returns the names of a module's files: its own and those that it imports.
function closure(name, found = new Set()) {
    if (found.has(name)) return found;
    found.add(name);
    const source = readFileSync(join(dist, name), "utf8");
    for (const [, next] of source.matchAll(/from '\.\/([^']+)'/g)) closure(next, found);
    return found;
}

test("the core has at most 4.1 KiB compressed", () => {
    for (const name of ["index", "viem", "ethers", "react"]) {
        const files = [...closure(`${name}.js`)].map((file) => readFileSync(join(dist, file)));
        const size = gzipSync(Buffer.concat(files)).length;
        const raw = files.reduce((sum, { length }) => sum + length, 0);
        console.log(`${name}: ${raw} bytes, ${size} compressed`);
        if (name === "index") assert.ok(size <= MAX_CORE_BYTES && size > 1000, `${size} bytes`);
    }
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
    const input = run(binary, ["openapi", "--generic"]);
    const options = { input, cwd: client };
    const generated = run("node", ["scripts/schema.mjs", "--print"], options);
    const isSame = generated === readFileSync(join(client, "src/schema.ts"), "utf8");
    assert.ok(isSame, "src/schema.ts is out of date: gas-suggestion openapi --generic | npm run schema");
});

test("require returns the same functions", () => {
    const require = createRequire(installed);
    assert.deepEqual(Object.keys(require("gas-suggestion")).sort(), [
        "GasSuggestionError", "createGasClient", "estimateCost", "formatGwei",
    ]);
    assert.equal(require("gas-suggestion").formatGwei(1n), "0.000000001");
    const functions = { viem: ["gasFees", "userOperationFees"], ethers: ["gasSuggestionPlugin"], react: ["useGasSuggestion"] };
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
