//! The page that `--html` writes: its document and its table, and the chart in Chromium.

use std::path::Path;

use roxmltree::Document;
use serde_json::{Value, json};

use super::{AUGUST, BASE, ETHEREUM, POLYGON, once, path, run, run_failing, run_once};
use crate::fixtures;
use crate::process::File;
use crate::programs;

/// Returns the text of the page between `start` and the next `end`.
fn between<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = page.split_once(start).unwrap_or_else(|| panic!("no {start}"));
    rest.split_once(end).unwrap().0
}

/// Writes the page of a recording and returns it.
fn page(recording: &str) -> String {
    once(&["--html", recording], || {
        let page = File::new("page", "");
        run(&["--html", page.path(), recording]);
        page.text()
    })
}

/// Returns the cells of the table's rows below its heading.
fn rows(page: &str) -> Vec<[String; 3]> {
    let body = format!("<tbody>{}</tbody>", between(page, "<tbody>", "</tbody>"));
    let body = Document::parse(&body).unwrap();
    let rows = body.root_element().children().filter(roxmltree::Node::is_element);
    rows.map(|row| {
        let cells: Vec<_> = row.children().map(|cell| cell.text().unwrap().to_owned()).collect();
        cells.try_into().unwrap()
    })
    .collect()
}

#[test]
fn page_has_the_document_that_json_prints() {
    for recording in [ETHEREUM, AUGUST] {
        let page = page(&path(recording));
        let start = "<script type=\"application/json\" id=\"document\">";
        let document: Value = serde_json::from_str(between(&page, start, "</script>")).unwrap();
        let printed = run_once(&["--json", &path(recording)]);
        assert_eq!(document, serde_json::from_str::<Value>(&printed).unwrap(), "{recording}");
    }
}

#[test]
fn table_of_the_page_has_every_estimator_with_the_numbers_of_the_axes() {
    for (recording, alloy) in [
        (ETHEREUM, None),
        (BASE, None),
        (POLYGON, Some(["78.50 %", "3.139"])),
        (AUGUST, Some(["99.57 %", "2.023"])),
    ] {
        let text = run_once(&[&path(recording)]);
        let has_tips = recording != AUGUST;
        // Columns of the text, and headings of the page.
        let [(share, share_heading), (cost, cost_heading)] = if has_tips {
            [(0, "Included in the next block"), (8, "Overpaid in gwei, median")]
        } else {
            [(4, "Covers the base fee after 25 blocks"), (14, "Max fee / base fee, median")]
        };
        let page = page(&path(recording));
        let headings =
            format!("<th scope=\"col\">{share_heading}</th><th scope=\"col\">{cost_heading}</th>");
        assert!(page.contains(&headings), "{recording}");
        let rows = rows(&page);
        // Title, empty line and two lines of headings.
        let lines: Vec<_> = text.lines().skip(4).take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), lines.len(), "{recording}");
        let [_, shown @ ..] = rows.iter().find(|[name, ..]| name == "alloy").unwrap();
        assert!(alloy.is_none_or(|alloy| *shown == alloy), "{recording}: {shown:?}");
        for ([name, shown_share, shown_cost], line) in rows.iter().zip(lines) {
            let cells: Vec<_> =
                line.strip_prefix(name.as_str()).unwrap().split_whitespace().collect();
            assert_eq!(shown_share.trim_end_matches(" %"), cells[share], "{recording}: {name}");
            assert_eq!(shown_cost, cells[cost], "{recording}: {name}");
        }
    }
}

#[test]
fn page_has_the_title_the_verdict_and_the_notes_of_the_text() {
    for recording in [POLYGON, AUGUST] {
        let (text, page) = (run_once(&[&path(recording)]), page(&path(recording)));
        let title = text.lines().next().unwrap();
        assert!(page.contains(&format!("<title>{title}</title>")), "{title}");
        assert!(page.contains(&format!("<p class=\"title\">{title}</p>")), "{title}");
        let below = text.lines().skip_while(|line| !line.starts_with("Amounts in gwei.")).skip(1);
        let mut count = 0;
        for line in below.filter(|line| !line.is_empty()) {
            assert!(page.contains(&format!("<p>{line}</p>")), "{line}");
            count += 1;
        }
        assert!(count > 2, "{text}");
    }
}

#[test]
fn file_names_are_escaped_in_text_and_page() {
    let folder = std::env::temp_dir().join(format!("{}-names", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.join("<a>&\u{1}\u{1b}[31m\u{ffff}");
    std::fs::copy(fixtures::path(BASE), &name).unwrap();
    let page = File::new("names", "");
    let text = run(&["--html", page.path(), name.to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("/<a>&??[31m?: blocks 36964626"), "{text}");
    let page = page.text();
    let title = between(&page, "<title>", "</title>");
    assert!(title.contains("/&lt;a&gt;&amp;??[31m?: blocks 36964626"), "{title}");
    assert!(!page.contains("<a>"));
}

#[test]
fn page_takes_one_recording_and_a_folder_that_exists() {
    let page = File::new("page", "");
    let files = [path(BASE), path(POLYGON)];
    let (code, stderr) = run_failing(&["--html", page.path(), &files[0], &files[1]]);
    let expected = "error: --html takes a single recording; pass one file\n";
    assert_eq!((code, stderr.as_str()), (Some(2), expected));
    assert_eq!(page.text(), "");
    let (code, stderr) = run_failing(&["--html", "/none/page.html", &files[0]]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: cannot write /none/page.html: No such file"), "{stderr}");
}

#[tokio::test]
async fn chart_shows_every_estimator_in_chromium() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let recordings = [ETHEREUM, BASE, POLYGON, AUGUST].map(path);
    let harness = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "recordings": recordings,
        "shots": target.join("backtest"),
    });
    programs::run_script("backtest.mjs", &["playwright-core", "axe-core"], &harness).await;
}
