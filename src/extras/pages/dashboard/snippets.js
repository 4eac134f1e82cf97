// Code that uses a chain's suggestion, to copy.

/**
 * @param {string} url of the gas-suggestion route
 * @param {'medium' | 'high'} tier
 * @param {boolean} isLegacy true for a chain without EIP-1559
 * @returns {Record<string, string>} snippets by name
 */
export function snippets(url, tier, isLegacy) {
    const read = `const response = await fetch("${url}");\nif (!response.ok) throw new Error(await response.text());\nconst { ${tier}: fee } = await response.json();\n`;
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
