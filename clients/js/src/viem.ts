import { type FeeOptions, suggestionOrNull } from './fallback.js'

export type { FeeOptions }

// Structural types fit the chains of every version of viem, with formatters of their own or without.
interface Request {
  maxFeePerGas?: bigint | undefined
  maxPriorityFeePerGas?: bigint | undefined
}

type Fees = { gasPrice: bigint } | { maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }

export interface GasFees {
  estimateFeesPerGas(args: { type: string; request?: Request | undefined }): Promise<Fees | null>
}

/**
 * Returns the `fees` of a viem chain: transactions without fees get the suggestion. If there is none, viem estimates
 * from the node, with one warning in the console.
 */
export function gasFees(options: FeeOptions): GasFees {
  const { tier = 'medium' } = options
  const suggestion = suggestionOrNull(options)
  return {
    async estimateFeesPerGas({ type, request }) {
      const current = await suggestion()
      if (!current) return null
      const { maxFeePerGas, maxPriorityFeePerGas } = current[tier]
      if (type === 'legacy') return { gasPrice: maxFeePerGas }
      return {
        maxFeePerGas: request?.maxFeePerGas ?? maxFeePerGas,
        maxPriorityFeePerGas: request?.maxPriorityFeePerGas ?? maxPriorityFeePerGas,
      }
    },
  }
}
