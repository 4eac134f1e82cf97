// A page with the price of gas, and with a button that sends a transaction at this price.

import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { formatGwei } from 'gas-suggestion'
import { usePrice } from 'gas-suggestion/react'
import { createRoot } from 'react-dom/client'
import { WagmiProvider, useConnect, useConnection, useConnectors } from 'wagmi'
import { config } from './config.js'
import { useSuggestedSend } from './use-suggested-send.js'

const TO = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'

function Send() {
  const { price, error } = usePrice({ url: 'http://localhost:8080', chain: 'ethereum' })
  const { isConnected } = useConnection()
  const connect = useConnect()
  const [connector] = useConnectors()
  const { send, data, isPending } = useSuggestedSend()
  if (!isConnected) return <button onClick={() => connect.mutate({ connector })}>Connect</button>
  return (
    <>
      <p>{price ? `${formatGwei(price.medium)} gwei` : (error?.message ?? 'Loading…')}</p>
      <button disabled={isPending} onClick={() => send({ to: TO, value: 1n })}>Send</button>
      {data && <output>{data}</output>}
    </>
  )
}

createRoot(document.body.appendChild(document.createElement('main'))).render(
  <WagmiProvider config={config}>
    <QueryClientProvider client={new QueryClient()}>
      <Send />
    </QueryClientProvider>
  </WagmiProvider>,
)
