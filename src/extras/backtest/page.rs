//! A report as an HTML page: each estimator as a point of a chart, and below it a table with the same numbers.
//!
//! The page contains its scripts, styles and data, so it needs no network. The browser draws the chart from the
//! document that `--json` prints.

use super::horizon::HorizonScore;
use super::json;
use super::measures::{Score, Share};
use super::table;
use super::verdict;
use super::{Recording, Report};
use crate::extras::pages::{BASE_CSS, UPLOT_CSS, UPLOT_JS, UPLOT_LICENSE};
use crate::fees::gwei::rounded_gwei;

/// Columns of the table: what the vertical and the horizontal axis of the chart show.
struct Columns {
    share: fn(&Score) -> Option<Share>,
    share_name: &'static str,
    cost: fn(&Score) -> Option<String>,
    cost_name: &'static str,
}

const INCLUSION: Columns = Columns {
    share: |score| score.included_next,
    share_name: "Included in the next block",
    cost: |score| score.overpaid_p50.map(rounded_gwei),
    cost_name: "Overpaid in gwei, median",
};

/// For recordings without tips.
const COVERAGE: Columns = Columns {
    share: |score| score.covers_horizon,
    share_name: "Covers the base fee after 25 blocks",
    cost: |score| score.max_fee_permille.map(table::multiple),
    cost_name: "Max fee / base fee, median",
};

/// Renders the page.
///
/// # Errors
///
/// Fails only if JSON serialisation fails.
pub(crate) fn render(report: &Report<'_>, landing_percentile: f64) -> serde_json::Result<String> {
    let columns = if report.recording.has_tips() { &INCLUSION } else { &COVERAGE };
    let document = json::document(std::slice::from_ref(report), landing_percentile)?;
    let estimators = report.scores.iter().map(|score| estimator_row(score, columns));
    let horizon = report.horizon.iter().flat_map(|horizon| &horizon.cells);
    let horizon = horizon.filter(|cell| has_point(cell, report.recording)).map(horizon_row);
    let rows: String = estimators.chain(horizon).collect();
    Ok(format!(
        include_str!("page/page.html"),
        title = escape_html(&report.title()),
        base_css = BASE_CSS,
        uplot_css = UPLOT_CSS,
        style = include_str!("page/style.css"),
        verdict = paragraphs(&verdict::lines(report)),
        share_name = columns.share_name,
        cost_name = columns.cost_name,
        rows = rows,
        notes = paragraphs(&report.notes),
        // No text of the document can end the script element that contains it.
        document = document.replace('<', "\\u003c"),
        uplot_license = UPLOT_LICENSE,
        uplot_js = UPLOT_JS,
        script = include_str!("page/chart.js"),
    ))
}

/// Returns true if the share of the cell is that of the chart: the inclusion in the next block.
fn has_point(cell: &HorizonScore, recording: &Recording) -> bool {
    recording.has_tips() && cell.within == 1
}

/// Returns the table's row of one estimator.
fn estimator_row(score: &Score, columns: &Columns) -> String {
    row(&score.name, (columns.share)(score), (columns.cost)(score))
}

/// Returns the table's row of a pair of the matrix, for the columns of recordings with tips.
fn horizon_row(cell: &HorizonScore) -> String {
    let name = format!("fees within 1 block, {} %", cell.percent);
    row(&name, Some(cell.kept), cell.overpaid_p50.map(rounded_gwei))
}

fn row(name: &str, share: Option<Share>, cost: Option<String>) -> String {
    let share = share.map(|share| format!("{:.2} %", share.value() * 100.0));
    let cell = |value: Option<String>| value.unwrap_or_else(|| table::UNKNOWN.into());
    let (name, share, cost) = (escape_html(name), cell(share), cell(cost));
    format!("<tr><th scope=\"row\">{name}</th><td>{share}</td><td>{cost}</td></tr>\n")
}

fn paragraphs(lines: &[String]) -> String {
    let paragraphs = lines.iter().map(|line| format!("<p>{}</p>", escape_html(line)));
    paragraphs.collect::<Vec<_>>().join("\n")
}

/// Escapes text that stands between tags.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extras::backtest::{RecordedBlock, Recording, all_estimators};
    use crate::fees::Pricing;

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- &amp; {title}";

    /// Renders the page of a recording and estimators with hostile names.
    fn hostile_page() -> String {
        let block = RecordedBlock { base_fee: 1_000, gas_used_ratio: Some(0.5), rewards: None };
        let blocks = vec![block; 80];
        let recording =
            Recording { name: HOSTILE.into(), oldest_block: 1, percentiles: Vec::new(), blocks };
        let mut estimators = all_estimators(&Pricing::default());
        estimators[0].name = HOSTILE.into();
        let report = Report::new(&recording, &estimators, 10.0, None, || {}).unwrap();
        render(&report, 10.0).unwrap()
    }

    #[test]
    fn hostile_names_neither_end_a_script_nor_become_tags() {
        let page = hostile_page();
        // The document, and uPlot with the script of the chart.
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
        // The licence of uPlot.
        assert_eq!(page.matches("<!--").count(), 1);
        let escaped =
            "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!-- &amp;amp; {title}";
        assert!(page.contains(&format!("<title>{escaped}: blocks 1 to 80")));
        assert!(page.contains(&format!("<th scope=\"row\">{escaped}</th>")));
    }

    #[test]
    fn document_in_the_page_keeps_hostile_names_as_they_are() {
        let page = hostile_page();
        let (_, document) = page.split_once("id=\"document\">").unwrap();
        let (document, _) = document.split_once("</script>").unwrap();
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        let recording = &document["recordings"][0];
        assert_eq!(
            (&recording["name"], &recording["estimators"][0]["name"]),
            (&HOSTILE.into(), &HOSTILE.into())
        );
    }
}
