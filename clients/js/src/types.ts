import type { CostBody, FeesBody, FeesCellBody, MarketBody, UsdPerCoinBody } from './bodies.js'
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
export interface Market extends Camel<MarketBody>, Freshness {}

/** Price per gas that a transaction pays in the next block, in wei: base fee and tip. */
export interface Price extends Freshness {
  chainName: string
  chainId: number
  low: bigint
  medium: bigint
  high: bigint
  /** `low` or `high`: `medium` is less or more than usual in the last 24 hours. `null`: not known. */
  level: Market['level']
  /** Distance of `medium` to the median of the last 24 hours: 0.12 is 12 % above it. `null`: not known. */
  levelDeviation: number | null
  /** Symbol of the coin. `null`: not configured. */
  currency: string | null
  /** Price of a coin in dollars, for `formatUsd`. `null`: not known. */
  usdPerCoin: Camel<UsdPerCoinBody> | null
}

/** A transaction whose cost is requested: its serialised form, or what is known of it. */
export interface CostRequest {
  /** Gas limit. */
  gas: bigint | number
  /** Balance of the sender in wei. Needed for `maxSend`. */
  balance?: bigint | undefined
  /** Size of the signed transaction. 120 by default, which is a transfer. */
  bytes?: number | undefined
  /** Number of blobs. */
  blobs?: number | undefined
  /** The serialised transaction as hex, signed or not, in place of `bytes` and `blobs`. */
  transaction?: string | undefined
  /** How long the max fees have to cover the base fee, such as `30s`, at most `10m`. With it `maxSend` leaves less behind. */
  hold?: string | undefined
  /** Share of cases in which they do, from 0.5 to 0.999. 0.99 by default. */
  probability?: number | undefined
}

/**
 * What a transaction costs in all, in wei: the body of `/v1/{chain}/cost`.
 *
 * `tiers.*.maxSend` is the balance less `max`. To send everything, send it with the fees of the same tier, the gas limit of
 * the request, and within 24 s. It is `null` without a balance, and if the data fee is not known.
 */
export interface Cost extends Camel<CostBody>, Freshness {}

/** The body of `/v1/{chain}/fees`: one cell for each horizon and probability. */
export interface FeeMatrix extends Camel<FeesBody>, Freshness {}

/** Fees that get a transaction into one of the next `within` blocks with this probability. */
export interface Fees extends Omit<FeeMatrix, 'cells'>, Camel<FeesCellBody> {}

/** How long the max fees have to cover the base fee. */
export interface HoldRequest {
  /** A duration such as `60s`, at most `10m`. */
  hold: string
  /** From 0.5 to 0.999, with `within` to 0.99. 0.95 by default. */
  probability?: number | undefined
}

/** The probability is required without `hold`. */
export type FeesRequest = {
  /** Number of blocks from 1 to 25, or a duration such as `30s`. */
  within: number | string
} & (HoldRequest | { hold?: undefined; probability: number })

export interface WaitRequest {
  /** Price per gas in wei, or a percentile of the last day's prices from `p1` to `p99`. */
  below: bigint | string
  /** Longest wait in milliseconds, from 1000 to 120000. 30000 by default. */
  timeout?: number | undefined
  /** Ends the wait. The promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

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
  /** Requests the price per gas of each tier in the next block. */
  price(): Promise<Price>
  /** Requests the current suggestion. */
  suggestion(): Promise<Suggestion | Fallback>
  /** Requests how the current suggestion was calculated. */
  market(): Promise<Market>
  /** Requests what a transaction costs in all, and how much can be sent beside it. */
  cost(request: CostRequest): Promise<Cost>
  /** Requests the fees for a horizon and a probability. */
  fees(request: FeesRequest): Promise<Fees>
  /** Requests the fees for all horizons and probabilities of the service. */
  fees(request?: HoldRequest): Promise<FeeMatrix>
  /**
   * Waits until the expected price of the medium tier is not above `below`. Returns the market then, or `null` after
   * `timeout`.
   */
  wait(request: WaitRequest): Promise<Market | null>
  /** Follows the chain block by block. Returns a function that ends the subscription. */
  subscribe(options: SubscribeOptions): () => void
}
