//! The guides: their links and anchors, their configuration snippets, and the program in TypeScript.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use serde_json::json;

use crate::anvil::Anvil;
use crate::client_package;
use crate::fixtures;
use crate::integrations::{KEY, blocks, blocks_in};
use crate::process::Folder;
use crate::programs;
use crate::test_server::TestServer;

/// Returns the paths of all guides, relative to the repository root.
pub(crate) fn guides() -> Vec<PathBuf> {
    let mut guides: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(PathBuf::from).into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(fixtures::path(folder.to_str().unwrap())).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                // Examples may have installed packages, whose pages are not ours.
                if !path.ends_with("node_modules") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                guides.push(path);
            }
        }
    }
    guides
}

/// Returns the text without fenced blocks.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the targets of Markdown links, images, link definitions and HTML attributes.
fn links(page: &str) -> Vec<String> {
    let mut links = vec![];
    for paragraph in prose(page).split("\n\n") {
        // Every second part is inline code.
        let text: String = paragraph.split('`').step_by(2).collect();
        let until = |start: &str, end: char| {
            let rest = text.split(start).skip(1);
            rest.map(|rest| rest.split(end).next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        links.extend(until("](", ')'));
        links.extend(["href=\"", "src=\"", "srcset=\""].iter().flat_map(|name| until(name, '"')));
        let definitions = text.lines().filter(|line| line.starts_with('['));
        links.extend(definitions.filter_map(|line| Some(line.split_once("]: ")?.1.to_owned())));
    }
    links
}

/// Returns the anchors of the page's headings by GitHub's rules.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut anchors, mut counts) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for line in prose(page).lines() {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if !(1..=6).contains(&level) || !text.starts_with(' ') {
            continue;
        }
        // Of a link the text counts.
        let mut parts = text.split("](");
        let mut title = parts.next().unwrap().to_owned();
        for part in parts {
            title += part.split_once(')').unwrap().1;
        }
        let is_kept = |c: &char| c.is_alphanumeric() || "_- ".contains(*c);
        let slug: String = title.trim().to_lowercase().chars().filter(is_kept).collect();
        let slug = slug.replace(' ', "-");
        let count = counts.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

#[test]
fn links_and_anchors_are_found_by_the_rules_of_github() {
    let page = "# A b\n\n## `[c.D]`, e's: f_g\n\n## A b\n\n```\n# no\n[x](y)\n```\n\nsee [a\nb](c.md#d) `[n](o)`\n\n\
        [r]: s.md\n\n<img src=\"i.png\" srcset=\"j.png\"> ## no\n\n### See [it](k.md) now";
    assert_eq!(links(page), ["c.md#d", "s.md", "i.png", "j.png", "k.md"]);
    let expected = ["a-b", "a-b-1", "cd-es-f_g", "see-it-now"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
}

#[test]
fn every_link_of_the_guides_has_its_file_and_anchor() {
    let (mut broken, mut count) = (vec![], 0);
    let root = fixtures::path("").canonicalize().unwrap();
    for guide in guides() {
        for link in links(&fs::read_to_string(root.join(&guide)).unwrap()) {
            if link.contains("://") {
                continue;
            }
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = root.join(guide.parent().unwrap());
            let target = if path.is_empty() { root.join(&guide) } else { folder.join(path) };
            let target = target.canonicalize().ok().filter(|target| target.starts_with(&root));
            let has_anchor = |target: PathBuf| {
                anchor.is_empty() || anchors(&fs::read_to_string(target).unwrap()).contains(anchor)
            };
            if !target.is_some_and(has_anchor) {
                broken.push(format!("{}: {link}", guide.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
    assert!(count > 100, "{count} links");
}

#[test]
fn toml_snippets_of_the_guides_are_valid_configurations() {
    let mut count = 0;
    for guide in guides() {
        let guide = guide.to_str().unwrap();
        for block in blocks(guide).iter().filter(|block| block.language == "toml") {
            let chain = "\n[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
            let chain = if block.text.contains("[chains.") { "" } else { chain };
            // This machine does not have the file of the example.
            let text = block.text.replace("/etc/gas-suggestion/ca.pem", "") + chain;
            let errors = Config::from_toml(&text, &sections()).err();
            assert!(errors.is_none(), "{guide}, {}: {errors:#?}", block.heading);
            count += 1;
        }
    }
    assert!(count > 10, "{count} snippets");
}

/// `clients/python` and `clients/rust` test the programs in their languages.
#[tokio::test]
async fn the_typescript_program_sends_with_the_suggested_fees() {
    let node = Anvil::with_chain_id(31337, &[]);
    let service = TestServer::start(&node.chain("local", "")).await;
    service.wait_for_head("local", &node).await;
    let suggestion = service.get("/v1/local/gas-suggestion").await.json();
    let folder = Folder::new("in-your-language");
    let folder = folder.path();
    let packages = client_package::installed().join("node_modules");
    std::os::unix::fs::symlink(packages, folder.join("node_modules")).unwrap();
    let programs = blocks_in("docs/in-your-language.md", "ts");
    let [program] = &programs[..] else { panic!("{programs:?}") };
    fs::write(folder.join("send.ts"), &program.text).unwrap();
    fs::write(folder.join("package.json"), "{ \"type\": \"module\" }").unwrap();
    let compiler = fixtures::path("clients/js/node_modules");
    let mut compile = programs::node_js(&["viem"]);
    compile.arg(compiler.join("typescript/bin/tsc")).current_dir(folder);
    compile.args(["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]);
    compile.args(["--types", "node", "--typeRoots"]).arg(compiler.join("@types")).arg("send.ts");
    programs::expect_success(compile).await;
    let mut command = programs::node_js(&["viem"]);
    command.arg("send.js").current_dir(folder).env("SERVICE", service.url(""));
    command.env("RPC_URL", node.url()).env("PRIVATE_KEY", KEY);
    let hash = programs::expect_success(command).await;
    let transaction = node.call("eth_getTransactionByHash", json!([hash])).await;
    for (sent, suggested) in
        [("maxFeePerGas", "max_fee_per_gas"), ("maxPriorityFeePerGas", "max_priority_fee_per_gas")]
    {
        let suggested = fixtures::wei(&suggestion["medium"][suggested]);
        assert_eq!(fixtures::quantity(&transaction[sent]), suggested);
    }
}
