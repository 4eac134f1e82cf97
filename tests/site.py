"""Checks the site of the guides. Usage: python3 tests/site.py SITE

Runs in the root of the repository. Every link between pages has its file and anchor, every guide is in SUMMARY.md, llms.txt
names every page, and the table of docs/rpc-calls.md follows from the block times.
"""

import html.parser
import math
import os
import pathlib
import re
import sys
import urllib.parse

SITE = pathlib.Path(sys.argv[1]).resolve()
REPOSITORY = "https://gas-suggestion.example/source"
MONTH = 30 * 24 * 3600
# docs/rpc-calls.md has the rules behind these.
POLLS_PER_BLOCK = (1.2, 1.4)
READING_BLOCKS, READING_SECONDS = 10, 5
HEADER_SECONDS = 30


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if tag != "link":
            self.links += [attributes[key] for key in ("href", "src", "srcset") if attributes.get(key)]


def check_links():
    # 404.html is shown at any address, toc.html belongs to other pages, and the examples have pages of their own.
    files = [path for path in [*SITE.glob("*.html"), SITE / "examples/index.html"] if path.name not in ("404.html", "toc.html")]
    pages = {path: Page(path) for path in files}
    broken, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(REPOSITORY):
                # The rest of the address is a path of the repository.
                file = re.sub(r"^/(?:blob|tree)/main/|#.*$", "", link.removeprefix(REPOSITORY))
                if file and not os.path.exists(file):
                    broken.append(f"{path.relative_to(SITE)}: {link}")
                continue
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            name, _, anchor = link.partition("#")
            target = (path.parent / urllib.parse.unquote(name)).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            ids = pages[target].ids if target in pages else None
            if not target.exists() or (anchor and ids is not None and urllib.parse.unquote(anchor) not in ids):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken, "broken links:\n" + "\n".join(broken)
    assert count > 500, count
    return len(pages), count


def check_contents():
    summary = pathlib.Path("docs/SUMMARY.md").read_text()
    files = set(re.findall(r"\]\(([^)]+\.md)\)", summary))
    guides = {str(path.relative_to("docs")) for path in pathlib.Path("docs").rglob("*.md") if "node_modules" not in path.parts}
    assert files == guides - {"SUMMARY.md"}, files ^ (guides - {"SUMMARY.md"})
    llms = pathlib.Path("docs/llms.txt").read_text()
    names = {re.sub(r"README$", "index", file.removesuffix(".md")) for file in files}
    missing = sorted(name for name in names if f"({name}.html)" not in llms)
    assert not missing, f"docs/llms.txt does not name {missing}"
    for name in re.findall(r"\]\(([^):]+)\)", llms):
        assert (SITE / name).exists(), f"docs/llms.txt: {name}"


def thousands(calls):
    """Returns a number with two digits, such as 280,000 or 1.7 million."""
    digits = 1 - math.floor(math.log10(calls))
    calls = round(calls, digits)
    return f"{calls / 1e6:.{max(0, digits + 6)}f} million" if calls >= 1e6 else f"{calls:,.0f}"


def check_calls():
    """Compares the table of calls per month with what follows from the block times. Prints the right one if it differs."""
    lines = []
    for block_time, interval in [(12, 0.2), (5, 0.2), (2, 0.2), (1, 0.2), (0.45, 0.2), (0.25, 0.2), (0.2, 0.2), (0.2, 1)]:
        blocks = MONTH / block_time
        other = min(blocks / READING_BLOCKS, MONTH / READING_SECONDS) + MONTH / HEADER_SECONDS
        low, high = (thousands(min(blocks * polls, MONTH / interval) + other) for polls in POLLS_PER_BLOCK)
        shown = low if low == high else f"{low} to {high}"
        lines.append(f"| {block_time:g} s | {interval * 1000:g} ms | {thousands(blocks)} | {shown} |")
    table = "\n".join(lines)
    assert f"\n{table}\n\n" in pathlib.Path("docs/rpc-calls.md").read_text(), f"the table of docs/rpc-calls.md is not\n{table}"


def main():
    check_calls()
    check_contents()
    pages, links = check_links()
    print(f"{pages} pages, {links} links")


main()
