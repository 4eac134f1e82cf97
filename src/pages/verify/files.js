// Whether chosen files fit together, and which contracts they are of. Knows neither page nor network.

import { keccak_256 } from "./noble/sha3.js";

// Number of ignored files that are listed by name.
const MAX_NAMES = 10;

/**
 * @typedef {{ name: string, bytes: Uint8Array }} Chosen
 *
 * @typedef {object} Contract
 * @property {string} path its source file, as the compiler knows it
 * @property {string} name
 * @property {string} file the JSON file that it is from
 * @property {object} [metadata] the compiler's; absent for a build-info without the compiler's output
 * @property {Record<string, string>} [sources] the source files that the metadata names
 * @property {object} [input] the compiler's, of a contract from a build-info
 * @property {string} [compilerVersion] the same contract's
 *
 * @typedef {object} Examination
 * @property {Contract[]} contracts those whose files are all there and unchanged
 * @property {string[]} problems what keeps others from that
 * @property {string[]} notes what is good to know, such as files that are not needed
 * @property {Map<Chosen, string>} kinds what each file is
 */

/**
 * @param {Chosen[]} chosen
 * @returns {Examination}
 */
export function examine(chosen) {
    const found = { contracts: [], problems: [], notes: [], kinds: new Map() };
    const sources = [];
    const inputs = [];
    // What is wrong with files that are neither, by their names.
    const others = new Map();
    for (const one of chosen) {
        const { name } = one;
        const { text, hashes } = reading(one);
        if (text === undefined) {
            others.set(name, `${name} is not text in UTF-8.`);
        } else if (isJson(name)) {
            inputs.push({ one, name, json: parse(text) });
        } else {
            sources.push({ one, name, text, hashes, isUsed: false, fits: false });
        }
    }
    for (const { one, name, json } of inputs) {
        const metadata = metadataOf(json);
        if (metadata) {
            found.kinds.set(one, "metadata");
            examineMetadata(found, name, metadata, sources);
        } else if (isObject(json?.input?.sources)) {
            found.kinds.set(one, "build-info");
            examineBuildInfo(found, name, json);
        } else {
            others.set(name, whatElse(name, json));
        }
    }
    if (inputs.length === 0 && sources.length > 0) {
        found.problems.push("A JSON file is missing: the compiler’s metadata or a build-info.");
    }
    for (const { one, isUsed } of sources) {
        if (isUsed) found.kinds.set(one, "source");
    }
    const unused = sources.filter(({ isUsed }) => !isUsed).map(({ name }) => name);
    const isTwin = (name) => sources.some((source) => source.fits && source.name === name);
    const kinds = new Set(found.kinds.values());
    add(
        found.notes,
        ...unused
            .filter(isTwin)
            .map((name) => `There are two files ${name}; the one that was compiled is used.`),
    );
    if (kinds.has("metadata")) {
        note(
            "Not named by the metadata, so not needed",
            unused.filter((name) => !isTwin(name)),
        );
    } else if (kinds.has("build-info")) {
        note("Not needed, since a build-info has its sources in it", unused);
    }
    // Beside what fits, as in a folder of a compiler's, other files do not matter.
    if (found.contracts.length > 0) note("Not needed", [...others.keys()]);
    else found.problems.push(...others.values());
    found.contracts.sort((one, other) => (label(one) < label(other) ? -1 : 1));
    return found;

    function note(why, names) {
        const rest = names.length - MAX_NAMES;
        const shown = [...names.slice(0, MAX_NAMES), ...(rest > 0 ? [`${rest} more`] : [])];
        if (names.length > 0) found.notes.push(`${why}: ${shown.join(", ")}.`);
    }
}

const readings = new WeakMap();

/** A file's text and, unless it is JSON, that by the hashes of all its line endings; made once. */
function reading(one) {
    if (!readings.has(one)) {
        const text = decode(one.bytes);
        const isSource = text !== undefined && !isJson(one.name);
        const texts = new Set(isSource ? [text, unix(text), dos(text)] : []);
        readings.set(one, {
            text,
            hashes: new Map([...texts].map((variant) => [keccak(variant), variant])),
        });
    }
    return readings.get(one);
}

