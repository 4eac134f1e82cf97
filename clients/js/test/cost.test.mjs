// Data fees that the client computes, compared with the service's, with FastLZ by solady, and with published vectors. And
// the examples of docs/cost.md on a node.

import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { createGasClient } from "gas-suggestion";
import { dataFee, operatorFee } from "gas-suggestion/cost";
import { serializeTransaction } from "viem";
import { privateKeyToAccount } from "viem/accounts";

import { Nodes, Service, binary, chainSection, folder, installed, repository, startAnvil, stopAll, until } from "./rig.mjs";

const { LibZip } = createRequire(installed)("solady");
const TRANSACTIONS = 2_000;
const RULES = { fjord: ["440a5e20", 164], isthmus: ["098999be", 176], jovian: ["3db6be2b", 178] };

// The first transaction of each block of an OP Stack chain: its L1 attributes.
function deposit([selector, length]) {
    const input = Buffer.alloc(length);
    input.write(selector, 0, "hex");
    input.writeUInt32BE(5227, 4);
    input.writeUInt32BE(1_014_213, 8);
    input.writeBigUInt64BE(23_597_000n, 28);
    input.writeBigUInt64BE(1_055_991_687n, 60);
    input.writeBigUInt64BE(7_654_321n, 92);
    if (length > 164) {
        input.writeUInt32BE(7_000_003, 164);
        input.writeBigUInt64BE(2n ** 60n + 1n, 168);
    }
    return { type: "0x7e", to: "0x4200000000000000000000000000000000000015", input: `0x${input.toString("hex")}` };
}

let service;
const markets = {};
before(async () => {
    const nodes = await Nodes.start();
    const more = 'data_fee = "op-stack"\nmax_block_age = "0s"\n';
    const sections = Object.entries(RULES).map(([rule, layout], index) => {
        nodes.chain(index + 7, { deposit: deposit(layout) });
        return chainSection(rule, index + 7, nodes.url(index + 7), more);
    });
    service = await Service.start({ binary, folder, config: sections.join("") });
    for (const rule of Object.keys(RULES)) {
        markets[rule] = await until(() => clientOf(rule).market(), (market) => market.dataFee !== null);
    }
});
after(stopAll);

const clientOf = (chain) => createGasClient({ url: service.url, chain });
const hex = (bytes) => `0x${bytes.toString("hex")}`;
const amount = () => BigInt(hex(randomBytes(randomInt(1, 12))));

// Data that compresses well, badly, or in parts.
function randomData() {
    const bytes = randomBytes(randomInt(0, 10) === 0 ? randomInt(0, 6000) : randomInt(0, 300));
    const kind = randomInt(0, 3);
    if (kind === 1) bytes.forEach((_, index) => index % 9 && (bytes[index] = 0));
    return kind === 2 ? Buffer.concat([bytes, bytes, Buffer.alloc(bytes.length)]) : bytes;
}

// A transaction without and with a signature.
function randomTransaction(chainId) {
    const type = ["legacy", "eip2930", "eip1559", "eip7702"][randomInt(0, 4)];
    const hasOnePrice = type === "legacy" || type === "eip2930";
    const fees = hasOnePrice ? { gasPrice: amount() } : { maxFeePerGas: (1n << 100n) + amount(), maxPriorityFeePerGas: amount() };
    const signature = { r: hex(randomBytes(32)), s: hex(randomBytes(32)), yParity: randomInt(0, 2), v: 27n };
    const transaction = {
        type, chainId, nonce: randomInt(0, 1000), gas: 21_000n, to: hex(randomBytes(20)), value: amount(), data: hex(randomData()), ...fees,
        ...(type !== "legacy" && { accessList: [{ address: hex(randomBytes(20)), storageKeys: [hex(randomBytes(32))] }] }),
        ...(type === "eip7702" && { authorizationList: [{ address: hex(randomBytes(20)), chainId, nonce: 1, ...signature }] }),
    };
    return [serializeTransaction(transaction), serializeTransaction(transaction, signature)];
}

const bytesOf = (transaction) => (transaction.length - 2) / 2;
const fastLz = (transaction) => BigInt(bytesOf(LibZip.flzCompress(transaction)));

// The fee by hand.
function feeOf({ baseFeeScalar, blobBaseFeeScalar, l1BaseFee, l1BlobBaseFee }, length) {
    const size = 836_500n * length - 42_585_600n;
    const price = 16n * BigInt(baseFeeScalar) * l1BaseFee + BigInt(blobBaseFeeScalar) * l1BlobBaseFee;
    return ((size > 100_000_000n ? size : 100_000_000n) * price) / 10n ** 12n;
}

