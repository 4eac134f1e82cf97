// Checks that the chosen files match, and finds their contracts. Has no access to the page or the network.

import { keccak_256 } from "./noble/sha3.js";

// Maximum number of ignored files that are listed by name.
const MAX_NAMES = 10;

/**
 * @typedef {{ name: string, bytes: Uint8Array }} ChosenFile
 *
 * @typedef {object} Contract
 * @property {string} path its source file, as named in the compiler input
 * @property {string} name
 * @property {string} file the JSON file that contains it
 * @property {object} [metadata] the compiler's metadata; absent for a build-info without compiler output
 * @property {Record<string, string>} [sources] the source files listed in the metadata
 * @property {object} [input] the compiler input; only for a build-info
 * @property {string} [compilerVersion] only for a build-info
 *
 * @typedef {object} Examination
 * @property {Contract[]} contracts the contracts whose files are complete and unchanged
 * @property {string[]} problems reasons why other contracts or files cannot be used
 * @property {string[]} notes remarks, such as unneeded files
 * @property {Map<ChosenFile, string>} kinds the kind of each used file
 */

/**
 * @param {ChosenFile[]} chosen
 * @returns {Examination}
 */
export function examine(chosen) {
    const found = { contracts: [], problems: [], notes: [], kinds: new Map() };
    const sources = [];
    const inputs = [];
    // Problems of all other files, by file name.
    const others = new Map();
    for (const file of chosen) {
        const { name } = file;
        const { text, hashes } = decodeFile(file);
        if (text === undefined) {
            others.set(name, `${name} is not UTF-8 text.`);
        } else if (isJson(name)) {
            inputs.push({ file, name, json: parse(text) });
        } else {
            sources.push({ file, name, text, hashes, isUsed: false, matches: false });
        }
    }
    for (const { file, name, json } of inputs) {
        const metadata = findMetadata(json);
        if (metadata) {
            found.kinds.set(file, "metadata");
            examineMetadata(found, name, metadata, sources);
        } else if (isObject(json?.input?.sources)) {
            found.kinds.set(file, "build-info");
            examineBuildInfo(found, name, json);
        } else {
            others.set(name, unusableReason(name, json));
        }
    }
    if (inputs.length === 0 && sources.length > 0) {
        found.problems.push("A JSON file is missing: add the compiler’s metadata or a build-info.");
    }
    for (const { file, isUsed } of sources) {
        if (isUsed) found.kinds.set(file, "source");
    }
    const unused = sources.filter(({ isUsed }) => !isUsed).map(({ name }) => name);
    const isDuplicate = (name) => sources.some((source) => source.matches && source.name === name);
    const kinds = new Set(found.kinds.values());
    addUnique(
        found.notes,
        ...unused
            .filter(isDuplicate)
            .map((name) => `Several files are named ${name}; the compiled one is used.`),
    );
    if (kinds.has("metadata")) {
        note(
            "Not listed in the metadata, so not needed",
            unused.filter((name) => !isDuplicate(name)),
        );
    } else if (kinds.has("build-info")) {
        note("Not needed, because a build-info contains its sources", unused);
    }
    // A compiler's folder holds other files too; they are a problem only if no contract was found.
    if (found.contracts.length > 0) note("Not needed", [...others.keys()]);
    else found.problems.push(...others.values());
    found.contracts.sort((one, other) => (qualifiedName(one) < qualifiedName(other) ? -1 : 1));
    return found;

    function note(reason, names) {
        const rest = names.length - MAX_NAMES;
        const shown = [...names.slice(0, MAX_NAMES), ...(rest > 0 ? [`${rest} more`] : [])];
        if (names.length > 0) found.notes.push(`${reason}: ${shown.join(", ")}.`);
    }
}

const decodedFiles = new WeakMap();

/**
 * Returns a file's text and, for a source, its variants of line endings by their hashes. The result is cached.
 */
function decodeFile(file) {
    if (!decodedFiles.has(file)) {
        const text = decode(file.bytes);
        const isSource = text !== undefined && !isJson(file.name);
        const texts = new Set(isSource ? [text, withLf(text), withCrlf(text)] : []);
        decodedFiles.set(file, {
            text,
            hashes: new Map([...texts].map((variant) => [keccak(variant), variant])),
        });
    }
    return decodedFiles.get(file);
}

/** Returns the fully qualified name of a contract, such as `contracts/Counter.sol:Counter`. */
export function qualifiedName({ path, name }) {
    return `${path}:${name}`;
}

/** Returns a sentence about the problem of an address, or `undefined` if the address is valid. */
export function addressProblem(address) {
    if (address === "") return "The address is missing.";
    if (!/^0x[0-9a-fA-F]{40}$/.test(address)) {
        return "An address is 0x followed by 40 hexadecimal digits.";
    }
    const digits = address.slice(2);
    const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
    // EIP-55: the case of the letters is a checksum.
    const hash = keccak(digits.toLowerCase());
    const checked = [...digits.toLowerCase()].map((digit, index) =>
        parseInt(hash[index + 2], 16) >= 8 ? digit.toUpperCase() : digit,
    );
    return isMixed && checked.join("") !== digits
        ? "The address has a typo: its checksum (the case of its letters) does not match."
        : undefined;
}

