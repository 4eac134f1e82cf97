// Tests that the mock registry contract behaves like the registry contract on public networks.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import * as ethers from "ethers";

import { compile } from "./compile.mjs";

const ADDRESS = "0x00000000000000447e69651d841bD8D104Bed493";
const { abi, runtime } = compile(
    fileURLToPath(new URL("../fixtures/delegation/Registry.sol", import.meta.url)),
).Registry;

const CONTRACT = ethers.getAddress(`0x${"c0".repeat(20)}`);
const OTHER = ethers.getAddress(`0x${"0e".repeat(20)}`);
const ANY = ethers.ZeroHash;
const CLAIM = ethers.encodeBytes32String("claim");
const PLAY = ethers.encodeBytes32String("play");
const MAX = ethers.MaxUint256;

let anvil;
let provider;
let registry;
let vault;
let delegate;
let snapshot;

before(async () => {
    const installed = "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil";
    const program = process.env.ANVIL ?? fileURLToPath(new URL(installed, import.meta.url));
    // The tests mine explicitly, because with automatic mining anvil may respond before it has mined a transaction.
    anvil = spawn(program, ["--port", "0", "--no-mining"], {
        stdio: ["ignore", "pipe", "inherit"],
    });
    const address = await new Promise((resolve, reject) => {
        anvil.on("error", reject);
        anvil.on("exit", (code) => reject(new Error(`anvil ended with ${code}`)));
        createInterface(anvil.stdout).on("line", (line) => {
            if (line.startsWith("Listening on ")) resolve(line.slice("Listening on ".length));
        });
    });
    // The cache is off, because the tests repeat reads after a transaction.
    provider = new ethers.JsonRpcProvider(`http://${address}`, undefined, { cacheTimeout: -1 });
    await provider.send("anvil_setCode", [ADDRESS, runtime]);
    [vault, delegate] = await provider.listAccounts();
    registry = new ethers.Contract(ADDRESS, abi, vault);
});

after(() => {
    provider?.destroy();
    anvil.kill();
});

beforeEach(async () => {
    snapshot = await provider.send("evm_snapshot", []);
});

afterEach(async () => {
    await provider.send("evm_revert", [snapshot]);
});

async function delegateAndMine(kind, ...more) {
    const { hash } = await registry[`delegate${kind}`](delegate, ...more);
    await provider.send("evm_mine", []);
    const { status } = await provider.getTransactionReceipt(hash);
    assert.equal(status, 1);
}

const all = (rights) => registry.checkDelegateForAll(delegate, vault, rights);
const contract = (rights, token = CONTRACT) =>
    registry.checkDelegateForContract(delegate, vault, token, rights);
const erc721 = (rights, token = CONTRACT, id = 7) =>
    registry.checkDelegateForERC721(delegate, vault, token, id, rights);
const erc20 = (rights, token = CONTRACT) =>
    registry.checkDelegateForERC20(delegate, vault, token, rights);
const erc1155 = (rights, token = CONTRACT, id = 7) =>
    registry.checkDelegateForERC1155(delegate, vault, token, id, rights);

// Returns the results of the checks for all and for the contract, each without rights and with CLAIM, and for the three
// token types.
const found = () =>
    Promise.all([
        all(ANY),
        all(CLAIM),
        contract(ANY),
        contract(CLAIM),
        erc721(ANY),
        erc20(ANY),
        erc1155(ANY),
    ]);
const NOTHING = [false, false, false, false, false, 0n, 0n];
const EVERYTHING = [true, true, true, true, true, MAX, MAX];

