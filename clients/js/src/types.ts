import type { Camel } from './camel.js'
import type { GasSuggestionError } from './errors.js'
import type { components } from './schema.js'

type Schemas = components['schemas']

/** Fees of one tier, in wei per gas. On a legacy chain all three amounts are the gas price. */
export interface Tier {
  maxFeePerGas: bigint
  maxPriorityFeePerGas: bigint
  /** Gas price of a legacy transaction. Absent unless `type` is `legacy`. */
  gasPrice?: bigint
}

/** How old a response is. */
export interface Freshness {
  /** Newest block that the response was computed from. */
  block: number
  /** Age of the data in seconds. */
  age: number
  /** True if no newer block has come for too long, or if no node responds. */
  isStale: boolean
}

export interface Suggestion extends Freshness {
  chainName: string
  type: Schemas['GasSuggestion']['type']
  /** Base fee that both tiers cover, in wei. It is 0 on a legacy chain. */
  baseFeePerGas: bigint
  /** Should get into the next block or two. */
  medium: Tier
  /** For users in a hurry. */
  high: Tier
}

/** How a suggestion was calculated: the body of `/v1/{chain}/fee-market`. */
export interface Market extends Camel<Schemas['FeeMarket']>, Freshness {}

export interface GasClientOptions<Fallback = never> {
  /** URL of the service, with its base path if it has one. In web pages a path alone is enough. */
  url: string | URL
  /** Key of the chain in the service's configuration, or its chain id. */
  chain: string | number | bigint
  /** Longest wait for a response, in milliseconds. 2000 by default. */
  timeout?: number
  /**
   * What `suggestion()` returns if the service is away: a value, or a function that receives the error. Mistakes of the
   * caller, such as an unknown chain, are thrown nevertheless.
   */
  fallback?: Fallback | ((error: GasSuggestionError) => Fallback | Promise<Fallback>)
  /** Used instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch
}

export interface SubscribeOptions {
  /** Called with the current suggestion, with that of each new block, and every 15 s without a block. */
  onSuggestion: (suggestion: Suggestion) => void
  /** Called at each failure. The client then reconnects by itself, after 1 s to 30 s. */
  onError?: (error: GasSuggestionError) => void
}

export interface GasClient<Fallback = never> {
  /** Requests the current suggestion. */
  suggestion(): Promise<Suggestion | Fallback>
  /** Requests how the current suggestion was calculated. */
  market(): Promise<Market>
  /** Follows the chain block by block. Returns a function that ends the subscription. */
  subscribe(options: SubscribeOptions): () => void
}
