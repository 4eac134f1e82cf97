// Whether chosen files fit together, and which contracts they are of. Knows neither page nor network.

import { keccak_256 } from "./noble/sha3.js";

/**
 * @typedef {{ name: string, bytes: Uint8Array }} Chosen
 *
 * @typedef {object} Contract
 * @property {string} path its source file, as the compiler knows it
 * @property {string} name
 * @property {string} file the JSON file that it is from
 * @property {string} fileText
 * @property {object} [metadata] of a contract from metadata
 * @property {Record<string, string>} [sources] the same contract's source files
 * @property {object} [input] the compiler's input, of a contract from a build-info
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
    for (const one of chosen) {
        const { name } = one;
        const text = decode(one.bytes);
        if (text === undefined) {
            found.problems.push(`${name} is not text in UTF-8.`);
        } else if (/\.json$/i.test(name)) {
            inputs.push({ one, name, text });
        } else {
            const hashes = new Map(
                [text, unix(text), dos(text)].map((text) => [keccak(text), text]).reverse(),
            );
            sources.push({ one, name, text, hashes, isUsed: false });
        }
    }
    let hasMetadata = false;
    for (const { one, name, text } of inputs) {
        const json = parse(text);
        const metadata = metadataOf(json);
        if (metadata) {
            hasMetadata = true;
            found.kinds.set(one, "metadata");
            examineMetadata(
                found,
                { name, text: metadata === json ? text : JSON.stringify(metadata) },
                metadata,
                sources,
            );
        } else if (isObject(json?.input?.sources)) {
            found.kinds.set(one, "build-info");
            examineBuildInfo(found, { name, text }, json);
        } else {
            found.problems.push(whatElse(name, json));
        }
    }
    for (const { one, name, isUsed } of sources) {
        if (isUsed) {
            found.kinds.set(one, "source");
        } else if (sources.some((other) => other.name === name && other.isUsed)) {
            found.notes.push(`There are two files ${name}; the one that was compiled is used.`);
        } else if (hasMetadata) {
            found.notes.push(`${name} is not needed: no metadata names it.`);
        } else if (found.kinds.size > 0) {
            found.notes.push(`${name} is not needed: a build-info has its sources in it.`);
        }
    }
    if (inputs.length === 0 && sources.length > 0) {
        found.problems.push("A JSON file is missing: the compiler’s metadata or a build-info.");
    }
    found.contracts.sort((one, other) => (label(one) < label(other) ? -1 : 1));
    return found;
}

/** How a contract is written everywhere: `contracts/Counter.sol:Counter`. */
export function label({ path, name }) {
    return `${path}:${name}`;
}

/** What is wrong with an address, in words; nothing when it can be one. */
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
        found.problems.push(`${file.name} does not say which contract it is of.`);
        return;
    }
    const sources = {};
    const problems = [];
    const wanted = Object.values(metadata.sources).map(hashIn);
    for (const [path, source] of Object.entries(metadata.sources)) {
        const expected = hashIn(source);
        const content = typeof source?.content === "string" ? source.content : undefined;
        const match = files.find(({ hashes }) => hashes.has(expected));
        const namesake = files.find(
            ({ name, hashes }) =>
                basename(name) === basename(path) && !wanted.some((hash) => hashes.has(hash)),
        );
        if (content !== undefined && keccak(content) === expected) {
            sources[path] = content;
        } else if (match) {
            match.isUsed = true;
            sources[path] = match.hashes.get(expected);
            if (sources[path] !== match.text) {
                found.notes.push(
                    `${match.name} was compiled with other line endings; it is sent with those.`,
                );
            }
        } else if (namesake) {
            namesake.isUsed = true;
            problems.push(
                `${namesake.name} is not the file that was compiled: the metadata names a ${path} with other content.`,
            );
        } else {
            problems.push(`${path} is missing: add this file.`);
        }
    }
    // One of several metadata files may name the same sources.
    const isNew = (problem) => !found.problems.includes(problem);
    found.problems.push(...problems.filter(isNew));
    if (problems.length === 0) {
        found.contracts.push({
            path,
            name,
            file: file.name,
            fileText: file.text,
            metadata,
            sources,
        });
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
        found.problems.push(
            ...without.map((path) => `${file.name} does not have the source code of ${path}.`),
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
        found.problems.push(`${file.name} has no contract in it that could be deployed.`);
    }
    for (const { path, name, metadata } of compiled) {
        const changed = Object.entries(metadata?.sources ?? {}).filter(
            ([path, source]) => hashes.has(path) && hashes.get(path) !== hashIn(source),
        );
        const compilerVersion = [build.solcLongVersion, metadata?.compiler?.version]
            .map((version) => /^\d+\.\d+\.\d+\S*\+commit\.[0-9a-f]{8}/.exec(version)?.[0])
            .find((version) => version !== undefined);
        if (changed.length > 0) {
            const texts = changed.map(
                ([path]) => `${path} in ${file.name} is not the code that was compiled.`,
            );
            found.problems.push(...texts.filter((text) => !found.problems.includes(text)));
        } else if (compilerVersion === undefined) {
            const text = `${file.name} does not say which compiler made it.`;
            if (!found.problems.includes(text)) found.problems.push(text);
        } else {
            found.contracts.push({
                path,
                name,
                file: file.name,
                fileText: file.text,
                input,
                compilerVersion,
            });
        }
    }
}

/** The contracts in the compiler's output that have code of their own to deploy. */
function contractsIn(contracts) {
    return Object.entries(contracts).flatMap(([path, inFile]) =>
        Object.entries(inFile ?? {})
            .filter(([, contract]) => contract?.evm?.bytecode?.object !== "")
            .map(([name, contract]) => ({
                path,
                name,
                metadata: metadataOf(parse(contract?.metadata)),
            })),
    );
}

/** What source code declares, for build-infos without the compiler's output. */
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
    if (isObject(json?.sources) && isObject(json?.settings)) {
        return `${name} is the compiler’s input without its version: choose the build-info.`;
    }
    return `${name} is neither metadata of the Solidity compiler nor a build-info.`;
}

/** The hash that metadata has of a source. */
function hashIn(source) {
    return String(source?.keccak256).toLowerCase();
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
