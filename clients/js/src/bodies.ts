// Bodies of the service, from its OpenAPI document.

import type { components } from './schema.js'

type Schemas = components['schemas']

export type MarketBody = Schemas['FeeMarket']
export type CostBody = Schemas['Cost']
export type FeesBody = Schemas['HorizonFees']
export type FeesCellBody = Schemas['HorizonCell']
export type UsdPerCoinBody = Schemas['UsdPerCoin']
