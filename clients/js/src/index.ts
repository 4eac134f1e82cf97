export { estimateCost, formatCoin, formatGwei, formatUsd } from './amounts.js'
export { createGasClient } from './client.js'
export { GasSuggestionError, type GasSuggestionErrorCode } from './errors.js'
export type * from './types.js'
