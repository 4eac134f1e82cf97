// `useSendTransaction` leaves the fees to the wallet. This hook sends the suggestion with the transaction.

import type { Address, Hex } from 'viem'
import { useConfig, useSendTransaction } from 'wagmi'
import { estimateFeesPerGas } from 'wagmi/actions'

export function useSuggestedSend() {
  const config = useConfig()
  const { mutateAsync, ...mutation } = useSendTransaction()
  const send = async (transaction: { to: Address; value?: bigint; data?: Hex }) =>
    mutateAsync({ ...(await estimateFeesPerGas(config)), ...transaction })
  return { ...mutation, send }
}
