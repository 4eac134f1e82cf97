// Tests of src/extras/verification/verify/files.js: recognising and checking chosen files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { getAddress, id as keccak256 } from "ethers";

import { addressProblem, examine, qualifiedName } from "../../src/extras/verification/verify/files.js";

const fixture = new URL("../fixtures/verification/build-info.json", import.meta.url);
const buildInfo = () => JSON.parse(readFileSync(fixture, "utf8"));
const output = (name) => buildInfo().output.contracts[`contracts/${name}.sol`][name];
const metadata = (name) => JSON.parse(output(name).metadata);
const source = (name) => buildInfo().input.sources[`contracts/${name}.sol`].content;

const bytes = (text) => new TextEncoder().encode(text);
const file = (name, content) => ({
    name,
    bytes: content instanceof Uint8Array ? content
        : bytes(typeof content === "string" ? content : JSON.stringify(content)),
});
const METADATA = file("Counter_meta.json", output("Counter").metadata);
const SOURCE = file("Counter.sol", source("Counter"));

function found(...files) {
    const { contracts, problems, notes, kinds } = examine(files);
    return {
        contracts: contracts.map(qualifiedName),
        problems,
        notes,
        kinds: files.map((file) => kinds.get(file)),
    };
}

const COUNTER = "contracts/Counter.sol:Counter";
const SWITCH = "contracts/Switch.sol:Switch";
const nothing = { contracts: [], problems: [], notes: [], kinds: [] };

test("no files give no findings", () => {
    assert.deepEqual(found(), nothing);
});

test("metadata and sources match under any file name or folder", () => {
    for (const name of ["Counter.sol", "src/Counter.sol", "whatever"]) {
        const files = [METADATA, file(name, source("Counter"))];
        assert.deepEqual(found(...files), {
            ...nothing, contracts: [COUNTER], kinds: ["metadata", "source"],
        });
    }
    const [contract] = examine([METADATA, SOURCE]).contracts;
    assert.deepEqual(contract, {
        path: "contracts/Counter.sol",
        name: "Counter",
        file: "Counter_meta.json",
        metadata: metadata("Counter"),
        sources: { "contracts/Counter.sol": source("Counter") },
    });
});

test("metadata is read from a Foundry artifact, as text or object", () => {
    const artifact = { abi: [], metadata: metadata("Counter") };
    for (const content of [artifact, { ...artifact, rawMetadata: output("Counter").metadata }]) {
        const { contracts } = examine([file("Counter.json", content), SOURCE]);
        assert.deepEqual(contracts.map(qualifiedName), [COUNTER]);
        assert.deepEqual(contracts[0].metadata, metadata("Counter"));
    }
});

test("a Hardhat 2 build-info needs no other file", () => {
    const build = file("b.json", buildInfo());
    assert.deepEqual(found(build), { ...nothing, contracts: [COUNTER, SWITCH], kinds: ["build-info"] });
    const { language, sources, settings } = buildInfo().input;
    assert.deepEqual(examine([build]).contracts[1], {
        path: "contracts/Switch.sol",
        name: "Switch",
        file: "b.json",
        metadata: metadata("Switch"),
        sources: { "contracts/Switch.sol": source("Switch") },
        input: { language, sources, settings },
        compilerVersion: "0.8.28+commit.7893614a",
    });
});

test("a Hardhat 3 build-info lists the user's contracts without output", () => {
    const code = `
        // contract InAComment {}
        /* contract InAnother {} */
        import "contract InAString {}";
        interface I {}
        abstract contract Base {}
        library Maths {}
        contract Vault is Base { string s = 'contract "InOneToo" {}'; }`;
    const build = {
        _format: "hh3-sol-build-info-1",
        id: "solc-0_8_28-0",
        solcVersion: "0.8.28",
        solcLongVersion: "0.8.28+commit.7893614a",
        compilerType: "solc",
        userSourceNameMap: { "contracts/Vault.sol": "project/contracts/Vault.sol" },
        input: {
            language: "Solidity",
            settings: { evmVersion: "cancun" },
            sources: {
                "project/contracts/Vault.sol": { content: code },
                "npm/lib@1.0.0/Theirs.sol": { content: "contract Theirs {}" },
            },
        },
    };
    const paths = "project/contracts/Vault.sol";
    assert.deepEqual(found(file("b.json", build)).contracts, [`${paths}:Maths`, `${paths}:Vault`]);
    const [contract] = examine([file("b.json", build)]).contracts;
    assert.equal(contract.metadata, undefined);
    assert.deepEqual(contract.input, build.input);
    assert.equal(contract.compilerVersion, "0.8.28+commit.7893614a");

    const outputAlone = { _format: "hh3-sol-build-info-output-1", output: buildInfo().output };
    assert.deepEqual(found(file("b.output.json", outputAlone)).problems, [
        "b.output.json contains only the compiler’s output: choose the build-info next to it.",
    ]);
    const together = found(file("b.json", build), file("b.output.json", outputAlone));
    assert.deepEqual([together.problems, together.notes], [[], ["Not needed: b.output.json."]]);
});

