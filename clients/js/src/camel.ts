/** Members whose values, or whose members' values, are decimal integers. */
type IsAmount<Key> = Key extends
  | `${string}_per_gas`
  | `${string}_denominator`
  | 'minimum_base_fee'
  | 'l1_base_fee'
  | 'l1_blob_base_fee'
  | 'operator_fee_constant'
  | 'gas'
  | 'fee'
  | 'expected'
  | 'max'
  | 'max_send'
  ? true
  : false

type CamelCase<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Name

/** A body of the service with camelCase names, and `bigint` for amounts. Dollars stay strings. */
export type Camel<Value, InAmount = false> = Value extends string
  ? InAmount extends true
    ? bigint
    : Value
  : Value extends readonly (infer Item)[]
    ? Camel<Item, InAmount>[]
    : Value extends object
      ? {
          [Key in keyof Value as CamelCase<Key>]: Key extends 'usd'
            ? Value[Key]
            : Camel<Value[Key], InAmount extends true ? true : IsAmount<Key>>
        }
      : Value

const AMOUNT = /_per_gas$|_denominator$|^(minimum_base_fee|l1_(blob_)?base_fee|operator_fee_constant|gas|fee|expected|max|max_send)$/

/** Converts a body of the service. Throws an error if an amount is neither `null` nor a decimal integer in a string. */
export function camel<Value>(value: Value, isAmount?: boolean): Camel<Value>
export function camel(value: unknown, isAmount = false): unknown {
  if (value === null) return value
  if (Array.isArray(value)) return value.map((item) => camel(item, isAmount))
  if (typeof value !== 'object') return isAmount ? amount(value) : value
  const entries = Object.entries(value).map(([key, inner]) => [
    key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    key === 'usd' ? inner : camel(inner, isAmount || AMOUNT.test(key)),
  ])
  return Object.fromEntries(entries)
}

function amount(value: unknown): bigint {
  // 2^256 has 78 digits.
  if (typeof value === 'string' && /^\d{1,78}$/.test(value)) return BigInt(value)
  throw new Error(`${JSON.stringify(value)} is no amount`)
}
