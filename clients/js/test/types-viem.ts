// Compiled by package.test.mjs: chains of viem with and without formatters of their own.

import { gasFees, userOperationFees } from 'gas-suggestion/viem'
import { createPublicClient, defineChain, http } from 'viem'
import { type BundlerClientConfig, createBundlerClient } from 'viem/account-abstraction'
import { celo, mainnet, optimism, zksync } from 'viem/chains'

const url = 'http://localhost:8080'

export const chain = defineChain({ ...mainnet, fees: gasFees({ url, chain: 'ethereum' }) })
export const rollup = defineChain({ ...optimism, fees: gasFees({ url, chain: 10, tier: 'high' }) })
export const client = createPublicClient({ chain, transport: http() })
// One for all chains.
const fees = gasFees({ url: new URL(url) })
export const chains = [defineChain({ ...celo, fees }), { ...zksync, fees }, { ...mainnet, fees }] as const
const estimateFeesPerGas = userOperationFees({ url, tier: 'high' })
export const bundlers = [
  createBundlerClient({ client, transport: http(), userOperation: { estimateFeesPerGas } }),
  createBundlerClient({ chain: optimism, transport: http(), userOperation: { estimateFeesPerGas } }),
]
export const userOperation: BundlerClientConfig['userOperation'] = { estimateFeesPerGas }
// @ts-expect-error there is no such tier
export const low = gasFees({ url, chain: 10, tier: 'low' })
