#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is each sentence of security.md and kubernetes.md a row of docs/internals/claims.md, and are the tests there that it names?
claims.py SOURCE BUILD"""
import os
import re
import sys

from security import table, tests_of


def sentences(page):
    """Of the prose: no headings, tables, code; an item of a list is a sentence or more."""
    blocks = [""]
    for line in re.sub(r"```.*?```", "", page, flags=re.S).split("\n"):
        if not line.strip() or re.match(r"#|\||<!--|Notes:$", line):
            blocks.append("")
        elif re.match(r"\d+\. ", line):
            blocks.append(re.sub(r"^\d+\. ", "", line))
        else:
            blocks[-1] = f"{blocks[-1]} {line.strip()}".strip()
    for block in blocks:
        yield from (s for s in re.split(r"(?<=\.) (?=[A-Z`*\[])", block) if s)


def wrong(source, build):
    suites = tests_of(build)
    with open(os.path.join(source, "docs/internals/claims.md"), encoding="utf-8") as f:
        claims = f.read()
    for name in ("security", "kubernetes"):
        with open(os.path.join(source, f"docs/{name}.md"), encoding="utf-8") as f:
            said = list(sentences(re.sub(r"\]\((?![a-z]+:)", "](../", f.read()))) # the table is one folder further down
        rows = table(claims[claims.index(f"## {name.title()}"):], "| sentence | test |")
        for sentence in said:
            if sentence not in [row[0] for row in rows]:
                yield f"docs/internals/claims.md has no row for this sentence of {name}.md: {sentence}"
        for sentence, tests in rows:
            if sentence not in said:
                yield f"{name}.md does not say any more: {sentence}"
            for suite, names in re.findall(r"(\w+): ((?:`[^`]+`(?: \([^)]*\))?(?:, )?)+)", tests):
                for test in re.findall(r"`([^`]+)`(?: \()?", names):
                    if suites.get(suite) and test not in suites[suite]:
                        yield f"{name}.md: there is no test {test} in suite {suite}"
            if not tests.startswith("none: ") and not re.search(r"\w+: `", tests):
                yield f"{name}.md: a test, or none: and why: {sentence}"


if __name__ == "__main__":
    findings = list(wrong(*sys.argv[1:3]))
    print("\n".join(findings) or "each sentence is a row, and its tests are there")
    sys.exit(bool(findings))
