// Packs the package and installs it into a new folder: `node install.mjs FOLDER`.
//
// The tests are copied into the folder and run there, so they import the package as its users do. viem, ethers, wagmi
// and React are those of tests/node.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = process.argv[2];
const own = fileURLToPath(new URL("..", import.meta.url));
const shared = fileURLToPath(new URL("../../../tests/node/", import.meta.url));

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const npm = (cwd, ...arguments_) => execFileSync("npm", arguments_, { cwd, stdio: ["ignore", "pipe", "inherit"] });
npm(own, "pack", "--pack-destination", folder);
writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
// It has no dependencies, so this needs no registry.
npm(folder, "install", "--offline", "--no-audit", "--no-fund", "./gas-suggestion-0.2.0.tgz");

const packages = {
    [shared]: ["@tanstack/react-query", "ethers", "playwright-core", "react", "react-dom", "solady", "viem", "wagmi"],
    [own]: ["@types/react", "esbuild"],
};
for (const [from, names] of Object.entries(packages)) {
    for (const name of names) {
        const link = join(folder, "node_modules", name);
        mkdirSync(dirname(link), { recursive: true });
        symlinkSync(join(from, "node_modules", name), link);
    }
}
cpSync(join(own, "test"), join(folder, "test"), { recursive: true });
