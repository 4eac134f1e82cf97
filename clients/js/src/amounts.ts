/**
 * Formats an amount in gwei, rounded to this many significant digits: `formatGwei(1_234_567_890n)` is `'1.235'`. Pass
 * `Infinity` for the exact amount.
 */
export function formatGwei(wei: bigint, digits = 4): string {
  return decimal(wei, 9, digits)
}

/** Formats an amount in coins, such as ETH, rounded to this many significant digits. `Infinity`: the exact amount. */
export function formatCoin(wei: bigint, digits = 4): string {
  return decimal(wei, 18, digits)
}

/**
 * Formats an amount in dollars, rounded to this many significant digits. `usdPerCoin` is the price of a coin, as in
 * `(await gas.price()).usdPerCoin.price`. Throws a `TypeError` if it is no decimal number.
 */
export function formatUsd(wei: bigint, usdPerCoin: string, digits = 4): string {
  const [, whole, fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(usdPerCoin) ?? []
  if (!whole) throw new TypeError(`usdPerCoin must be a decimal number, not \`${usdPerCoin}\``)
  return decimal(wei * BigInt(whole + fraction), 18 + fraction.length, digits)
}

/** Formats `value` / 10^`decimals`, rounded half up in its magnitude, without zeros at the end. */
function decimal(value: bigint, decimals: number, digits: number): string {
  if (!(digits >= 1)) throw new TypeError('digits must be at least 1')
  const text = (value < 0n ? -value : value).toString()
  const unit = 10n ** BigInt(Math.max(0, text.length - Math.floor(digits)))
  const rounded = ((BigInt(text) + unit / 2n) / unit) * unit
  const padded = rounded.toString().padStart(decimals + 1, '0')
  const fraction = padded.slice(-decimals).replace(/0+$/, '')
  return (value < 0n ? '-' : '') + padded.slice(0, -decimals) + (fraction && `.${fraction}`)
}

/**
 * Returns the most that a transaction can pay for gas, in wei: its max fee per gas times its gas limit. Usually it pays
 * less, because the base fee of its block is below the max fee. On OP Stack chains the data fee comes on top.
 */
export function estimateCost(fees: { maxFeePerGas: bigint }, gas: bigint | number): bigint {
  return fees.maxFeePerGas * BigInt(gas)
}
