import { FetchUrlFeeDataNetworkPlugin } from 'ethers'
import { type FeeOptions, tierOrNull } from './fallback.js'

export type { FeeOptions }

/**
 * Returns a plugin for a `Network` of ethers 6: transactions without fees get the suggestion. If there is none, ethers
 * estimates from the node, with one warning in the console.
 */
export function gasSuggestionPlugin(options: FeeOptions): FetchUrlFeeDataNetworkPlugin {
  const suggest = tierOrNull(options)
  return new FetchUrlFeeDataNetworkPlugin(String(options.url), async (estimate, provider) => {
    const network = await provider?.getNetwork()
    const tier = await suggest(network?.chainId)
    if (!tier) return estimate()
    const { maxFeePerGas, maxPriorityFeePerGas, gasPrice } = tier
    if (gasPrice !== undefined) return { gasPrice }
    return { gasPrice: maxFeePerGas, maxFeePerGas, maxPriorityFeePerGas }
  })
}
