// Bodies of the service, from its OpenAPI document. Those that are written by hand come from src/schema.ts too, as soon as
// the document has them and `npm run schema` was run.

import type { components } from './schema.js'

type Schemas = components['schemas']

/** By hand: `usd_per_coin`. */
export interface MarketBody extends Omit<Schemas['FeeMarket'], 'usd_per_coin'> {
  /** Price of the coin in dollars. `null`, or absent: not known. */
  usd_per_coin?: UsdPerCoinBody | null
}

/** By hand: `UsdPerCoin`. */
export interface UsdPerCoinBody {
  /** A decimal number with all digits of the feed. */
  price: string
  observed_at: string
  /** The feed that the price comes from. */
  source: string
}

/** By hand: `usd`. */
export interface CostBody extends Omit<Schemas['Cost'], 'usd'> {
  /** The costs in dollars, as decimal numbers. `null`: the price of the coin or the data fee is not known. */
  usd: { low: UsdCostBody; medium: UsdCostBody; high: UsdCostBody } | null
}

/** By hand: `UsdCost`. */
export interface UsdCostBody {
  expected: string
  max: string
}

/** By hand: `HorizonFees`. */
export interface FeesBody {
  chain_name: string
  chain_id: number
  newest_block: number
  /** Newest block whose rewards were used. */
  rewards_to: number
  /** Reward percentile that a block's price is compared by. */
  percentile: number
  cells: FeesCellBody[]
}

/** By hand: `HorizonCell`. */
export interface FeesCellBody {
  /** The transaction gets into one of so many next blocks… */
  within: number
  /** …in this share of cases. */
  probability: number
  max_priority_fee_per_gas: string
  max_fee_per_gas: string
  /** Price per gas in the next block. */
  expected_price_per_gas: string
  /** Share of the last hour's fees that kept this promise. `null`: fewer than 100 were judged. */
  kept: number | null
  judged: number
}