/** How a contract is written everywhere: `contracts/Counter.sol:Counter`. */
export function label({ path, name }) {
    return `${path}:${name}`;
}

/** Returns what is wrong with an address, in words; nothing if it is valid. */
export function addressProblem(address) {
    if (address === "") return "The address is missing.";
    if (!/^0x[0-9a-fA-F]{40}$/.test(address)) {
        return "An address is 0x and 40 hexadecimal digits.";
    }
    const digits = address.slice(2);
    const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
    // EIP-55: the case of the letters is a checksum.
    const hash = keccak(digits.toLowerCase());
    const checked = [...digits.toLowerCase()].map((digit, index) =>
        parseInt(hash[index + 2], 16) >= 8 ? digit.toUpperCase() : digit,
    );
    return isMixed && checked.join("") !== digits
        ? "There is a typo in the address: its upper and lower case letters do not fit its digits."
        : undefined;
}

function examineMetadata(found, file, metadata, files) {
    const [[path, name] = []] = Object.entries(metadata.settings.compilationTarget);
    if (typeof name !== "string") {
        found.problems.push(`${file} does not say which contract it is of.`);
        return;
    }
    // Entries, since one may be called `__proto__`.
    const sources = [];
    const problems = [];
    const wanted = Object.values(metadata.sources).map(hashIn);
    for (const [path, source] of Object.entries(metadata.sources)) {
        const expected = hashIn(source);
        const content = typeof source?.content === "string" ? source.content : undefined;
        const match = files.find(({ hashes }) => hashes.has(expected));
        const namesakes = files.filter(
            ({ name, hashes }) =>
                basename(name) === basename(path) && !wanted.some((hash) => hashes.has(hash)),
        );
        if (content !== undefined && keccak(content) === expected) {
            sources.push([path, content]);
        } else if (match) {
            match.isUsed = match.fits = true;
            sources.push([path, match.hashes.get(expected)]);
            if (match.hashes.get(expected) !== match.text) {
                add(
                    found.notes,
                    `${match.name} was compiled with other line endings; it is sent with those.`,
                );
            }
        } else if (namesakes.length > 0) {
            for (const namesake of namesakes) {
                namesake.isUsed = true;
                problems.push(
                    `${namesake.name} is not the file that was compiled: the metadata names a ${path} with other content.`,
                );
            }
        } else {
            problems.push(`${path} is missing: add this file.`);
        }
    }
    add(found.problems, ...problems);
    if (problems.length === 0) {
        found.contracts.push({ path, name, file, metadata, sources: Object.fromEntries(sources) });
    }
}

function examineBuildInfo(found, file, { input, output, userSourceNameMap, ...build }) {
    const contents = new Map(
        Object.entries(input.sources).map(([path, source]) => [path, source?.content]),
    );
    const without = [...contents]
        .filter(([, content]) => typeof content !== "string")
        .map(([path]) => path);
    if (without.length > 0) {
        add(
            found.problems,
            ...without.map((path) => `${file} does not have the source code of ${path}.`),
        );
        return;
    }
    const hashes = new Map([...contents].map(([path, content]) => [path, keccak(content)]));
    const compiled = isObject(output?.contracts)
        ? contractsIn(output.contracts)
        : declaredIn(
              contents,
              isObject(userSourceNameMap) ? Object.values(userSourceNameMap) : undefined,
          );
    if (compiled.length === 0) {
        found.problems.push(`${file} has no contract in it that could be deployed.`);
    }
    // Foundry keeps more in it than the compiler takes, among that where the project lies on the disk.
    const { language, sources, settings } = input;
    for (const { path, name, metadata } of compiled) {
        const named = Object.entries(metadata?.sources ?? {});
        const changed = named.filter(([path, source]) => hashes.get(path) !== hashIn(source));
        const compilerVersion = [build.solcLongVersion, metadata?.compiler.version]
            .filter((version) => typeof version === "string")
            .map((version) => /^\d+\.\d+\.\d+\S*\+commit\.[0-9a-f]{8}/.exec(version)?.[0])
            .find((version) => version !== undefined);
        if (changed.length > 0) {
            add(
                found.problems,
                ...changed.map(([path]) => `${path} in ${file} is not the code that was compiled.`),
            );
        } else if (compilerVersion === undefined) {
            add(found.problems, `${file} does not say which compiler made it.`);
        } else {
            found.contracts.push({
                path,
                name,
                file,
                metadata,
                sources: Object.fromEntries(named.map(([path]) => [path, contents.get(path)])),
                input: { language, sources, settings },
                compilerVersion,
            });
        }
    }
}