// A build-info as `forge build --build-info` writes it.
function foundryBuildInfo() {
    const { input, output } = buildInfo();
    return {
        _format: "ethers-rs-sol-build-info-1",
        id: "1cd92e8c0c5859ab",
        source_id_to_path: { 0: "contracts/Counter.sol", 1: "contracts/Switch.sol" },
        language: "Solidity",
        input: {
            version: "0.8.28",
            ...input,
            allowPaths: ["/home/user/project"],
            basePath: "/home/user/project",
            includePaths: ["/home/user/project"],
        },
        output,
        solcLongVersion: "0.8.28",
        solcVersion: "0.8.28",
    };
}

test("only compiler input is sent from a Foundry build-info", () => {
    const { contracts } = examine([file("b.json", foundryBuildInfo())]);
    assert.deepEqual(contracts.map(qualifiedName), [COUNTER, SWITCH]);
    const { language, sources, settings } = buildInfo().input;
    assert.deepEqual(contracts[0].input, { language, sources, settings });
    assert(!JSON.stringify(contracts).includes("/home/user"));
    // Foundry's `solcLongVersion` lacks the commit; the metadata has it.
    assert.equal(contracts[0].compilerVersion, "0.8.28+commit.7893614a");
});

test("a Foundry build-info without sources is recognised", () => {
    const { id, source_id_to_path, language } = foundryBuildInfo();
    assert.deepEqual(found(file("b.json", { id, source_id_to_path, language })).problems, [
        "b.json contains no sources: run forge build --build-info and choose the file it writes.",
    ]);
});

test("a missing source is named", () => {
    assert.deepEqual(found(METADATA), {
        ...nothing,
        problems: ["contracts/Counter.sol is missing: add this file."],
        kinds: ["metadata"],
    });
});

test("a changed source is distinguished from a missing one", () => {
    const problem = (name) =>
        `${name} differs from the compiled file: the metadata lists contracts/Counter.sol with other content.`;
    const changed = file("Counter.sol", `${source("Counter")}\n`);
    assert.deepEqual(found(METADATA, changed), {
        ...nothing, problems: [problem("Counter.sol")], kinds: ["metadata", "source"],
    });
    const twice = found(METADATA, changed, file("old/Counter.sol", "contract Counter {}"));
    assert.deepEqual(twice.problems, [problem("Counter.sol"), problem("old/Counter.sol")]);
    assert.deepEqual(twice.notes, []);
});

test("of two files with one name, the compiled one is used", () => {
    const other = file("Counter.sol", "contract Counter {}");
    for (const files of [[METADATA, other, SOURCE], [METADATA, SOURCE, other]]) {
        const { contracts, problems, notes } = found(...files);
        assert.deepEqual([contracts, problems], [[COUNTER], []]);
        assert.deepEqual(notes, ["Several files are named Counter.sol; the compiled one is used."]);
    }
});

test("unneeded files are named, up to ten", () => {
    const other = file("Other.sol", "contract Other {}");
    assert.deepEqual(found(METADATA, SOURCE, other).notes, [
        "Not listed in the metadata, so not needed: Other.sol.",
    ]);
    assert.deepEqual(found(file("b.json", buildInfo()), other, SOURCE).notes, [
        "Not needed, because a build-info contains its sources: Other.sol, Counter.sol.",
    ]);
    const many = Array.from({ length: 12 }, (_, index) => file(`${index}.sol`, `// ${index}`));
    assert.deepEqual(found(METADATA, SOURCE, ...many).notes, [
        "Not listed in the metadata, so not needed: " +
            "0.sol, 1.sol, 2.sol, 3.sol, 4.sol, 5.sol, 6.sol, 7.sol, 8.sol, 9.sol, 2 more.",
    ]);
});