test("the functions are those of the networks' registry", () => {
    const functions = new ethers.Interface(abi).fragments.map((fragment) => [
        fragment.selector.slice(2),
        `${fragment.format("sighash")} ${fragment.outputs.map((output) => output.format())}`,
    ]);
    const delegations = "(uint8,address,address,bytes32,address,uint256,uint256)[]";
    assert.deepEqual(Object.fromEntries(functions), {
        e839bd53: "checkDelegateForAll(address,address,bytes32) bool",
        "8988eea9": "checkDelegateForContract(address,address,address,bytes32) bool",
        b9f36874: "checkDelegateForERC721(address,address,address,uint256,bytes32) bool",
        ba63c817: "checkDelegateForERC20(address,address,address,bytes32) uint256",
        b8705875: "checkDelegateForERC1155(address,address,address,uint256,bytes32) uint256",
        "30ff3140": "delegateAll(address,bytes32,bool) bytes32",
        d90e73ab: "delegateContract(address,address,bytes32,bool) bytes32",
        b18e2bbb: "delegateERC721(address,address,uint256,bytes32,bool) bytes32",
        "003c2ba6": "delegateERC20(address,address,bytes32,uint256) bytes32",
        ab764683: "delegateERC1155(address,address,uint256,bytes32,uint256) bytes32",
        "42f87c25": `getIncomingDelegations(address) ${delegations}`,
        "51525e9a": `getOutgoingDelegations(address) ${delegations}`,
    });
});

test("nothing is delegated at first", async () => {
    assert.deepEqual(await found(), NOTHING);
    assert.deepEqual(await listed(), []);
});

test("delegating all without rights grants everything until revoked", async () => {
    await delegateAndMine("All", ANY, true);
    assert.deepEqual(await found(), EVERYTHING);
    assert.deepEqual(await erc20(PLAY, OTHER), MAX);
    // The vault may not act for the delegate.
    assert.equal(await registry.checkDelegateForAll(vault, delegate, ANY), false);
    await delegateAndMine("All", ANY, false);
    assert.deepEqual(await found(), NOTHING);
});

test("delegating all with rights grants everything to those rights only", async () => {
    await delegateAndMine("All", CLAIM, true);
    assert.deepEqual(await found(), [false, true, false, true, false, 0n, 0n]);
    assert.deepEqual(await Promise.all([erc721(CLAIM), erc20(CLAIM), erc1155(CLAIM), all(PLAY)]), [
        true,
        MAX,
        MAX,
        false,
    ]);
    // Revoking other rights does not affect the delegation.
    await delegateAndMine("All", ANY, false);
    assert.equal(await all(CLAIM), true);
    await delegateAndMine("All", CLAIM, false);
    assert.equal(await all(CLAIM), false);
});

test("delegating a contract with rights grants it to those rights only", async () => {
    await delegateAndMine("Contract", CONTRACT, CLAIM, true);
    assert.deepEqual(await found(), [false, false, false, true, false, 0n, 0n]);
    assert.deepEqual(await Promise.all([erc721(CLAIM), erc20(CLAIM), erc1155(CLAIM)]), [
        true,
        MAX,
        MAX,
    ]);
    assert.deepEqual(await Promise.all([contract(PLAY), contract(CLAIM, OTHER)]), [false, false]);
    await delegateAndMine("Contract", CONTRACT, CLAIM, false);
    assert.equal(await contract(CLAIM), false);
});

test("delegating a contract without rights grants all its tokens", async () => {
    await delegateAndMine("Contract", CONTRACT, ANY, true);
    assert.deepEqual(await found(), [false, false, true, true, true, MAX, MAX]);
});

test("delegating tokens grants the tokens and amounts until revoked", async () => {
    await delegateAndMine("ERC20", CONTRACT, ANY, 1000);
    await delegateAndMine("ERC1155", CONTRACT, 7, ANY, 55);
    await delegateAndMine("ERC721", CONTRACT, 7, ANY, true);
    assert.deepEqual(await found(), [false, false, false, false, true, 1000n, 55n]);
    assert.deepEqual(await Promise.all([erc721(CLAIM), erc20(CLAIM), erc1155(CLAIM)]), [
        true,
        1000n,
        55n,
    ]);
    assert.deepEqual(await Promise.all([erc721(ANY, CONTRACT, 8), erc1155(ANY, CONTRACT, 8)]), [
        false,
        0n,
    ]);
    assert.deepEqual(
        await Promise.all([erc721(ANY, OTHER), erc20(ANY, OTHER), erc1155(ANY, OTHER)]),
        [false, 0n, 0n],
    );
    await delegateAndMine("ERC20", CONTRACT, ANY, 0);
    await delegateAndMine("ERC1155", CONTRACT, 7, ANY, 0);
    await delegateAndMine("ERC721", CONTRACT, 7, ANY, false);
    assert.deepEqual(await found(), NOTHING);
});

