// The chain whose fees come from the service. `useEstimateFeesPerGas` returns the suggestion.

import { gasFees } from 'gas-suggestion/viem'
import { defineChain, http } from 'viem'
import { mainnet } from 'viem/chains'
import { createConfig, injected } from 'wagmi'

export const chain = defineChain({ ...mainnet, fees: gasFees({ url: 'http://localhost:8080' }) })

export const config = createConfig({
  chains: [chain],
  connectors: [injected()],
  // A node with this method would set the fees itself.
  transports: { [chain.id]: http('http://localhost:8545', { methods: { exclude: ['eth_fillTransaction'] } }) },
})
