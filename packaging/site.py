"""Prepares the guides for mdbook, which runs this as a preprocessor: see book.toml.

SUMMARY.md has chapters without a file for the pages that stand outside docs. They are filled in here. Links to other files of
the repository become links to its address, because the site has only the guides.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Chapter in SUMMARY.md: the file, and its name on the site.
PAGES = {
    "gas-suggestion": ("README.md", "index.md"),
    "JavaScript client": ("clients/js/README.md", "javascript.md"),
    "Python client": ("clients/python/README.md", "python.md"),
    "Rust client": ("clients/rust/README.md", "rust.md"),
    "Backtest": ("backtest/README.md", "backtest.md"),
    "Contributing": ("CONTRIBUTING.md", "contributing.md"),
    "Security": ("SECURITY.md", "security.md"),
    "Changelog": ("CHANGELOG.md", "changelog.md"),
}
ON_SITE = {source: name for source, name in PAGES.values()} | {"docs/examples/README.md": "examples/index.md"}
LINK = re.compile(r'(\]\(|\b(?:src|srcset|href)=")([^)"\s]+)')


def rewritten(link, source, name, repository):
    """Returns the target of a link on the page `name`, which is the file `source`."""
    path, mark, anchor = link.partition("#")
    if not path or "://" in link or path.startswith("mailto:"):
        return link
    target = os.path.normpath(os.path.join(os.path.dirname(source), path))
    if target in ON_SITE:
        on_site = ON_SITE[target]
    elif target.startswith("docs/") and (ROOT / target).is_file():
        on_site = target.removeprefix("docs/")
    else:
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{repository}/{kind}/main/{target}{mark}{anchor}"
    return os.path.relpath(on_site, os.path.dirname(name) or ".") + mark + anchor


def prepare(chapter, repository):
    name = chapter["path"]
    source = f"docs/{chapter['source_path']}"
    if chapter["name"] in PAGES:
        source, name = PAGES[chapter["name"]]
        chapter |= {"path": name, "source_path": name, "content": (ROOT / source).read_text()}
    change = lambda match: match[1] + rewritten(match[2], source, name, repository)
    # Every second part is a block of code.
    parts = re.split(r"(^```.*?^```$)", chapter["content"], flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [LINK.sub(change, part) for part in parts[::2]]
    chapter["content"] = "".join(parts)
    for item in chapter["sub_items"]:
        prepare(item["Chapter"], repository)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    for item in book["items"]:
        if "Chapter" in item:
            prepare(item["Chapter"], context["config"]["preprocessor"]["repository"]["repository"])
    json.dump(book, sys.stdout)


main()