test("line endings changed by a checkout are restored", () => {
    const crlf = source("Counter").replaceAll("\n", "\r\n");
    const note = "Counter.sol was compiled with other line endings, which are restored before sending.";
    const { contracts, notes } = examine([METADATA, file("Counter.sol", crlf)]);
    assert.deepEqual(contracts[0].sources, { "contracts/Counter.sol": source("Counter") });
    assert.deepEqual(notes, [note]);

    const compiled = metadata("Counter");
    compiled.sources["contracts/Counter.sol"].keccak256 = keccak256(crlf);
    const restored = examine([file("m.json", compiled), SOURCE]);
    assert.deepEqual(restored.contracts[0].sources, { "contracts/Counter.sol": crlf });
    assert.deepEqual(restored.notes, [note]);
    const unchanged = examine([file("m.json", compiled), file("Counter.sol", crlf)]);
    assert.deepEqual([unchanged.contracts.length, unchanged.notes], [1, []]);
});

test("metadata with literal sources needs no files if the hashes match", () => {
    const literal = metadata("Counter");
    const embedded = literal.sources["contracts/Counter.sol"];
    embedded.content = source("Counter");
    assert.deepEqual(found(file("m.json", literal)).contracts, [COUNTER]);
    embedded.content += " ";
    assert.deepEqual(found(file("m.json", literal)).problems, [
        "contracts/Counter.sol is missing: add this file.",
    ]);
    assert.deepEqual(found(file("m.json", literal), SOURCE).contracts, [COUNTER]);
});

test("hashes match regardless of case", () => {
    const upperCase = metadata("Counter");
    const embedded = upperCase.sources["contracts/Counter.sol"];
    embedded.keccak256 = `0x${embedded.keccak256.slice(2).toUpperCase()}`;
    assert.deepEqual(found(file("m.json", upperCase), SOURCE).contracts, [COUNTER]);
});

test("several metadata files are matched independently", () => {
    const other = file("Switch_meta.json", output("Switch").metadata);
    const all = found(METADATA, other, SOURCE, file("Switch.sol", source("Switch")));
    assert.deepEqual([all.contracts, all.problems, all.notes], [[COUNTER, SWITCH], [], []]);
    const one = found(METADATA, other, SOURCE);
    assert.deepEqual(one.contracts, [COUNTER]);
    assert.deepEqual(one.problems, ["contracts/Switch.sol is missing: add this file."]);
    const again = found(METADATA, file("copy.json", output("Counter").metadata));
    assert.deepEqual(again.problems, ["contracts/Counter.sol is missing: add this file."]);
});

test("contracts of several build-infos are combined", () => {
    const builds = ["a.json", "b.json"].map((name) => file(name, buildInfo()));
    const { contracts } = examine(builds);
    assert.deepEqual(contracts.map((contract) => [qualifiedName(contract), contract.file]), [
        [COUNTER, "a.json"], [COUNTER, "b.json"], [SWITCH, "a.json"], [SWITCH, "b.json"],
    ]);
});

test("a build-info whose sources do not match its output is refused", () => {
    const build = buildInfo();
    build.input.sources["contracts/Switch.sol"].content += " ";
    const { contracts, problems } = found(file("b.json", build));
    assert.deepEqual(contracts, [COUNTER]);
    assert.deepEqual(problems, ["contracts/Switch.sol in b.json differs from the compiled code."]);
    build.input.sources["contracts/Switch.sol"] = { urls: ["contracts/Switch.sol"] };
    assert.deepEqual(found(file("b.json", build)).problems, [
        "b.json does not contain the source code of contracts/Switch.sol.",
    ]);
});

test("contracts without code cannot be chosen", () => {
    const build = buildInfo();
    build.output.contracts["contracts/Switch.sol"].Switch.evm.bytecode.object = "";
    assert.deepEqual(found(file("b.json", build)).contracts, [COUNTER]);
    build.output.contracts = {};
    assert.deepEqual(found(file("b.json", build)).problems, [
        "b.json contains no deployable contract.",
    ]);
});