test("the larger amount counts, with or without rights", async () => {
    await delegateAndMine("ERC20", CONTRACT, ANY, 1000);
    await delegateAndMine("ERC20", CONTRACT, CLAIM, 2000);
    await delegateAndMine("ERC20", CONTRACT, PLAY, 500);
    assert.deepEqual(await Promise.all([erc20(ANY), erc20(CLAIM), erc20(PLAY)]), [
        1000n,
        2000n,
        1000n,
    ]);
    await delegateAndMine("ERC1155", CONTRACT, 7, ANY, 55);
    await delegateAndMine("ERC1155", CONTRACT, 7, CLAIM, 66);
    await delegateAndMine("ERC1155", CONTRACT, 7, PLAY, 44);
    assert.deepEqual(await Promise.all([erc1155(ANY), erc1155(CLAIM), erc1155(PLAY)]), [
        55n,
        66n,
        55n,
    ]);
    // A new amount replaces the old one.
    await delegateAndMine("ERC20", CONTRACT, CLAIM, 3);
    assert.deepEqual(await erc20(CLAIM), 1000n);
});

// Returns the delegations from the vault. Checks that the delegate's list is equal.
async function listed() {
    const [outgoing, incoming] = await Promise.all([
        registry.getOutgoingDelegations(vault),
        registry.getIncomingDelegations(delegate),
    ]);
    assert.deepEqual(outgoing, incoming);
    return outgoing.map((delegation) => delegation.toArray());
}

const listing = (type, rights, token, id, amount) => [
    type,
    delegate.address,
    vault.address,
    rights,
    token,
    id,
    amount,
];

test("delegations of every type are listed for both sides", async () => {
    await delegateAndMine("All", ANY, true);
    await delegateAndMine("Contract", CONTRACT, CLAIM, true);
    await delegateAndMine("ERC721", CONTRACT, 7, ANY, true);
    await delegateAndMine("ERC20", CONTRACT, ANY, 1000);
    await delegateAndMine("ERC1155", CONTRACT, 7, PLAY, 55);
    assert.deepEqual(await listed(), [
        listing(1n, ANY, ethers.ZeroAddress, 0n, 0n),
        listing(2n, CLAIM, CONTRACT, 0n, 0n),
        listing(3n, ANY, CONTRACT, 7n, 0n),
        listing(4n, ANY, CONTRACT, 0n, 1000n),
        listing(5n, PLAY, CONTRACT, 7n, 55n),
    ]);
    assert.deepEqual([...(await registry.getIncomingDelegations(vault))], []);
    assert.deepEqual([...(await registry.getOutgoingDelegations(delegate))], []);
});

test("a repeated delegation is listed once, with its last amount", async () => {
    for (const amount of [1000, 1000, 30]) await delegateAndMine("ERC20", CONTRACT, ANY, amount);
    for (const enable of [true, true, false, true]) await delegateAndMine("All", ANY, enable);
    assert.deepEqual(await listed(), [
        listing(4n, ANY, CONTRACT, 0n, 30n),
        listing(1n, ANY, ethers.ZeroAddress, 0n, 0n),
    ]);
});

test("revoked and never granted delegations are not listed", async () => {
    await delegateAndMine("ERC20", CONTRACT, ANY, 1000);
    await delegateAndMine("ERC1155", CONTRACT, 7, ANY, 55);
    await delegateAndMine("ERC20", CONTRACT, ANY, 0);
    await delegateAndMine("Contract", CONTRACT, ANY, false);
    assert.deepEqual(await listed(), [listing(5n, ANY, CONTRACT, 7n, 55n)]);
});
