// Bytes at the end of the data that are never compressed.
const TAIL = 13
const MAX_DISTANCE = 0x1fff
const HASH_BITS = 13
// Longest run of literal bytes, and longest match.
const RUN = 32
const LONGEST_MATCH = 262

/**
 * Returns the length of `data` after compression by FastLZ, level 1, as op-geth's `FlzCompressLen` and solady's `LibZip`
 * count it.
 */
export function fastLzLength(data: Uint8Array): number {
  const table = new Uint32Array(1 << HASH_BITS)
  const limit = data.length - TAIL
  let length = 0
  // First byte that is not counted yet.
  let anchor = 0
  let position = 2
  while (position < limit) {
    let earlier = -1
    for (; position < limit; position++) {
      const sequence = threeBytes(data, position)
      const slot = hash(sequence)
      const candidate = table[slot]!
      table[slot] = position
      if (position - candidate <= MAX_DISTANCE && sequence === threeBytes(data, candidate)) {
        earlier = candidate
        break
      }
    }
    if (earlier < 0 || position + 1 >= limit) break
    length += literalsLength(position - anchor)
    const matched = matchingBytes(data, earlier + 3, position + 3)
    length += matchLength(matched)
    position += matched
    for (let count = 0; count < 2; count++, position++) table[hash(threeBytes(data, position))] = position
    anchor = position
  }
  return length + literalsLength(data.length - anchor)
}

/**
 * Returns a FastLZ length that no transaction of so many bytes exceeds: that of `getL1FeeUpperBound` of the
 * `GasPriceOracle` contract, or the length without any compression if that is more.
 */
export function longestFastLz(bytes: number): number {
  return Math.max(bytes + Math.floor(bytes / 255) + 16, bytes + Math.ceil(bytes / RUN))
}

function literalsLength(bytes: number): number {
  return bytes + Math.ceil(bytes / RUN)
}

function matchLength(bytes: number): number {
  return 3 * Math.floor((bytes - 1) / LONGEST_MATCH) + ((bytes - 1) % LONGEST_MATCH >= 6 ? 3 : 2)
}

/** Returns the three bytes from `position` on, the first one lowest. Bytes beyond the end are 0. */
function threeBytes(data: Uint8Array, position: number): number {
  return (data[position] ?? 0) | ((data[position + 1] ?? 0) << 8) | ((data[position + 2] ?? 0) << 16)
}

function hash(sequence: number): number {
  return (Math.imul(sequence, 2_654_435_769) >>> 19) & ((1 << HASH_BITS) - 1)
}

/**
 * Returns the number of equal bytes from both positions on, and one more if they end before the bound, which is four bytes
 * before the end.
 */
function matchingBytes(data: Uint8Array, earlier: number, later: number): number {
  const most = Math.max(0, data.length - 4 - later)
  let equal = 0
  while (equal < most && data[earlier + equal] === data[later + equal]) equal++
  return equal + (equal < most ? 1 : 0)
}
