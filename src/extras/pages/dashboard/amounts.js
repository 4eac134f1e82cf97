// Amounts in wei as texts, calculated with BigInt only.

const GWEI_DECIMALS = 9;
const COIN_DECIMALS = 18;
const DOLLAR_DECIMALS = 36;
const HUNDRED_GWEI = 10n ** 11n;
// Larger whole numbers are written with a power of ten.
const MAX_PLAIN_DIGITS = 9;
// Costs below 0.000000001 coins, and below 0.0001 dollars, are not written out.
const MIN_COINS = 10n ** 9n;
const MIN_DOLLARS = 10n ** 32n;
const CENT = 10n ** 34n;
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Returns true if `text` is an amount of wei as the service writes it. */
export function isWei(text) {
    return typeof text === "string" && /^\d+$/.test(text);
}

/**
 * Converts wei to gwei, exact to the last digit.
 *
 * @param {string | bigint} wei decimal digits
 */
export function gwei(wei) {
    return decimal(BigInt(wei), GWEI_DECIMALS);
}

/** Formats a price per gas with three significant digits. */
export function price(wei) {
    const { number, unit } = priceParts(wei);
    return `${number} ${unit}`;
}

/** Returns number and unit of a price per gas. */
export function priceParts(wei) {
    return { number: significant(BigInt(wei), GWEI_DECIMALS, 3), unit: "gwei" };
}

/**
 * Formats an amount in coins with three significant digits.
 *
 * @param {bigint} wei
 * @param {string | null} currency symbol of the coin; `null` if unknown
 */
export function coins(wei, currency) {
    const isSmall = wei !== 0n && wei < MIN_COINS;
    const number = isSmall ? `< ${decimal(MIN_COINS, COIN_DECIMALS)}` : significant(wei, COIN_DECIMALS, 3);
    return `${number} ${currency ?? "coins"}`;
}

/** Formats the exact amount in coins. */
export function exactCoins(wei, currency) {
    return `${decimal(wei, COIN_DECIMALS)} ${currency ?? "coins"}`;
}

/** Reads the price of a coin in dollars, as the service writes it. Returns 10⁻¹⁸ dollars, or `undefined` without one. */
export function coinPrice(text) {
    return parsed(/^(\d+)(?:\.(\d{1,18}))?$/.exec(text ?? ""), COIN_DECIMALS);
}

/**
 * Formats an amount in dollars: cents from 0.1 to 100 dollars, two significant digits below, whole dollars above.
 *
 * @param {bigint} amount in 10⁻³⁶ dollars
 */
export function dollars(amount) {
    if (amount === 0n) return "$0";
    if (amount < MIN_DOLLARS) return `< $${decimal(MIN_DOLLARS, DOLLAR_DECIMALS)}`;
    if (amount < 10n * CENT) return `$${significant(amount, DOLLAR_DECIMALS, 2)}`;
    if (amount >= 9_999n * CENT) return `$${significant(roundedTo(amount, 100n * CENT), DOLLAR_DECIMALS, 4)}`;
    const [whole, fraction = ""] = decimal(roundedTo(amount, CENT), DOLLAR_DECIMALS).split(".");
    return `$${whole}.${fraction.padEnd(2, "0")}`;
}

/** Formats an amount in dollars with four significant digits, as the service does. */
export function exactDollars(amount) {
    return `$${rounded(amount, DOLLAR_DECIMALS, 4)}`;
}

/**
 * Returns the price per gas that a transaction in the next block pays: min(max fee, next base fee + tip).
 *
 * @param {object} market body of the fee market route
 * @param {'low' | 'medium' | 'high'} tier
 */
export function expectedPrice(market, tier) {
    return BigInt(market.expected_price_per_gas[tier]);
}

/** Reads an amount in gwei that a person typed. Returns wei, or `undefined` if it is not a number. */
export function parseGwei(text) {
    return parsed(/^\s*(\d{1,20})(?:[.,](\d{0,9})\d*)?\s*$/.exec(withoutGroups(text)), GWEI_DECIMALS);
}

/** Reads an amount of coins that a person typed. Returns wei, or `undefined` if it is not a number. */
export function parseCoins(text) {
    return parsed(/^\s*(\d{1,20})(?:[.,](\d{0,18}))?\s*$/.exec(withoutGroups(text)), COIN_DECIMALS);
}

/** Returns a number of which a pattern found the whole part and the fraction; `undefined` if it found nothing. */
function parsed(found, decimals) {
    return found ? BigInt(found[1] + (found[2] ?? "").padEnd(decimals, "0")) : undefined;
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

/** Rounds to this many significant digits, without trailing zeros after the point. */
function significant(amount, decimals, digits) {
    const [whole, fraction] = rounded(amount, decimals, digits).split(".");
    if (whole.length > MAX_PLAIN_DIGITS) return powerOfTen(whole);
    return grouped(whole) + (fraction ? `.${fraction}` : "");
}

/** Rounds to this many significant digits. */
function rounded(amount, decimals, digits) {
    return decimal(roundedTo(amount, 10n ** BigInt(Math.max(String(amount).length - digits, 0))), decimals);
}

function roundedTo(amount, unit) {
    return ((amount + unit / 2n) / unit) * unit;
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
