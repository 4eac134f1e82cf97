// Texts of the score: how the suggestions that were served did. Pure functions.

const SCORE_ROWS = [
    {
        label: "Covered the base fee 5 blocks later",
        name: "covered.5",
        value: ({ covered }) => covered["5"],
        format: shareText,
    },
    {
        label: "Outbid a tenth of the next block",
        name: "outbid.10",
        value: ({ outbid }) => outbid["10"],
        format: shareText,
    },
    {
        label: "Multiple of the fair price paid (median)",
        name: "price_over_fair",
        value: ({ price_over_fair: price }) => price.p50,
        format: timesText,
    },
];
// By the service's `null_reasons`.
const NULL_REASONS = {
    percentile_not_polled: "the service does not request this reward percentile (pricing.reward_percentiles)",
    nothing_judged: "no block to compare with yet",
    none_outbid: "no suggestion outbid a tenth of the next block",
    fair_price_zero: "the fair price is 0",
    not_mined_yet: "the block is not mined yet",
};
const SCORE_NOTE =
    "The blocks that followed are compared with the suggestions; no transaction was sent. The fair price is the next " +
    "block’s base fee and the tip that outbids a tenth of it.";

/** Returns what the page shows of a score. */
export function scoreView({ window, tips_decide: tipsDecide, tiers }) {
    const rows = scoreRows(tiers.medium).map(({ label, name, value, format }) => {
        const cells = [tiers.medium, tiers.high].map((tier) => {
            const known = value(tier);
            if (Number.isFinite(known)) return { text: format(known) };
            return { text: "–", reason: NULL_REASONS[tier.null_reasons[name]] ?? "not known" };
        });
        return { label, cells };
    });
    const reasons = rows.flatMap(({ cells }) => cells.map(({ reason }) => reason)).filter(Boolean);
    const notes = [...new Set(reasons)].map((reason) => `–: ${reason}`);
    if (tipsDecide === false) notes.push("No block paid a tip at its median: any tip is enough.");
    return {
        title: window.heads === 1 ? "How the last suggestion did" : `How the last ${window.heads} suggestions did`,
        rows,
        notes: [...notes, SCORE_NOTE],
    };
}

/** Returns the rows of a score. If percentile 10 is not requested, each one that is has a row. */
function scoreRows({ outbid, null_reasons: nullReasons }) {
    const isRead = (percentile) => nullReasons[`outbid.${percentile}`] !== "percentile_not_polled";
    if (isRead("10")) return SCORE_ROWS;
    const known = Object.keys(outbid).filter(isRead);
    const rows = known.map((percentile) => ({
        label: `Outbid ${percentile} % of the next block`,
        name: `outbid.${percentile}`,
        value: (tier) => tier.outbid[percentile],
        format: shareText,
    }));
    return [SCORE_ROWS[0], ...rows, ...SCORE_ROWS.slice(1)];
}

/** Formats a share of suggestions. Only all of them are 100 %, and only none of them 0 %. */
function shareText(share) {
    if (share === 0 || share === 1) return `${share * 100} %`;
    return `${Math.min(Math.max(Math.round(share * 1000) / 10, 0.1), 99.9)} %`;
}

function timesText(ratio) {
    return `${ratio < 100 ? ratio.toFixed(2) : Math.round(ratio)} ×`;
}