test("the fee of a signed transaction is exact, and the bounds are not below it", () => {
    const { dataFee: parameters } = markets.jovian;
    let lowest = 1n << 256n;
    let highest = 0n;
    for (let count = 0; count < TRANSACTIONS; count++) {
        const [unsigned, signed] = randomTransaction(9);
        const exact = dataFee(parameters, signed);
        const fee = feeOf(parameters, fastLz(signed));
        assert.deepEqual(exact, { fee, max: fee + (3n * fee + 9n) / 10n, exact: true }, signed);
        const bound = dataFee(parameters, unsigned);
        assert.equal(bound.fee, feeOf(parameters, fastLz(unsigned) + 72n), unsigned);
        const bySize = dataFee(parameters, bytesOf(signed));
        assert.ok(!bound.exact && !bySize.exact && bound.fee >= fee && bySize.fee >= fee, signed);
        if (fee < lowest) lowest = fee;
        if (fee > highest) highest = fee;
    }
    assert.ok(highest > 10n * lowest, "the transactions differ");
});

test("fees are the service's, by every rule and every kind of size", async () => {
    for (const [index, rule] of Object.keys(RULES).entries()) {
        const { dataFee: parameters } = markets[rule];
        assert.equal(parameters.rule, rule);
        const check = async (size, transaction) => {
            const gas = BigInt(randomInt(21_000, 10_000_000));
            const { dataFee: theirs } = await clientOf(rule).cost({ gas, ...size });
            const { fee, max, exact } = theirs;
            assert.deepEqual(dataFee(parameters, transaction), { fee, max, exact }, `${rule}: ${transaction}`);
            assert.equal(operatorFee(parameters, gas), theirs.operatorFee.max, `${rule}: ${gas}`);
            assert.equal(theirs.operatorFee.max > 0n, rule !== "fjord");
        };
        for (let count = 0; count < 50; count++) {
            for (const transaction of randomTransaction(index + 7)) await check({ transaction }, transaction);
        }
        for (const bytes of [1, 120, 254, 255, 499, 500, 501, 512, 513, 10_000, 131_072]) await check({ bytes }, bytes);
        const legacy = { type: "legacy", nonce: 1, gas: 21_000n, gasPrice: 1n, to: `0x${"11".repeat(20)}` };
        // Without a chain id, and with it in place of the signature.
        for (const chainId of [undefined, index + 7]) {
            const transaction = serializeTransaction({ ...legacy, chainId });
            assert.equal(dataFee(parameters, transaction).exact, false);
            await check({ transaction }, transaction);
        }
    }
});

const vector = (rule, l1BaseFee, baseFeeScalar, l1BlobBaseFee, blobBaseFeeScalar) => ({
    kind: "op-stack", rule, baseFeeScalar, blobBaseFeeScalar, l1BaseFee, l1BlobBaseFee, operatorFeeScalar: 1000, operatorFeeConstant: 10n,
    l1Block: 1, observedAt: "2026-11-20T17:31:34Z",
});

// A signed legacy transaction with this data.
function withData(data) {
    const parts = { type: "legacy", nonce: 1, gas: 21_000n, gasPrice: 1n, to: `0x${"11".repeat(20)}`, data: hex(data) };
    return serializeTransaction(parts, { r: hex(Buffer.alloc(32, 1)), s: hex(Buffer.alloc(32, 2)), v: 27n });
}

test("fees are those of published vectors", () => {
    // OP Mainnet, block 118,024,092: a transaction of 2456 gas of calldata. This one has as much.
    const ecotone = vector("ecotone", 47_036_678_951n, 1368, 57_422_457_042n, 810_949);
    const calldataGas = (text) => Buffer.from(text.slice(2), "hex").reduce((sum, byte) => sum + (byte === 0 ? 4 : 16), 0);
    const candidates = Array.from({ length: 100 }, (_, ones) => withData(Buffer.alloc(ones + 2, 1).fill(0, ones)));
    const transaction = candidates.find((candidate) => calldataGas(candidate) === 2456);
    assert.deepEqual(dataFee(ecotone, transaction).fee, 7_306_020_222_001n);
    // A bound: all bytes differ from 0.
    assert.ok(dataFee(ecotone, bytesOf(transaction)).fee > 7_306_020_222_001n);
    assert.equal(operatorFee(ecotone, 1000), 0n);
    // The smallest fee of Fjord.
    assert.equal(dataFee(vector("fjord", 10n ** 9n, 2, 10_000_000n, 3), 1).fee, 3_203_000n);
    assert.deepEqual(["fjord", "isthmus", "jovian"].map((rule) => operatorFee(vector(rule, 0n, 0, 0n, 0), 1000)), [0n, 11n, 100_000_010n]);
});

