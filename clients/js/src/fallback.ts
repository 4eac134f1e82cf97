import { createGasClient } from './client.js'
import type { GasClientOptions, Suggestion } from './types.js'

/** Options of the plugins for viem and ethers. */
export interface FeeOptions extends Omit<GasClientOptions, 'fallback'> {
  /** `medium` by default. */
  tier?: 'medium' | 'high'
}

/**
 * Returns a function that requests the suggestion, and `null` if there is none. The first failure after a success is
 * written to the console.
 */
export function suggestionOrNull(options: FeeOptions): () => Promise<Suggestion | null> {
  const gas = createGasClient(options)
  let hasWarned = false
  return async () => {
    try {
      const suggestion = await gas.suggestion()
      hasWarned = false
      return suggestion
    } catch (error) {
      if (!hasWarned) console.warn('no gas suggestion, the node sets the fees:', error)
      hasWarned = true
      return null
    }
  }
}