test("a build-info without a compiler version gives one problem", () => {
    const { input } = buildInfo();
    assert.deepEqual(found(file("b.json", { input, solcLongVersion: "0.8.28" })).problems, [
        "b.json does not name its compiler version.",
    ]);
});

test("unusable JSON files are identified", () => {
    for (const [content, problem] of [
        ["", "is not JSON."],
        ["{", "is not JSON."],
        ["null", "is neither Solidity compiler metadata nor a build-info."],
        [{ abi: [] }, "is neither Solidity compiler metadata nor a build-info."],
        [{ _format: "hh-sol-artifact-1" },
            "is an artifact without sources: choose a file from artifacts/build-info."],
        [{ _format: "hh3-artifact-1" },
            "is an artifact without sources: choose a file from artifacts/build-info."],
        [buildInfo().input, "is compiler input without a compiler version: choose the build-info."],
        [{ ...metadata("Counter"), settings: { compilationTarget: {} } },
            "does not name its contract."],
    ]) {
        assert.deepEqual(found(file("x.json", content)).problems, [`x.json ${problem}`]);
    }
});

test("a byte order mark before JSON is ignored", () => {
    const marked = `\ufeff${output("Counter").metadata}`;
    assert.deepEqual(found(file("m.json", marked), SOURCE).contracts, [COUNTER]);
    // A byte order mark before a source is part of the hashed content.
    const [problem] = found(METADATA, file("Counter.sol", `\ufeff${source("Counter")}`)).problems;
    assert.match(problem, /differs from the compiled file/);
});

test("a non-UTF-8 file is a problem only if nothing else matches", () => {
    const binary = file("logo.png", Uint8Array.of(0x89, 0x50, 0xff, 0xfe));
    assert.deepEqual(found(binary).problems, ["logo.png is not UTF-8 text."]);
    const together = found(METADATA, SOURCE, binary, file("package.json", "{}"));
    assert.deepEqual([together.contracts, together.problems], [[COUNTER], []]);
    assert.deepEqual(together.notes, ["Not needed: logo.png, package.json."]);
});

test("sources alone lack a JSON file", () => {
    assert.deepEqual(found(SOURCE).problems, [
        "A JSON file is missing: add the compiler’s metadata or a build-info.",
    ]);
});

test("a source may be called __proto__", () => {
    const text = output("Counter").metadata.replaceAll("contracts/Counter.sol", "__proto__");
    const { contracts, problems } = examine([file("m.json", text), SOURCE]);
    assert.deepEqual([contracts.map(qualifiedName), problems], [["__proto__:Counter"], []]);
    assert.deepEqual(Object.entries(contracts[0].sources), [["__proto__", source("Counter")]]);
    const build = JSON.stringify(buildInfo()).replaceAll("contracts/Counter.sol", "__proto__");
    const fromBuild = examine([file("b.json", build)]);
    assert.deepEqual(fromBuild.contracts.map(qualifiedName), ["__proto__:Counter", SWITCH]);
    assert.deepEqual(Object.entries(fromBuild.contracts[0].sources), [["__proto__", source("Counter")]]);
});

// Returns all paths in `value` as lists of keys.
function jsonPaths(value, path = []) {
    const isNode = typeof value === "object" && value !== null;
    const below = isNode ? Object.keys(value).flatMap((key) => jsonPaths(value[key], [...path, key])) : [];
    return [path, ...below];
}

function withValue(document, path, value) {
    if (path.length === 0) return value;
    const copy = structuredClone(document);
    path.slice(0, -1).reduce((node, key) => node[key], copy)[path.at(-1)] = value;
    return copy;
}

const DEEP = JSON.parse(`${"[".repeat(20_000)}${"]".repeat(20_000)}`);
const HOSTILE = [
    null, true, 0, -1.5, "", "x", "__proto__", [], [null], {}, { "": null }, { a: [] }, DEEP,
    { toString: 1, valueOf: 1 }, { length: 1e9 }, { content: {}, keccak256: [] },
];

