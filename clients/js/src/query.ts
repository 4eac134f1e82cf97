const NUMBER = /^\d{1,39}$/
const PATTERNS: Record<string, RegExp> = {
  transaction: /^0x([\da-f]{2})+$/i,
  probability: /^0?\.\d+$/,
  within: /^(\d{1,39}|(\d+(ms|s|m))+)$/,
  hold: /^(0|(\d+(ms|s|m))+)$/,
  below: /^(\d{1,39}|p[1-9]\d?)$/,
}

/** Returns the members that are set, as strings. Throws a `TypeError` if one of them cannot be right. */
export function parametersOf(members: object): Record<string, string> {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const text = String(value)
      // A larger number may have lost digits.
      const isExact = typeof value !== 'number' || value <= Number.MAX_SAFE_INTEGER
      if (isExact && (PATTERNS[name] ?? NUMBER).test(text)) return [name, text]
      throw new TypeError(`${name} cannot be \`${text.slice(0, 100)}\``)
    }),
  )
}

/** Returns a path with these parameters, which need no escapes. */
export function pathOf(path: string, parameters: Record<string, string>): string {
  const query = Object.entries(parameters).map((pair) => pair.join('='))
  return query.length > 0 ? `${path}?${query.join('&')}` : path
}
