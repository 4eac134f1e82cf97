// Code that uses a chain's suggestion, to copy.

/**
 * @param {string} url of the gas-suggestion route; for the low tier, which suggestions do not have, of the cost route
 * @param {'low' | 'medium' | 'high'} tier
 * @param {boolean} isLegacy true for a chain without EIP-1559
 * @returns {Record<string, string>} snippets by name
 */
export function snippets(url, tier, isLegacy) {
    const names = tier === "low" ? "{ tiers: { low: fee } }" : `{ ${tier}: fee }`;
    const read = `const response = await fetch("${url}");\nif (!response.ok) throw new Error(await response.text());\nconst ${names} = await response.json();\n`;
    const fees = isLegacy
        ? "    gasPrice: BigInt(fee.max_fee_per_gas),\n"
        : "    maxFeePerGas: BigInt(fee.max_fee_per_gas),\n" +
          "    maxPriorityFeePerGas: BigInt(fee.max_priority_fee_per_gas),\n";
    return {
        curl: `curl -s '${url}'`,
        viem: `${read}await walletClient.sendTransaction({\n    to,\n    value,\n${fees}});\n`,
        ethers: `${read}await signer.sendTransaction({\n    to,\n    value,\n${fees}});\n`,
    };
}
