// Compiled by package.test.mjs: how users write it, in strict mode.

import { JsonRpcProvider, Network } from 'ethers'
import { createGasClient, estimateCost, formatGwei, GasSuggestionError, type Market, type Suggestion } from 'gas-suggestion'
import { gasSuggestionPlugin } from 'gas-suggestion/ethers'
import { useGasSuggestion } from 'gas-suggestion/react'

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

export function Price(): string {
  const { suggestion, block, age, isStale, error } = useGasSuggestion({ url, chain: 'ethereum' })
  const message: string | undefined = error?.message
  return `${suggestion?.medium.maxFeePerGas} ${block} ${age} ${isStale} ${message}`
}