function examineMetadata(found, file, metadata, files) {
    const [[path, name] = []] = Object.entries(metadata.settings.compilationTarget);
    if (typeof name !== "string") {
        found.problems.push(`${file} does not name its contract.`);
        return;
    }
    // The sources are kept as entries, because a source may be named `__proto__`.
    const sources = [];
    const problems = [];
    const listedHashes = Object.values(metadata.sources).map(sourceHash);
    for (const [path, source] of Object.entries(metadata.sources)) {
        const expected = sourceHash(source);
        const content = typeof source?.content === "string" ? source.content : undefined;
        const match = files.find(({ hashes }) => hashes.has(expected));
        const namesakes = files.filter(
            ({ name, hashes }) =>
                basename(name) === basename(path) && !listedHashes.some((hash) => hashes.has(hash)),
        );
        if (content !== undefined && keccak(content) === expected) {
            sources.push([path, content]);
        } else if (match) {
            match.isUsed = match.matches = true;
            sources.push([path, match.hashes.get(expected)]);
            if (match.hashes.get(expected) !== match.text) {
                addUnique(
                    found.notes,
                    `${match.name} was compiled with other line endings, which are restored before sending.`,
                );
            }
        } else if (namesakes.length > 0) {
            for (const namesake of namesakes) {
                namesake.isUsed = true;
                problems.push(
                    `${namesake.name} differs from the compiled file: the metadata lists ${path} with other content.`,
                );
            }
        } else {
            problems.push(`${path} is missing: add this file.`);
        }
    }
    addUnique(found.problems, ...problems);
    if (problems.length === 0) {
        found.contracts.push({ path, name, file, metadata, sources: Object.fromEntries(sources) });
    }
}

function examineBuildInfo(found, file, { input, output, userSourceNameMap, ...build }) {
    const contents = new Map(
        Object.entries(input.sources).map(([path, source]) => [path, source?.content]),
    );
    const missing = [...contents]
        .filter(([, content]) => typeof content !== "string")
        .map(([path]) => path);
    if (missing.length > 0) {
        addUnique(
            found.problems,
            ...missing.map((path) => `${file} does not contain the source code of ${path}.`),
        );
        return;
    }
    const hashes = new Map([...contents].map(([path, content]) => [path, keccak(content)]));
    const compiled = isObject(output?.contracts)
        ? deployableContracts(output.contracts)
        : declaredContracts(
              contents,
              isObject(userSourceNameMap) ? Object.values(userSourceNameMap) : undefined,
          );
    if (compiled.length === 0) {
        found.problems.push(`${file} contains no deployable contract.`);
    }
    // Foundry adds members that the compiler does not accept, among them paths on the user's disk.
    const { language, sources, settings } = input;
    for (const { path, name, metadata } of compiled) {
        const named = Object.entries(metadata?.sources ?? {});
        const changed = named.filter(([path, source]) => hashes.get(path) !== sourceHash(source));
        const compilerVersion = [build.solcLongVersion, metadata?.compiler.version]
            .filter((version) => typeof version === "string")
            .map((version) => /^\d+\.\d+\.\d+\S*\+commit\.[0-9a-f]{8}/.exec(version)?.[0])
            .find((version) => version !== undefined);
        if (changed.length > 0) {
            addUnique(
                found.problems,
                ...changed.map(([path]) => `${path} in ${file} differs from the compiled code.`),
            );
        } else if (compilerVersion === undefined) {
            addUnique(found.problems, `${file} does not name its compiler version.`);
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

/** Returns the contracts of the compiler output that have bytecode. Interfaces and abstract contracts have none. */
function deployableContracts(contracts) {
    return Object.entries(contracts).flatMap(([path, inFile]) =>
        Object.entries(isObject(inFile) ? inFile : {})
            .filter(([, contract]) => contract?.evm?.bytecode?.object !== "")
            .map(([name, contract]) => ({
                path,
                name,
                metadata: findMetadata(parse(contract?.metadata)),
            })),
    );
}

/** Returns the contracts that the source code declares. Used for build-infos without compiler output. */
function declaredContracts(contents, paths = [...contents.keys()]) {
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

/** Returns the compiler's metadata, which may also be inside a Foundry artifact. */
function findMetadata(json) {
    const candidates = [json, parse(json?.rawMetadata), json?.metadata];
    return candidates.find(
        (json) =>
            isObject(json?.settings?.compilationTarget) &&
            isObject(json?.sources) &&
            isObject(json?.compiler),
    );
}

/** Returns a sentence that says why a JSON file is neither metadata nor a build-info. */
function unusableReason(name, json) {
    if (json === undefined) return `${name} is not JSON.`;
    if (json?._format === "hh-sol-artifact-1" || json?._format === "hh3-artifact-1") {
        return `${name} is an artifact without sources: choose a file from artifacts/build-info.`;
    }
    if (isObject(json?.output?.contracts)) {
        return `${name} contains only the compiler’s output: choose the build-info next to it.`;
    }
    if (isObject(json?.source_id_to_path)) {
        return `${name} contains no sources: run forge build --build-info and choose the file it writes.`;
    }
    if (isObject(json?.sources) && isObject(json?.settings)) {
        return `${name} is compiler input without a compiler version: choose the build-info.`;
    }
    return `${name} is neither Solidity compiler metadata nor a build-info.`;
}

/** Returns a source's hash in the metadata, in lower case. */
function sourceHash(source) {
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

/** Appends the texts that are not in the list yet. */
function addUnique(texts, ...more) {
    texts.push(...new Set(more.filter((text) => !texts.includes(text))));
}

/** Returns true if the file name ends in `.json`. */
export function isJson(name) {
    return /\.json$/i.test(name);
}

function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

function basename(path) {
    return path.split(/[/\\]/).at(-1);
}

function withLf(text) {
    return text.replaceAll("\r\n", "\n");
}

function withCrlf(text) {
    return withLf(text).replaceAll("\n", "\r\n");
}
