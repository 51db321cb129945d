#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/assistant/SKILL.md against the program: skill.py CAPO SOURCE. Every verb it names takes --json, every key it lists is printed, and every
verdict that it lists is one."""
import json
import os
import re
import subprocess
import sys

CAPO, SOURCE = map(os.path.abspath, sys.argv[1:3])
LOGS = os.path.join(SOURCE, "tests/golden/sample-v1")
SAMPLES = {
    "hang": [LOGS],
    "diagnose": [os.path.join(SOURCE, "tests/diagnose/reports/vllm-23448.log")],
    "expect": ["--no-nccl", "--busbw", "9", "--platform", "p5", "--alloc", "2x8"],
    "report": [LOGS],
    "diff": [LOGS, LOGS],
    "doctor": [],
}


def run(*words):
    return subprocess.run([CAPO, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


def main():
    page = open(os.path.join(SOURCE, "deploy/assistant/SKILL.md")).read()
    bad = []
    verbs = set(re.findall(r"`capo (\w+) --json", page))
    if not verbs >= set(SAMPLES) | {"plan", "explain", "topo"}:
        bad.append("verbs: %s" % sorted(verbs))
    for verb in sorted(verbs):
        if "--json" not in run(verb, "--help").stdout:
            bad.append("capo %s takes no --json" % verb)
    for verb, words in SAMPLES.items():
        section = re.search(r"\n## `capo %s --json`\n(.*?)(?=\n## |\Z)" % verb, page, re.S)
        keys = [key for row in re.findall(r"^\| (`[^|]*) \|", section[1], re.M) for key in re.findall(r"`(\w+)`", row)]
        printed = json.loads(run(verb, "--json", *words).stdout)
        if len(keys) < 2:
            bad.append("%s: no keys" % verb)
        bad += ["%s: no key %s" % (verb, key) for key in keys if key not in printed]
    kinds = re.findall(r"HANG_KIND\(\w+, \"(\w+)\"", open(os.path.join(SOURCE, "analysis/hang/hang_kinds.def")).read())
    listed = re.search(r"^\| `verdict` \| (`healthy`.*) \|$", page, re.M)
    if sorted(kinds) != sorted(re.findall(r"`(\w+)`", listed[1])):
        bad.append("verdicts of hang: %s" % kinds)
    for line in bad:
        print(line)
    return len(bad) > 0


sys.exit(main())
