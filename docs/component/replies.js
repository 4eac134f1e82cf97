// Replies of the service's demo at one block of Ethereum and Base, reduced to what the component reads. `age` is the header
// of that name, in seconds. The block times are those of the chains. Base is shown as stale.
export const REPLIES = {
    "ethereum/fee-market": { body: {
        chain_name: "ethereum",
        chain_id: 1,
        stale: false,
        suggestion: { chain_name: "ethereum", type: "eip-1559", base_fee_per_gas: "1716235804", medium: { max_priority_fee_per_gas: "79000000", max_fee_per_gas: "1795235804" }, high: { max_priority_fee_per_gas: "279309588", max_fee_per_gas: "1995545392" } },
        expected_price_per_gas: { low: "860117902", medium: "937117902", high: "1137427490" },
        level: "low",
        level_deviation: -0.151537,
    } },
    "ethereum/fees": { body: {
        cells: [
            { within: 1, probability: 0.8, max_priority_fee_per_gas: "2011517", max_fee_per_gas: "1022543679" },
            { within: 2, probability: 0.8, max_priority_fee_per_gas: "1617000", max_fee_per_gas: "1022149162" },
            { within: 3, probability: 0.8, max_priority_fee_per_gas: "1470000", max_fee_per_gas: "1022002162" },
            { within: 5, probability: 0.8, max_priority_fee_per_gas: "1400000", max_fee_per_gas: "1021932162" },
            { within: 10, probability: 0.8, max_priority_fee_per_gas: "1400000", max_fee_per_gas: "1021932162" },
            { within: 25, probability: 0.8, max_priority_fee_per_gas: "0", max_fee_per_gas: "1020532162" },
        ],
    } },
    chains: { body: [{ chain_id: 1, block_time_ms: 12_000 }] },
    "base/fee-market": { body: {
        chain_name: "base",
        chain_id: 8453,
        stale: true,
        suggestion: { chain_name: "base", type: "eip-1559", base_fee_per_gas: "10830380", medium: { max_priority_fee_per_gas: "1204777", max_fee_per_gas: "12035157" }, high: { max_priority_fee_per_gas: "1445732", max_fee_per_gas: "12276112" } },
        expected_price_per_gas: { low: "6448305", medium: "6653082", high: "6894037" },
        level: null,
        level_deviation: null,
    }, age: 42 },
};
