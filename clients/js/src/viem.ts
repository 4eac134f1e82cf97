import { type FeeOptions, tierOrNull } from './fallback.js'

export type { FeeOptions }

type Account = string | { address?: string } | null | undefined

// Structural types fit the chains and clients of every version of viem, with formatters of their own or without.
interface Client {
  account?: Account
  chain?: { id: number } | undefined
  request?(args: never): Promise<unknown>
}

interface Request {
  account?: Account
  chain?: { id: number } | null | undefined
  data?: string | undefined
  /** Token that pays the fees, on Celo. */
  feeCurrency?: unknown
  maxFeePerGas?: bigint | undefined
  maxPriorityFeePerGas?: bigint | undefined
  to?: string | null | undefined
  value?: bigint | undefined
}

interface Eip1559Fees {
  maxFeePerGas: bigint
  maxPriorityFeePerGas: bigint
}

type Fees = { gasPrice: bigint } | Eip1559Fees

interface Estimate {
  client?: Client | undefined
  /** viem's margin for the base fee. */
  multiply?(baseFee: bigint): bigint
  type: string
  request?: Request | undefined
}

export interface GasFees {
  /** viem's margin when the node sets the fees. */
  baseFeeMultiplier(args: Pick<Estimate, 'client' | 'request'>): number
  estimateFeesPerGas(args: Estimate): Promise<Fees | null>
}

// Chains whose own fees in viem are kept: those with `linea_estimateGas`, which prices the data, and those with twice the
// base fee. A test compares them with viem's.
const LINEA = [59144, 59141, 1660990954]
const HYPER_EVM = [999, 998]

/**
 * Returns the `fees` of a viem chain: transactions without fees get the suggestion. If there is none, viem estimates
 * from the node, with one warning in the console. Where viem has fees of its own for a chain, they are kept: for
 * transactions with a `feeCurrency` (Celo) or, on Linea and Status, with data.
 */
export function gasFees(options: FeeOptions): GasFees {
  const suggest = tierOrNull(options)
  return {
    baseFeeMultiplier({ client, request }) {
      const chain = request?.chain ?? client?.chain
      return chain && HYPER_EVM.includes(chain.id) ? 2 : 1.2
    },
    async estimateFeesPerGas(args) {
      const { client, type, request } = args
      if (request?.feeCurrency) return celoFees(args)
      const id = await chainIdOf(request, client)
      const isLinea = LINEA.includes(id!)
      const own = isLinea && /^0x.+/.test(request?.data ?? '') ? await lineaFees(args) : null
      if (own) return own
      const tier = await suggest(id)
      if (!tier) return isLinea ? lineaFees(args) : null
      if (type === 'legacy') return { gasPrice: tier.maxFeePerGas }
      return feesOf(tier, request)
    },
  }
}

/** Returns the fees in a token, as viem does for Celo: the node prices them. */
async function celoFees({ client, multiply = (baseFee) => baseFee, request }: Estimate): Promise<Fees> {
  const amount = async (method: string) => BigInt((await call(client!, method, [request!.feeCurrency])) as string)
  const [gasPrice, maxPriorityFeePerGas] = await Promise.all([amount('eth_gasPrice'), amount('eth_maxPriorityFeePerGas')])
  return { maxFeePerGas: multiply(gasPrice - maxPriorityFeePerGas) + maxPriorityFeePerGas, maxPriorityFeePerGas }
}

/** Returns the fees of a transaction with its data, as viem does for Linea. `null`: the node cannot tell. */
async function lineaFees({ client, multiply = (baseFee) => baseFee, request, type }: Estimate): Promise<Fees | null> {
  const account = request?.account ?? client?.account
  const from = typeof account === 'string' ? account : account?.address
  if (!from) return null
  const { to, data, value } = request ?? {}
  const transaction = { from, ...(to && { to }), ...(data && { data }), ...(value && { value: `0x${value.toString(16)}` }) }
  try {
    const result = (await call(client!, 'linea_estimateGas', [transaction])) as Record<string, string>
    const maxPriorityFeePerGas = BigInt(result.priorityFeePerGas!)
    const maxFeePerGas = multiply(BigInt(result.baseFeePerGas!)) + maxPriorityFeePerGas
    return type === 'legacy' ? { gasPrice: maxFeePerGas } : { maxFeePerGas, maxPriorityFeePerGas }
  } catch {
    return null
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
