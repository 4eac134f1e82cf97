/** Returns an amount in gwei, exactly, without trailing zeros: `formatGwei(1_500_000_000n)` is `'1.5'`. */
export function formatGwei(wei: bigint): string {
  const digits = (wei < 0n ? -wei : wei).toString().padStart(10, '0')
  const fraction = digits.slice(-9).replace(/0+$/, '')
  return (wei < 0n ? '-' : '') + digits.slice(0, -9) + (fraction && `.${fraction}`)
}

/**
 * Returns the most that a transaction can pay for gas, in wei: its max fee per gas times its gas limit. Usually it pays
 * less, because the base fee of its block is below the max fee. On L2 chains the fee for L1 data comes on top.
 */
export function estimateCost(fees: { maxFeePerGas: bigint }, gas: bigint | number): bigint {
  return fees.maxFeePerGas * BigInt(gas)
}