/** The contracts in the compiler's output that have code of their own to deploy. */
function contractsIn(contracts) {
    return Object.entries(contracts).flatMap(([path, inFile]) =>
        Object.entries(isObject(inFile) ? inFile : {})
            .filter(([, contract]) => contract?.evm?.bytecode?.object !== "")
            .map(([name, contract]) => ({
                path,
                name,
                metadata: metadataOf(parse(contract?.metadata)),
            })),
    );
}

/** Returns the contracts that source code declares, for build-infos without the compiler's output. */
function declaredIn(contents, paths = [...contents.keys()]) {
    return paths.flatMap((path) => {
        const code = (contents.get(path) ?? "").replace(
            /\/\/.*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g,
            " ",
        );
        const declared = code.matchAll(
            /\b(abstract\s+)?(?:contract|library)\s+([A-Za-z_$][\w$]*)/g,
        );
        return [...declared]
            .filter(([, isAbstract]) => !isAbstract)
            .map(([, , name]) => ({ path, name }));
    });
}

/** The compiler's metadata, which Foundry's artifacts have in them. */
function metadataOf(json) {
    const candidates = [json, parse(json?.rawMetadata), json?.metadata];
    return candidates.find(
        (json) =>
            isObject(json?.settings?.compilationTarget) &&
            isObject(json?.sources) &&
            isObject(json?.compiler),
    );
}

function whatElse(name, json) {
    if (json === undefined) return `${name} is not JSON.`;
    if (json?._format === "hh-sol-artifact-1" || json?._format === "hh3-artifact-1") {
        return `${name} is an artifact, which has no sources: choose a file of artifacts/build-info.`;
    }
    if (isObject(json?.output?.contracts)) {
        return `${name} is the compiler’s output alone: choose the build-info beside it.`;
    }
    if (isObject(json?.source_id_to_path)) {
        return `${name} has no sources in it: run forge build --build-info and choose the file that it writes.`;
    }
    if (isObject(json?.sources) && isObject(json?.settings)) {
        return `${name} is the compiler’s input without its version: choose the build-info.`;
    }
    return `${name} is neither metadata of the Solidity compiler nor a build-info.`;
}

/** The hash that metadata has of a source. */
function hashIn(source) {
    return typeof source?.keccak256 === "string" ? source.keccak256.toLowerCase() : undefined;
}

function keccak(text) {
    const hash = keccak_256(new TextEncoder().encode(text));
    return `0x${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function decode(bytes) {
    try {
        return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
        return undefined;
    }
}

function parse(text) {
    try {
        return JSON.parse(text.replace(/^\ufeff/, ""));
    } catch {
        return undefined;
    }
}

/** Adds texts to those that are there already, each once. */
function add(texts, ...more) {
    texts.push(...new Set(more.filter((text) => !texts.includes(text))));
}

/** Returns true if a file's name says that it is JSON. */
export function isJson(name) {
    return /\.json$/i.test(name);
}

function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function basename(path) {
    return path.split(/[/\\]/).at(-1);
}

function unix(text) {
    return text.replaceAll("\r\n", "\n");
}

function dos(text) {
    return unix(text).replaceAll("\n", "\r\n");
}
