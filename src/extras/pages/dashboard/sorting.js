// The order of the table of chains. Pure functions.

export const ORDERS = ["name", "price", "transfer"];

/**
 * Returns the rows in this order: favourites first, chains without a current price last. By cost, the cheapest in dollars
 * come first, then those whose coin has no known price by coins, then those whose cost is known in part.
 *
 * @param {object[]} rows as of view.js
 * @param {string | null} order one of ORDERS; `null`: the service's order
 * @param {Set<string>} favourites keys of chains
 */
export function sortRows(rows, order, favourites) {
    const keyed = rows.map((row, index) => ({ row, key: [favourites.has(row.key) ? 0 : 1, ...keyOf(row, order), index] }));
    return keyed.sort((one, other) => compareKeys(one.key, other.key)).map(({ row }) => row);
}

function keyOf({ name, price, transfer }, order) {
    if (order === "name") return [name];
    const isKnown = price && !price.isPast;
    if (order === "price") return isKnown ? [0, price.wei] : [1, 0n];
    if (order !== "transfer") return [];
    if (!isKnown || !transfer) return [3, 0n];
    if (transfer.isPartial) return [2, transfer.expected];
    return transfer.usd === undefined ? [1, transfer.expected] : [0, transfer.usd];
}

function compareKeys(one, other) {
    for (const [index, value] of one.entries()) {
        const against = other[index];
        if (typeof value === "string") {
            const order = value.localeCompare(against, undefined, { numeric: true });
            if (order !== 0) return order;
        } else if (value !== against) {
            return value < against ? -1 : 1;
        }
    }
    return 0;
}
