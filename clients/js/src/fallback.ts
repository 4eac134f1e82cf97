import { chainName } from './address.js'
import { createGasClient } from './client.js'
import { GasSuggestionError } from './errors.js'
import type { GasClient, GasClientOptions, Tier } from './types.js'

/** Options of the plugins for viem and ethers. */
export interface FeeOptions extends Omit<GasClientOptions, 'chain' | 'fallback'> {
  /**
   * Key or id of the only chain that may use these fees. Transactions on another chain throw a `TypeError`. Without it
   * the fees are those of the chain of viem's client or ethers' provider.
   */
  chain?: GasClientOptions['chain'] | undefined
  /** `medium` by default. */
  tier?: 'medium' | 'high' | undefined
}

interface Source {
  gas: GasClient
  /** Chain id, once it is known. */
  id: string | undefined
  hasWarned: boolean
}

/**
 * Returns a function that requests a tier of the suggestion for a chain id, and `null` if there is none. The first
 * failure after a success is written to the console. Throws a `TypeError` if an option cannot be right, and so does the
 * function if the fees are those of another chain.
 */
export function tierOrNull(options: FeeOptions): (chainId?: number | bigint) => Promise<Tier | null> {
  const { chain, tier = 'medium', ...rest } = options
  if (tier !== 'medium' && tier !== 'high') throw new TypeError('tier must be `medium` or `high`')
  const only = chain === undefined ? undefined : chainName(chain)
  const sources = new Map<string, Source>()

  function sourceOf(name: string): Source {
    const known = sources.get(name)
    if (known) return known
    const id = /^(\d+|0x[\da-f]+)$/i.test(name) ? String(BigInt(name)) : undefined
    const source = { gas: createGasClient({ ...rest, chain: name }), id, hasWarned: false }
    sources.set(name, source)
    return source
  }
  // Checks the options at once. The chain is of no importance.
  sourceOf(only ?? '1')

  return async (chainId) => {
    const name = only ?? chainId?.toString()
    if (name === undefined) throw new TypeError('chain is required, because the library does not name one')
    const source = sourceOf(name)
    const refuseOthers = () => {
      if (chainId === undefined || !source.id || source.id === String(chainId)) return
      throw new TypeError(`these are the fees of chain ${source.id}, not of chain ${chainId}`)
    }
    refuseOthers()
    try {
      const { gas, id } = source
      // A suggestion has no chain id. That of a key is requested once.
      const isIdNeeded = chainId !== undefined && !id
      const [suggestion, market] = await Promise.all([gas.suggestion(), isIdNeeded ? gas.market() : undefined])
      if (market) source.id = String(market.chainId)
      source.hasWarned = false
      refuseOthers()
      return suggestion[tier]
    } catch (error) {
      if (!(error instanceof GasSuggestionError)) throw error
      if (!source.hasWarned) console.warn(`no gas suggestion, the node sets the fees: ${error.message}`)
      source.hasWarned = true
      return null
    }
  }
}