test("a fee that is not known is null, and one that is in the gas is 0", () => {
    assert.deepEqual([dataFee(null, 120), operatorFee(null, 21_000)], [null, null]);
    const later = vector("karst", 1n, 1, 1n, 1);
    assert.deepEqual([dataFee(later, 120), operatorFee(later, 21_000)], [null, null]);
    const without = { ...vector("jovian", 1n, 1, 1n, 1), l1BaseFee: null, operatorFeeScalar: null };
    assert.deepEqual([dataFee(without, 120), operatorFee(without, 21_000)], [null, null]);
    for (const kind of ["none", "included"]) {
        assert.deepEqual(dataFee({ kind, rule: null }, 120), { fee: 0n, max: 0n, exact: true });
        assert.equal(operatorFee({ kind, rule: null }, 120), 0n);
    }
});

test("what is no transaction is a TypeError", () => {
    const { dataFee: parameters } = markets.jovian;
    const [, signed] = randomTransaction(9);
    const wrong = [
        "", "0x", "02f8", "0x0", "0xzz", signed.slice(2), signed.slice(0, -2), `${signed}00`, "0x02", "0x05c0", "0x7ec0", "0xc0", "0x02c0", "0x0280", "0x01c1",
        "0xf8", "0xf901", "0xffffffffffffffffffff", `0x${"00".repeat(131_073)}`, 0, -1, 1.5, NaN, Infinity, undefined, null, {},
    ];
    for (const transaction of wrong) assert.throws(() => dataFee(parameters, transaction), TypeError, String(transaction).slice(0, 50));
    // Also where the fee is not known.
    assert.throws(() => dataFee(null, "0x05c0"), TypeError);
});

// Anvil's first accounts.
const KEYS = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
];

test("the examples of docs/cost.md send everything", async (t) => {
    const { PRIVATE_KEY } = process.env;
    t.after(() => Object.assign(process.env, { PRIVATE_KEY }));
    const anvil = await startAnvil(1);
    await anvil.call("anvil_mine", "0x3");
    const { url } = await Service.start({ binary, folder, config: chainSection("ethereum", 1, anvil.url) });
    const gas = createGasClient({ url, chain: "ethereum" });
    const page = readFileSync(join(repository, "docs/cost.md"), "utf8");
    const blocks = [...page.matchAll(/^```js\n\/\/ (send-all-\w+\.js)\n(.*?)^```$/gms)];
    assert.deepEqual(blocks.map(([, name]) => name), ["send-all-viem.js", "send-all-ethers.js"]);
    for (const [index, [, name, source]] of blocks.entries()) {
        const head = Number(await anvil.call("eth_blockNumber"));
        await until(async () => (await gas.suggestion()).block, (block) => block === head);
        process.env.PRIVATE_KEY = KEYS[index];
        const { address } = privateKeyToAccount(KEYS[index]);
        const balance = BigInt(await anvil.call("eth_getBalance", address, "latest"));
        const { max, maxSend, maxFeePerGas } = (await gas.cost({ gas: 21_000n, balance })).tiers.medium;
        const file = new URL(name, installed);
        writeFileSync(file, source.replace("http://localhost:8080", url).replace("http://localhost:8545", anvil.url));
        const { sendEverything } = await import(file);
        const hash = await sendEverything(`0x${"5a".repeat(20)}`);
        const receipt = await until(() => anvil.call("eth_getTransactionReceipt", hash), Boolean);
        const sent = await anvil.call("eth_getTransactionByHash", hash);
        assert.deepEqual([BigInt(sent.value), BigInt(sent.maxFeePerGas), BigInt(sent.gas)], [maxSend, maxFeePerGas, 21_000n], name);
        assert.equal(receipt.status, "0x1");
        const paid = BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice);
        assert.equal(BigInt(await anvil.call("eth_getBalance", address, "latest")), max - paid, name);
    }
});
