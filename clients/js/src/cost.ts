import { fastLzLength, longestFastLz } from './fast-lz.js'
import { parseTransaction } from './transaction.js'
import type { Market } from './types.js'

/** Parameters of a chain's data fee: `dataFee` of `gas.market()`. `null`: not known. */
export type DataFeeParameters = Market['dataFee']

/** Fee for a transaction's data, in wei. */
export interface DataFee {
  fee: bigint
  /** With room for two full blocks of the chain below, until the transaction is mined. */
  max: bigint
  /** False: a bound that the exact fee never exceeds. */
  exact: boolean
}

// Bytes that a signature adds to a transaction, and to its FastLZ length (OP Stack specification, "Fjord").
const SIGNATURE_BYTES = 68
const SIGNATURE_FAST_LZ = 72

/**
 * Computes the fee that a transaction pays for its data, without a request. `transaction` is the serialised transaction as
 * hex, for which the fee is exact if it is signed, or the size of the signed one in bytes, for which it is a bound. Returns
 * `null` if the fee is not known: without parameters, or by a rule that this version does not know. Throws a `TypeError` if
 * it is no transaction.
 */
export function dataFee(parameters: DataFeeParameters, transaction: string | number): DataFee | null {
  const size = typeof transaction === 'number' ? sizeOfBytes(transaction) : sizeOfTransaction(transaction)
  if (parameters?.kind === 'none' || parameters?.kind === 'included') return { fee: 0n, max: 0n, exact: true }
  const { rule, baseFeeScalar, blobBaseFeeScalar, l1BaseFee, l1BlobBaseFee } = known(parameters) ?? {}
  if (baseFeeScalar == null || blobBaseFeeScalar == null || l1BaseFee == null || l1BlobBaseFee == null) return null
  const price = 16n * BigInt(baseFeeScalar) * l1BaseFee + BigInt(blobBaseFeeScalar) * l1BlobBaseFee
  const fee = rule === 'ecotone' ? (size.calldataGas * price) / 16_000_000n : (fjordSize(size.fastLz) * price) / 10n ** 12n
  return { fee, max: fee + (3n * fee + 9n) / 10n, exact: size.exact }
}

/**
 * Computes the operator fee of so much gas: the gas limit, for what a node demands of the balance. Returns `null` if it is
 * not known. Sources: OP Stack specifications of Isthmus and Jovian, "Operator fee".
 */
export function operatorFee(parameters: DataFeeParameters, gas: bigint | number): bigint | null {
  const limit = BigInt(gas)
  if (parameters?.kind === 'none' || parameters?.kind === 'included') return 0n
  const { rule, operatorFeeScalar, operatorFeeConstant } = known(parameters) ?? {}
  if (rule === 'ecotone' || rule === 'fjord') return 0n
  if (operatorFeeScalar == null || operatorFeeConstant == null) return null
  const product = limit * BigInt(operatorFeeScalar)
  return (rule === 'isthmus' ? product / 1_000_000n : product * 100n) + operatorFeeConstant
}

/** Returns the parameters if this version knows their rule. */
function known(parameters: DataFeeParameters) {
  if (parameters?.kind !== 'op-stack') return undefined
  // Services of other versions may have other rules.
  const rule = parameters.rule as string | null
  const isKnown = rule === 'ecotone' || rule === 'fjord' || rule === 'isthmus' || rule === 'jovian'
  return isKnown ? { ...parameters, rule } : undefined
}

/** Estimates the compressed size, in millionths of a byte (OP Stack specification, "Fjord": "Fees"). */
function fjordSize(fastLz: number): bigint {
  const size = 836_500n * BigInt(fastLz) - 42_585_600n
  return size > 100_000_000n ? size : 100_000_000n
}

interface Size {
  fastLz: number
  /** The measure before Fjord. */
  calldataGas: bigint
  exact: boolean
}

function sizeOfBytes(bytes: number): Size {
  if (!Number.isSafeInteger(bytes) || bytes < 1) throw new TypeError('a size must be a whole number of bytes, at least 1')
  return { fastLz: longestFastLz(bytes), calldataGas: 16n * BigInt(bytes), exact: false }
}

function sizeOfTransaction(hex: string): Size {
  const { bytes, isSigned } = parseTransaction(hex)
  const gas = bytes.reduce((sum, byte) => sum + (byte === 0 ? 4 : 16), isSigned ? 0 : 16 * SIGNATURE_BYTES)
  const fastLz = fastLzLength(bytes) + (isSigned ? 0 : SIGNATURE_FAST_LZ)
  return { fastLz, calldataGas: BigInt(gas), exact: isSigned }
}
