import { type FeeOptions, tierOrNull } from './fallback.js'

export type { FeeOptions }

// Structural types fit the chains and clients of every version of viem, with formatters of their own or without.
interface Client {
  chain?: { id: number } | undefined
  request?(args: never): Promise<unknown>
}

interface Request {
  chain?: { id: number } | null | undefined
  maxFeePerGas?: bigint | undefined
  maxPriorityFeePerGas?: bigint | undefined
}

interface Eip1559Fees {
  maxFeePerGas: bigint
  maxPriorityFeePerGas: bigint
}

type Fees = { gasPrice: bigint } | Eip1559Fees

export interface GasFees {
  estimateFeesPerGas(args: {
    client?: Client | undefined
    type: string
    request?: Request | undefined
  }): Promise<Fees | null>
}

/**
 * Returns the `fees` of a viem chain: transactions without fees get the suggestion. If there is none, viem estimates
 * from the node, with one warning in the console.
 */
export function gasFees(options: FeeOptions): GasFees {
  const suggest = tierOrNull(options)
  return {
    async estimateFeesPerGas({ client, type, request }) {
      const tier = await suggest(await chainIdOf(request, client))
      if (!tier) return null
      if (type === 'legacy') return { gasPrice: tier.maxFeePerGas }
      return feesOf(tier, request)
    },
  }
}

export type UserOperationFees = (args: {
  bundlerClient: Client & { client?: Client | undefined }
  account?: { client?: Client | undefined } | undefined
  userOperation?: Request | undefined
}) => Promise<Eip1559Fees>

/**
 * Returns the `userOperation.estimateFeesPerGas` of a viem bundler client: user operations without fees get the
 * suggestion. If there is none, they get twice the node's fees, as in viem, with one warning in the console.
 */
export function userOperationFees(options: FeeOptions): UserOperationFees {
  const suggest = tierOrNull(options)
  return async ({ bundlerClient, account, userOperation }) => {
    // A bundler may lack the node's methods.
    const node = bundlerClient.client ?? account?.client ?? bundlerClient
    const tier = await suggest(await chainIdOf(bundlerClient, node))
    return feesOf(tier ?? (await estimate(node)), userOperation)
  }
}

/** Returns the fees that the caller has set, and those of `fees` for the rest. */
function feesOf(fees: Eip1559Fees, own?: Request): Eip1559Fees {
  return {
    maxFeePerGas: own?.maxFeePerGas ?? fees.maxFeePerGas,
    maxPriorityFeePerGas: own?.maxPriorityFeePerGas ?? fees.maxPriorityFeePerGas,
  }
}

/** Returns the id of the first of these that has a chain, or else that of the client's node. */
async function chainIdOf(first: Request | Client | undefined, client: Client | undefined): Promise<number | undefined> {
  const chain = first?.chain ?? client?.chain
  if (chain || !client?.request) return chain?.id
  return Number(await call(client, 'eth_chainId'))
}

/** Returns viem's own estimate for user operations. Bundlers ask for more than the node. */
async function estimate(node: Client): Promise<Eip1559Fees> {
  const { baseFeePerGas = '0x0' } = (await call(node, 'eth_getBlockByNumber', ['latest', false])) as { baseFeePerGas?: string }
  const baseFee = BigInt(baseFeePerGas)
  const amount = async (method: string) => BigInt((await call(node, method)) as string)
  // A node without the method, or a chain without EIP-1559.
  const tip = await amount('eth_maxPriorityFeePerGas').catch(async () => (await amount('eth_gasPrice')) - baseFee)
  const maxPriorityFeePerGas = 2n * (tip > 0n ? tip : 0n)
  return { maxFeePerGas: 2n * ((baseFee * 12n) / 10n) + maxPriorityFeePerGas, maxPriorityFeePerGas }
}

function call(client: Client, method: string, params: unknown[] = []): Promise<unknown> {
  return client.request!({ method, params } as never)
}
