// Compiled by package.test.mjs: how users write it, in strict mode.

import { JsonRpcProvider, Network } from 'ethers'
import {
  createGasClient,
  estimateCost,
  formatCoin,
  formatGwei,
  formatUsd,
  GasSuggestionError,
  type Cost,
  type Market,
  type Price,
  type Suggestion,
} from 'gas-suggestion'
import { dataFee, operatorFee } from 'gas-suggestion/cost'
import { gasSuggestionPlugin } from 'gas-suggestion/ethers'
import { useCost, useFees, useMarket, usePrice, useSuggestion } from 'gas-suggestion/react'

const url = 'http://localhost:8080'

export async function core(): Promise<void> {
  const gas = createGasClient({ url, chain: 'ethereum', timeout: 500 })
  const suggestion: Suggestion = await gas.suggestion()
  const fee: bigint = suggestion.high.maxPriorityFeePerGas
  const price: bigint | undefined = suggestion.medium.gasPrice
  const type: 'eip-1559' | 'legacy' = suggestion.type
  const text: string = formatGwei(fee) + price + type + estimateCost(suggestion.medium, 21_000)
  const market: Market = await gas.market()
  const next: bigint | null = market.nextBaseFeePerGas
  const rewards: (bigint | null)[] = market.averageRewardPerGas
  const low: bigint = market.expectedPricePerGas.low
  const minimum: bigint | null = market.chainParameters.minimumBaseFee
  const trend: 'rising' | 'stable' | 'falling' = market.baseFeeTrend
  const isStale: boolean = market.isStale
  const tip: bigint = market.suggestion.medium.maxPriorityFeePerGas
  const stop: () => void = gas.subscribe({
    onSuggestion: ({ block }) => console.log(block + 1, text, next, rewards, low, minimum, trend, isStale, tip),
    onError: (error) => console.log(error.code === 'no_data', error.status),
  })
  stop()
  createGasClient({ url: new URL(url), chain: 1n })
  // @ts-expect-error the chain is required
  createGasClient({ url })
  const withFallback = createGasClient({ url, chain: 1, fallback: (error) => (error.isTemporary ? null : 0n) })
  const either: Suggestion | bigint | null = await withFallback.suggestion()
  if (either === null || typeof either === 'bigint') throw new GasSuggestionError('timeout', 'none')

  // @ts-expect-error amounts are bigint
  const wrong: number = suggestion.medium.maxFeePerGas
  // @ts-expect-error there is no such code
  const code = new GasSuggestionError('no_such_code', `${wrong}`)
  // @ts-expect-error the fallback may be null
  const missing: Suggestion = await withFallback.suggestion()
  console.log(code, missing)
}

const network = new Network('ethereum', 1)
network.attachPlugin(gasSuggestionPlugin({ url }))
network.attachPlugin(gasSuggestionPlugin({ url, chain: network.chainId, tier: 'high' }))
export const provider = new JsonRpcProvider('http://localhost:8545', network, { staticNetwork: network })

export async function costs(): Promise<void> {
  const gas = createGasClient({ url, chain: 'base' })
  const { low, currency, usdPerCoin, level, levelDeviation }: Price = await gas.price()
  const parts: (string | null)[] = [formatGwei(low), formatCoin(low, 2), currency, level, String(levelDeviation)]
  const dollars: string = usdPerCoin ? formatUsd(low, usdPerCoin.price) : ''
  const { tiers, dataFee: fee, usd }: Cost = await gas.cost({ gas: 21_000n, balance: 10n ** 18n })
  const amounts: (bigint | null)[] = [tiers.low.expected, tiers.medium.max, tiers.high.maxSend]
  const parameters: bigint[] = [tiers.medium.maxFeePerGas, fee?.fee ?? 0n, fee?.operatorFee.max ?? 0n]
  const inDollars: string | undefined = usd?.medium.expected
  await gas.cost({ gas: 21_000, transaction: '0x02', hold: '30s', probability: 0.999 })
  const { maxFeePerGas, kept } = await gas.fees({ within: 3, probability: 0.95 })
  const held: number | undefined = (await gas.fees({ within: '30s', hold: '60s' })).holdSeconds
  const rises: number | undefined = (await gas.fees({ hold: '60s', probability: 0.999 })).estimatedFrom
  const cell: bigint | undefined = (await gas.fees()).cells[0]?.expectedPricePerGas
  const cheap: Market | null = await gas.wait({ below: 'p20', timeout: 60_000, signal: new AbortController().signal })
  const local: bigint | undefined = dataFee(cheap?.dataFee ?? null, 120)?.max
  const operator: bigint | null = operatorFee((await gas.market()).dataFee, 21_000n)
  console.log(parts, dollars, amounts, parameters, inDollars, maxFeePerGas, kept, held, rises, cell, local, operator)
  // @ts-expect-error the gas limit is required
  await gas.cost({ balance: 1n })
  // @ts-expect-error the probability is required without a hold
  await gas.fees({ within: 3 })
  // @ts-expect-error the balance is exact
  await gas.cost({ gas: 21_000, balance: 1 })
}

export function Component(): string {
  const options = { url, chain: 'ethereum' }
  const { suggestion, block, age, isStale, error } = useSuggestion(options)
  const message: string | undefined = error?.message
  const price: bigint | undefined = usePrice(options).price?.medium
  const maxSend: bigint | null | undefined = useCost(options, { gas: 21_000n }).cost?.tiers.medium.maxSend
  const fee: bigint | undefined = useFees(options, { within: 3, probability: 0.95 }).fees?.maxFeePerGas
  const count: number | undefined = useFees(options).fees?.cells.length
  const newest: number | undefined = useMarket(options).market?.newestBlock
  useCost(options, undefined)
  return `${suggestion?.medium.maxFeePerGas} ${block} ${age} ${isStale} ${message} ${price} ${maxSend} ${fee} ${count} ${newest}`
}
