/** Number of items of an unsigned transaction of each type. A signed one has three more. */
const UNSIGNED_ITEMS: Record<number, number> = { 1: 8, 2: 9, 3: 11, 4: 10 }
const UNSIGNED_LEGACY_ITEMS = 6
const MAX_BYTES = 131_072

/** Parses a serialised transaction of type 0 to 4. Throws a `TypeError` if it is none. */
export function parseTransaction(hex: string): { bytes: Uint8Array; isSigned: boolean } {
  if (!/^0x([\da-f]{2})+$/i.test(hex) || hex.length > 2 + 2 * MAX_BYTES) throw invalid()
  const bytes = Uint8Array.from({ length: hex.length / 2 - 1 }, (_, index) => parseInt(hex.slice(2 * index + 2, 2 * index + 4), 16))
  const type = bytes[0]!
  const isLegacy = type >= 0xc0
  const [list, end] = itemAt(bytes, isLegacy ? 0 : 1, bytes.length)
  if (!list.isList || end !== bytes.length) throw invalid()
  const items: Item[] = []
  for (let at = list.start; at < end; ) {
    const [item, next] = itemAt(bytes, at, end)
    items.push(item)
    at = next
  }
  const unsigned = isLegacy ? UNSIGNED_LEGACY_ITEMS : UNSIGNED_ITEMS[type]
  if (unsigned === undefined) throw invalid()
  if (items.length === unsigned) return { bytes, isSigned: false }
  if (items.length !== unsigned + 3) throw invalid()
  // An unsigned legacy transaction may have its chain id and two empty items in place of the signature (EIP-155).
  const isSigned = !isLegacy || items.slice(-2).some(({ start, end }) => start < end)
  return { bytes, isSigned }
}

interface Item {
  isList: boolean
  start: number
  end: number
}

/** Returns the item of RLP at this position, and the position after it. */
function itemAt(bytes: Uint8Array, at: number, limit: number): [Item, number] {
  const first = bytes[at]
  if (first === undefined || at >= limit) throw invalid()
  if (first < 0x80) return [{ isList: false, start: at, end: at + 1 }, at + 1]
  const isList = first >= 0xc0
  const size = first - (isList ? 0xc0 : 0x80)
  // Above 55 bytes the length follows.
  const digits = Math.max(0, size - 55)
  const start = at + 1 + digits
  // The length of a transaction has at most three digits; more are too long below.
  const length = digits > 0 ? bytes.subarray(at + 1, start).reduce((sum, digit) => sum * 256 + digit, 0) : size
  const end = start + length
  if (end > limit) throw invalid()
  return [{ isList, start, end }, end]
}

function invalid(): TypeError {
  return new TypeError('the transaction must be the hex form of a serialised transaction of type 0 to 4')
}
