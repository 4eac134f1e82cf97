// What transactions cost: their gas at the prices of a fee market, and the data fees of the route `cost`. Pure functions.

import { coinPrice, coins, dollars, exactCoins, exactDollars, expectedPrice, isWei } from "./amounts.js";
import { tierFees } from "./tiers.js";

/**
 * Usual gas and size, in bytes, of common transactions. The sizes are those of signed transactions of type 2; data fees
 * depend on them.
 *
 * - Transfer: yellow paper, G_transaction; the same to a new account. At most 120 bytes.
 * - Token transfer: `transfer` of OpenZeppelin's ERC-20 to a first-time holder: two storage slots, of which one is new
 *   (EIP-2929, EIP-2200), and an event. 68 bytes of data.
 * - Swap: `exactInputSingle` of Uniswap's V3 router through one pool. 260 bytes of data.
 * - NFT mint: `mint` of OpenZeppelin's ERC-721 with a counter: two or three new storage slots. 36 bytes of data.
 * - Contract: 5,000 bytes of code at 200 gas a byte (G_codedeposit) and 16 a byte of data (EIP-2028), 53,000 for the
 *   transaction and the creation (EIP-2), and a constructor.
 */
export const ACTIONS = [
    { label: "Transfer", gas: 21_000n, bytes: 120n },
    { label: "Transfer to a new account", gas: 21_000n, bytes: 120n },
    { label: "Token transfer", gas: 65_000n, bytes: 190n },
    { label: "Swap", gas: 150_000n, bytes: 380n },
    { label: "NFT mint", gas: 120_000n, bytes: 160n },
    { label: "Contract deployment", gas: 1_200_000n, bytes: 5_500n },
];
export const TRANSFER = ACTIONS[0];

/**
 * Returns the transactions whose costs are shown: the transfer with its gas as the node estimates it, and the others where
 * that is the usual gas. On other chains, usual gas tells nothing.
 */
export function actionsOf({ transfer_gas: gas }) {
    if (!isWei(gas)) return ACTIONS;
    const [usual, ...others] = ACTIONS;
    const transfer = { ...usual, gas: BigInt(gas) };
    return transfer.gas === usual.gas ? [transfer, ...others] : [transfer];
}

export function transferOf(market) {
    return actionsOf(market)[0];
}

// Kinds of data fees that are 0 or part of the gas, and those that depend on the size of transactions.
const WITHOUT_DATA_FEE = ["none", "included"];
const WITH_DATA_FEE = ["op-stack", "mantle"];

/** Returns the name of a transaction's data fee in `dataFees` of a market. */
export function feeName({ gas, bytes }) {
    return `${gas} gas, ${bytes} bytes`;
}

/** Returns true if `fee` is the data fee of a transaction. */
export function isDataFee(fee) {
    return [fee?.fee, fee?.max, fee?.operator_fee?.expected].every(isWei);
}

/** Returns the fees beside the gas of a transaction, or `undefined` if they are not known. */
function dataFees({ data_fee: parameters, dataFees }, order) {
    if (WITHOUT_DATA_FEE.includes(parameters?.kind)) return { fee: 0n, max: 0n, operator: 0n };
    const known = parameters ? dataFees?.[feeName(order)] : undefined;
    return known && { fee: BigInt(known.fee), max: BigInt(known.max), operator: BigInt(known.operator_fee.expected) };
}

/**
 * Returns what a transaction costs in wei: `expected`, and `max`, which its sender's account must hold. Without a known
 * data fee they are those of the gas alone, and `isPartial` is true.
 */
export function costOf(market, tier, order) {
    const { gas } = order;
    const fees = dataFees(market, order);
    const { fee, max, operator } = fees ?? { fee: 0n, max: 0n, operator: 0n };
    return {
        expected: gas * expectedPrice(market, tier) + fee + operator,
        max: gas * BigInt(tierFees(market, tier).max_fee_per_gas) + max + operator,
        isPartial: fees === undefined,
    };
}

/** Returns the texts of a cost: in coins, and in dollars if the service knows the price of the coin. */
export function costView(market, tier, action) {
    const { expected, isPartial } = costOf(market, tier, action);
    const usd = dollarsOf(market, expected);
    const currency = market.currency ?? null;
    return {
        coins: coins(expected, currency),
        exact: exactCoins(expected, currency) + (usd === undefined ? "" : `, ${exactDollars(usd)}`),
        dollars: usd === undefined ? undefined : dollars(usd),
        usd,
        expected,
        isPartial,
        // Without a preset, the service does not know whether the chain has a data fee at all.
        hasMore: isPartial && market.data_fee_reason !== "unknown",
    };
}

/** Returns so much wei in 10⁻³⁶ dollars; `undefined` if the price of the coin is not known. */
function dollarsOf(market, wei) {
    const price = coinPrice(market.usd_per_coin?.price);
    return price === undefined ? undefined : price * wei;
}

/** Returns the sentence about the gas below the costs. */
export function gasNote(market) {
    if (!isWei(market.transfer_gas)) return "The gas is what such transactions usually need.";
    const isUsual = actionsOf(market).length > 1;
    return `The node estimates the gas of the transfer${isUsual ? "; the others have what they usually need" : ""}.`;
}

/** Returns the sentence about the data fee below the costs; empty if the chain has none. */
export function dataFeeNote({ data_fee: fee, data_fee_reason: reason }) {
    if (hasDataFee({ data_fee: fee })) return "With the fee for data on L1, for transactions of usual size.";
    if (fee?.kind === "included") return "The fee for data on L1 is part of the gas that wallets estimate.";
    if (fee) return "";
    if (reason === "not_read" || reason === "old") return "The chain’s fee for data comes on top. It is not known right now.";
    return "If this chain has a fee for data on L1, it comes on top.";
}

/** Returns true if the chain has a data fee that depends on the size of transactions. */
export function hasDataFee({ data_fee: fee }) {
    return WITH_DATA_FEE.includes(fee?.kind);
}