function assertSound(text) {
    const { contracts, problems, notes } = examine([file("x.json", bytes(text)), SOURCE]);
    for (const text of [...problems, ...notes]) assert.equal(typeof text, "string");
    for (const contract of contracts) {
        assert.equal(typeof contract.path, "string");
        assert.equal(typeof contract.name, "string");
        assert(contract.input || contract.metadata);
        if (contract.input) assert.match(contract.compilerVersion, /^\d+\.\d+\.\d+.*\+commit\./);
        for (const [path, content] of Object.entries(contract.sources)) {
            const { keccak256: hash } = contract.metadata.sources[path];
            assert.equal(keccak256(content), hash.toLowerCase());
        }
    }
}

// Returns documents of every kind, without the ABI, which would have most of the paths.
function documents() {
    const slim = metadata("Counter");
    slim.output = { abi: [] };
    const build = buildInfo();
    for (const [path, inFile] of Object.entries(build.output.contracts)) {
        for (const name of Object.keys(inFile)) {
            const { metadata, evm } = inFile[name];
            build.output.contracts[path][name] = { metadata, evm };
        }
    }
    build.input.settings = {};
    const { output: _, ...without } = build;
    const names = { userSourceNameMap: { a: "contracts/Counter.sol" } };
    return [slim, { rawMetadata: JSON.stringify(slim), metadata: slim }, build, { ...without, ...names }];
}

test("files are examined to the end with any value anywhere in the JSON", () => {
    for (const document of documents()) {
        for (const path of jsonPaths(document)) {
            for (const value of HOSTILE) {
                // JSON.stringify cannot serialise `DEEP`.
                const marker = "\u0000deep";
                const text = JSON.stringify(withValue(document, path, value === DEEP ? marker : value))
                    .replace(JSON.stringify(marker), `${"[".repeat(20_000)}${"]".repeat(20_000)}`);
                try {
                    assertSound(text);
                } catch (error) {
                    error.message += ` with ${text.slice(-40)} at ${path.join(" > ")}`;
                    throw error;
                }
            }
        }
    }
});

// Mulberry32: a seeded generator, so that runs are reproducible.
function randomNumbers(seed) {
    return (below) => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) % below;
    };
}

test("files are examined to the end with several changes or truncation", () => {
    for (let seed = 1; seed <= 2000; seed += 1) {
        const pick = randomNumbers(seed);
        let document = documents()[pick(4)];
        for (let change = 0; change < 1 + pick(4); change += 1) {
            const all = jsonPaths(document);
            const other = all[pick(all.length)].reduce((node, key) => node[key], document);
            const value = pick(2) === 0 ? other : HOSTILE.filter((value) => value !== DEEP)[pick(15)];
            document = withValue(document, all[pick(all.length)], value);
        }
        const text = JSON.stringify(document);
        try {
            assertSound(pick(4) === 0 ? text.slice(0, pick(text.length)) : text);
        } catch (error) {
            error.message += ` with seed ${seed}`;
            throw error;
        }
    }
});

test("addresses are checked by EIP-55", () => {
    const address = getAddress("0x5fbdb2315678afecb367f032d93f642f64180aa3");
    const digits = address.slice(2);
    for (const good of [
        address, `0x${digits.toLowerCase()}`, `0x${digits.toUpperCase()}`,
        // Examples of EIP-55.
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        `0x${"0".repeat(40)}`,
    ]) {
        assert.equal(addressProblem(good), undefined, good);
    }
    assert.equal(addressProblem(""), "The address is missing.");
    for (const bad of ["0x", digits, `${address}0`, address.slice(0, -1), `0x${"g".repeat(40)}`,
        `0X${digits}`, ` ${address}`, `${address}\n`]) {
        assert.equal(addressProblem(bad), "An address is 0x followed by 40 hexadecimal digits.", bad);
    }
    for (const index of [...digits].keys()) {
        const digit = digits[index];
        const swapped = digit === digit.toLowerCase() ? digit.toUpperCase() : digit.toLowerCase();
        if (swapped === digit) continue;
        assert.equal(
            addressProblem(`0x${digits.slice(0, index)}${swapped}${digits.slice(index + 1)}`),
            "The address has a typo: its checksum (the case of its letters) does not match.",
        );
    }
});
