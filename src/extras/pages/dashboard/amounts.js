// Amounts in wei as texts, calculated with BigInt only.

const GWEI_DECIMALS = 9;
const COIN_DECIMALS = 18;
// Prices below 0.001 gwei have a smaller unit.
const MIN_GWEI = 10n ** 6n;
const HUNDRED_GWEI = 10n ** 11n;
const KWEI = 1000n;
// Larger whole numbers are written with a power of ten.
const MAX_PLAIN_DIGITS = 9;
// Costs below 0.000000001 coins are written in wei.
const MIN_COINS = 10n ** 9n;
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Gas of common transactions: the first is fixed by the protocol, the others are usual. */
export const ACTIONS = [
    { label: "Transfer", gas: 21_000n },
    { label: "Token transfer", gas: 65_000n },
    { label: "Swap", gas: 150_000n },
];

/**
 * Converts wei to gwei, exact to the last digit.
 *
 * @param {string | bigint} wei decimal digits
 */
export function gwei(wei) {
    return decimal(BigInt(wei), GWEI_DECIMALS);
}

/** Formats a price per gas with three significant digits, in the unit that suits it. */
export function price(wei) {
    const { number, unit } = priceParts(wei);
    return `${number} ${unit}`;
}

/** Returns number and unit of a price per gas. */
export function priceParts(wei) {
    const amount = BigInt(wei);
    if (amount >= MIN_GWEI || amount === 0n) return { number: significant(amount, GWEI_DECIMALS), unit: "gwei" };
    if (amount >= KWEI) return { number: significant(amount, 3), unit: "Kwei" };
    return { number: String(amount), unit: "wei" };
}

/**
 * Formats the cost of a transaction with three significant digits.
 *
 * @param {string | bigint} wei price per gas
 * @param {bigint} gas
 * @param {string | null} currency symbol of the coin; `null` if unknown
 */
export function cost(wei, gas, currency) {
    const amount = BigInt(wei) * gas;
    if (amount !== 0n && amount < MIN_COINS) return `${grouped(amount)} wei`;
    return `${significant(amount, COIN_DECIMALS)} ${currency ?? "coins"}`;
}

/** Formats the exact cost of a transaction. */
export function exactCost(wei, gas, currency) {
    return `${decimal(BigInt(wei) * gas, COIN_DECIMALS)} ${currency ?? "coins"}`;
}

/**
 * Returns the price per gas that a transaction in the next block pays: min(max fee, next base fee + tip).
 *
 * @param {object} market body of the fee market route
 * @param {'medium' | 'high'} tier
 * @returns {bigint}
 */
export function expectedPrice(market, tier) {
    const { max_fee_per_gas: max, max_priority_fee_per_gas: tip } = market.suggestion[tier];
    const cap = BigInt(max);
    if (market.suggestion.type === "legacy") return cap;
    // Without a known next base fee, the service takes the newest one, which this object does not contain.
    if (market.next_base_fee_per_gas === null) return BigInt(market.expected_price_per_gas?.[tier] ?? max);
    const paid = BigInt(market.next_base_fee_per_gas) + BigInt(tip);
    return paid < cap ? paid : cap;
}

/** Reads an amount in gwei that a person typed. Returns wei, or `undefined` if it is not a number. */
export function parseGwei(text) {
    const plain = withoutGroups(text);
    const [, whole, fraction = ""] = /^\s*(\d{1,20})(?:[.,](\d{0,9})\d*)?\s*$/.exec(plain) ?? [];
    return whole === undefined ? undefined : BigInt(whole + fraction.padEnd(GWEI_DECIMALS, "0"));
}

/** Reads a gas limit that a person typed. Returns `undefined` if it is not one. */
export function parseGas(text) {
    const digits = withoutGroups(text).trim();
    return /^\d{1,12}$/.test(digits) ? BigInt(digits) : undefined;
}

/** Removes the separators of thousands, as `grouped` and several languages write them. */
function withoutGroups(text) {
    return /^\s*[1-9]\d{0,2}([,\s]\d{3})+(\.\d*)?\s*$/.test(text) ? text.replace(/[,\s]/g, "") : text;
}

/** Separates the thousands of a whole number. */
export function grouped(number) {
    return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Rounds to three significant digits, without trailing zeros after the point. */
function significant(amount, decimals) {
    const [whole, fraction] = rounded(amount, decimals, 3).split(".");
    if (whole.length > MAX_PLAIN_DIGITS) return powerOfTen(whole);
    return grouped(whole) + (fraction ? `.${fraction}` : "");
}

/** Rounds to this many significant digits. */
function rounded(amount, decimals, digits) {
    const unit = 10n ** BigInt(Math.max(String(amount).length - digits, 0));
    return decimal(((amount + unit / 2n) / unit) * unit, decimals);
}

function powerOfTen(whole) {
    const digits = whole.slice(0, 3).replace(/0+$/, "");
    const power = [...String(whole.length - 1)].map((digit) => SUPERSCRIPTS[digit]).join("");
    return `${digits[0]}${digits.length > 1 ? `.${digits.slice(1)}` : ""} × 10${power}`;
}

function decimal(amount, decimals) {
    const digits = amount.toString().padStart(decimals + 1, "0");
    const fraction = digits.slice(-decimals).replace(/0+$/, "");
    return digits.slice(0, -decimals) + (fraction && `.${fraction}`);
}

/** Formats a price in gwei with at most three digits, for the window's icon. */
export function shortGwei(wei) {
    const amount = BigInt(wei);
    const [whole, fraction = ""] = rounded(amount, GWEI_DECIMALS, amount < HUNDRED_GWEI ? 2 : 3).split(".");
    if (whole.length > 3) return "999";
    if (whole !== "0") return fraction && whole.length === 1 ? `${whole}.${fraction[0]}` : whole;
    const text = fraction.slice(0, 2);
    return /[1-9]/.test(text) ? `.${text}` : "0";
}
