import { FetchUrlFeeDataNetworkPlugin } from 'ethers'
import { type FeeOptions, suggestionOrNull } from './fallback.js'

export type { FeeOptions }

/**
 * Returns a plugin for a `Network` of ethers 6: transactions without fees get the suggestion. If there is none, ethers
 * estimates from the node, with one warning in the console.
 */
export function gasSuggestionPlugin(options: FeeOptions): FetchUrlFeeDataNetworkPlugin {
  const { tier = 'medium' } = options
  const suggestion = suggestionOrNull(options)
  return new FetchUrlFeeDataNetworkPlugin(String(options.url), async (estimate) => {
    const current = await suggestion()
    if (!current) return estimate()
    const { maxFeePerGas, maxPriorityFeePerGas, gasPrice } = current[tier]
    if (gasPrice !== undefined) return { gasPrice }
    return { gasPrice: maxFeePerGas, maxFeePerGas, maxPriorityFeePerGas }
  })
}
