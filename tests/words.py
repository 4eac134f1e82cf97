"""Fails on names and phrases that make this project hard to read. Usage: python3 tests/words.py [--self-test]

Run from the root of the repository. It reads every text file that git tracks and prints each finding as
`path:line: rule: text`. `--self-test` checks that each rule finds its example and passes its counterexample.
"""

import os
import re
import subprocess
import sys

# Names of tests are claims that fit in a line of test output.
TEST_NAME_LIMIT = 70

# Vendored or generated files, and files whose content is data.
SKIPPED = re.compile(
    r"^(LICENSE|Cargo\.lock|.*/Cargo\.lock|.*package-lock\.json|src/extras/verification/verify/noble/.*|src/extras/pages/dashboard/uplot/.*|fuzz/corpus/.*"
    r"|tests/fixtures/.*|tests/words\.py|.*\.(gz|png|svg|json|csv))$"
)

COMMENT = r"(?:///|//!|/\*\*|\"\"\"|^\s*\*|^\s*#)\s*"
RULES = {
    "mark of a merge": (
        re.compile(r"(?:^|\n)(?:<{7}|>{7}) "),
        "text\n>>>>>>> branch",
        "text\n>> quoted",
    ),
    "doc comment without a subject": (
        re.compile(r"(?:///|//!|/\*\*|\"\"\")\s*(?:Of|What|Whether|Who)\s"),
        "/// Of a chain, the newest block.",
        "/// Newest block of a chain.",
    ),
    "vague subject": (
        re.compile(r"\b(?:somebody|nobody|anybody|whoever)\b", re.IGNORECASE),
        "// Nobody reads this.",
        "// No client reads this.",
    ),
    "phrase that has to be decoded": (
        re.compile(
            r"\b(?:(?:is|are|was|were|be|been) told|tells? of|told of|goes by|lets? be|let be|for want of)\b",
            re.IGNORECASE,
        ),
        "// The poller is told of a block.",
        "// The poller receives a block.",
    ),
    "function called `of`": (
        re.compile(r"\bfn of(?:_\w+)?\s*[(<]"),
        "fn of_chain(&self) -> u64 {",
        "fn for_chain(&self) -> u64 {",
    ),
    "predicate that takes more than `&self`": (
        re.compile(r"\bfn (?:is|has|was)_\w+\s*(?:<[^>]*>)?\(\s*(?:&\s*(?:'\w+ )?mut self|mut self)"),
        "fn is_back(&mut self) -> bool {",
        "fn is_back(&self) -> bool {",
    ),
    "predicate that does not return `bool`": (
        re.compile(r"\bfn (?:is|has|was)_\w+\s*(?:<[^>]*>)?\([^()]*(?:\([^()]*\)[^()]*)*\)(?!\s*->\s*bool\b)"),
        "fn is_endless(&self) {",
        "fn is_endless(&self) -> bool {",
    ),
    "test name too long": (
        re.compile(r"\]\s*(?:async )?fn (\w{%d,})\(\)" % (TEST_NAME_LIMIT + 1)),
        "#[test]\nfn " + "a" * (TEST_NAME_LIMIT + 1) + "() {",
        "#[test]\nfn " + "a" * TEST_NAME_LIMIT + "() {",
    ),
}


def findings(path, text):
    """The findings in one file, as (line number, rule, line)."""
    lines = text.split("\n")
    for rule, (pattern, _, _) in RULES.items():
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.end()) + 1
            yield number, rule, lines[number - 1].strip()


def self_test():
    for rule, (_, bad, good) in RULES.items():
        found = {name for _, name, _ in findings("example.rs", bad)}
        assert rule in found, f"{rule}: does not find {bad!r}"
        assert not list(findings("example.rs", good)), f"{rule}: finds {good!r}"


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    count = 0
    for path in subprocess.check_output(["git", "ls-files"], text=True).splitlines():
        # A file that is deleted but not committed is still listed.
        if SKIPPED.match(path) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, rule, line in findings(path, text):
            print(f"{path}:{number}: {rule}: {line[:120]}")
            count += 1
    if count:
        sys.exit(f"{count} findings; docs/architecture.md says how names and prose are written here")


main()
