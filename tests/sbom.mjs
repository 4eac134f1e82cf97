// Writes a bill of materials of the release build, CycloneDX 1.5 in JSON, to the file in its argument: every crate
// among the binary's normal dependencies on this platform.

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const run = (...command) =>
    execFileSync("cargo", command, { encoding: "utf8", maxBuffer: 1 << 28 });

const metadata = JSON.parse(run("metadata", "--locked", "--all-features", "--format-version", "1"));
const name = metadata.packages.find((one) => one.id === metadata.resolve.root).name;

// `cargo tree` lists the crates and features of this build; `cargo metadata` covers all builds.
const tree = run("tree", "--locked", "--all-features", "--package", name, "--edges", "normal",
    "--prefix", "depth", "--format", " {p}", "--no-dedupe");
const parents = [];
const edges = new Map();
for (const line of tree.trimEnd().split("\n")) {
    const [, depth, crate, version] = line.match(/^(\d+) (\S+) v(\S+)/);
    const key = `${crate}@${version}`;
    parents.length = Number(depth);
    if (!edges.has(key)) edges.set(key, new Set());
    if (parents.length > 0) edges.get(parents.at(-1)).add(key);
    parents.push(key);
}

const checksums = new Map();
for (const entry of readFileSync("Cargo.lock", "utf8").split("[[package]]").slice(1)) {
    const value = (member) => entry.match(new RegExp(`^${member} = "(.*)"$`, "m"))?.[1];
    checksums.set(`${value("name")}@${value("version")}`, value("checksum"));
}

const purl = (key) => `pkg:cargo/${key.replaceAll("+", "%2B")}`;

function component(key) {
    const found = metadata.packages.filter((one) => `${one.name}@${one.version}` === key);
    if (found.length !== 1) throw new Error(`${key} is ${found.length} packages`);
    const [{ name, version, license, description, source }] = found;
    if (!license) throw new Error(`${key} names no licence`);
    const checksum = checksums.get(key);
    if (source && !checksum) throw new Error(`${key} has no checksum`);
    return {
        type: source ? "library" : "application",
        "bom-ref": purl(key),
        name,
        version,
        ...(description && { description: description.trim() }),
        ...(checksum && { hashes: [{ alg: "SHA-256", content: checksum }] }),
        // Some older crates write a slash for OR.
        licenses: [{ expression: license.replace(/\s*\/\s*/g, " OR ") }],
        purl: purl(key),
    };
}

const [root, ...crates] = edges.keys();
const bom = {
    $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    serialNumber: `urn:uuid:${randomUUID()}`,
    version: 1,
    metadata: { timestamp: new Date().toISOString(), component: component(root) },
    components: crates.sort().map(component),
    dependencies: [...edges].sort().map(([key, on]) => ({
        ref: purl(key),
        dependsOn: [...on].sort().map(purl),
    })),
};

const [, , file] = process.argv;
writeFileSync(file, `${JSON.stringify(bom, null, 2)}\n`);

// Reads the file back, because an incomplete list is worse than none.
const written = JSON.parse(readFileSync(file, "utf8"));
const refs = new Set([root, ...crates].map(purl));
for (const { name, version, purl, licenses, hashes } of written.components) {
    const isWhole = name && version && refs.has(purl) && licenses[0].expression &&
        /^[0-9a-f]{64}$/.test(hashes?.[0].content);
    if (!isWhole) throw new Error(`${name} ${version} is incomplete`);
}
const dangling = written.dependencies.flatMap((one) => one.dependsOn).filter((ref) => !refs.has(ref));
if (dangling.length > 0 || refs.size !== written.components.length + 1) {
    throw new Error(`the list is not closed: ${dangling}`);
}
console.log(`${file}: ${written.components.length} crates below ${name} ${written.metadata.component.version}`);
