// Compiled by package.test.mjs: chains of viem with and without formatters of their own.

import { gasFees } from 'gas-suggestion/viem'
import { createPublicClient, defineChain, http } from 'viem'
import { mainnet, optimism } from 'viem/chains'

const url = 'http://localhost:8080'

export const chain = defineChain({ ...mainnet, fees: gasFees({ url, chain: 'ethereum' }) })
export const rollup = defineChain({ ...optimism, fees: gasFees({ url, chain: 10, tier: 'high' }) })
export const client = createPublicClient({ chain, transport: http() })
// @ts-expect-error there is no such tier
export const low = gasFees({ url, chain: 10, tier: 'low' })
