#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does docs/security.md name tests that there are? security.py SOURCE BUILD

Every threat has a test, and it is one of the suite that is named; every target of tests/fuzz is named; sockets are made where the page says;
no source writes to another process.
"""
import glob
import json
import os
import re
import sys


SOCKETS = {"cli/watch/watch_serve.c", "analysis/hang/ras_ask.c"}  # watch --listen, hang --ras


def tests_of(build):
    """{suite: names}, as meson knows them."""
    found = {}
    with open(os.path.join(build, "meson-info/intro-tests.json")) as f:
        for test in json.load(f):
            for suite in test["suite"]:
                found.setdefault(suite.split(":")[-1], set()).add(test["name"])
    return found


def table(page, head):
    """The cells of the rows under this head."""
    lines = page.split("\n")
    rows = []
    for line in lines[lines.index(head) + 2:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def wrong(source, build):
    with open(os.path.join(source, "docs/security.md"), encoding="utf-8") as f:
        page = f.read()
    suites, targets = tests_of(build), set(os.listdir(os.path.join(source, "tests/fuzz/corpus")))
    suites["fuzz"] = targets  # in a build for fuzzing they are no tests
    for threat, _, said in table(page, "| threat | protection | test |"):
        named = re.findall(r"(\w+)(?:: (.*?)(?=[;,] \w+:|$))?", said)
        if not named:
            yield f"{threat}: no test"
        for suite, names in named:
            if suite not in suites:
                yield f"{threat}: there is no suite {suite}"
            for name in re.findall(r"`([^`]+)`", names):
                if name not in suites.get(suite, ()):
                    yield f"{threat}: there is no test {name} in suite {suite}"
    for target in sorted(targets - set(re.findall(r"`([^`]+)`", page))):
        yield f"no threat names the fuzz target {target}"
    made = set()
    for folder in ("cli", "analysis", "core", "shim", "tuner", "profiles"):
        for path in glob.glob(os.path.join(source, folder, "**/*.c"), recursive=True):
            with open(path, encoding="utf-8") as f:
                # of AF_UNIX: the shim asks the kernel of a NIC by it, and connects nowhere
                text = f.read()
                if re.search(r"\b(socket|accept4?|getaddrinfo)\((?!AF_UNIX)", text):
                    made.add(os.path.relpath(path, source))
                if re.search(r"process_vm_writev|PTRACE_(POKE|SET)|SET_PTRACER", text):
                    yield f"{os.path.relpath(path, source)} writes to another process, or opens a job to tracers"
    if made != SOCKETS:
        yield f"sockets are made in {sorted(made)}, expected {sorted(SOCKETS)}"
    with open(os.path.join(source, "tests/fuzz/parsers.txt")) as f:
        for parser in f.read().split():
            if not glob.glob(os.path.join(source, parser)):
                yield f"tests/fuzz/parsers.txt: there is no {parser}"


if __name__ == "__main__":
    findings = list(wrong(*sys.argv[1:3]))
    print("\n".join(findings) or "what the page names is there")
    sys.exit(bool(findings))
