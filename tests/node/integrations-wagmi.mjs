// A wagmi application whose wallet is the node:
// `node integrations-wagmi.mjs FOLDER NODE "with the hook"|"without the hook"`.
//
// FOLDER has the files of docs/integrations.md. NODE is an anvil. Like a wallet, it sets its own fees on a transaction
// without fees. The script sends one transaction and prints its block.

import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { pathToFileURL } from "node:url";

const [, , folder, node, mode] = process.argv;

const ethereum = {
    async request({ method, params = [] }) {
        const name = method === "eth_requestAccounts" ? "eth_accounts" : method;
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: name, params });
        const headers = { "content-type": "application/json" };
        const { error, result } = await (await fetch(node, { method: "POST", headers, body })).json();
        if (error) throw Object.assign(new Error(error.message), { code: error.code });
        return result;
    },
    on() {},
    removeListener() {},
};
// wagmi looks for `window.ethereum` when it is imported.
globalThis.window = Object.assign(new EventTarget(), { ethereum });

const { QueryClient, QueryClientProvider } = await import("@tanstack/react-query");
const { WagmiProvider, useSendTransaction } = await import("wagmi");
const { connect, waitForTransactionReceipt } = await import("wagmi/actions");
const { config } = await import(pathToFileURL(`${folder}/config.js`));
const { useSend } = await import(pathToFileURL(`${folder}/use-send.js`));

let send;
function Page() {
    const { mutateAsync } = useSendTransaction();
    const suggested = useSend();
    send = mode === "with the hook" ? suggested : mutateAsync;
    return null;
}
const providers = [
    [WagmiProvider, { config, reconnectOnMount: false }],
    [QueryClientProvider, { client: new QueryClient() }],
];
renderToString(providers.reduceRight(
    (inner, [provider, properties]) => createElement(provider, properties, inner), createElement(Page)));
await connect(config, { connector: config.connectors[0] });

const hash = await send({ to: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", value: 1n });
const { blockNumber } = await waitForTransactionReceipt(config, { hash });
console.log(`${hash} is in block ${blockNumber}`);
// The timers of the query client and of wagmi's stores would keep the process running.
process.exit();
