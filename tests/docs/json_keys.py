#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/internals/json.md names every key that the golden pages in JSON have, and every kind that lists of the product (.def) give to
"kind". usage: json_keys.py SOURCE"""
import glob
import json
import os
import re
import sys

source = sys.argv[1]
words = set(re.findall(r'\w+', open(os.path.join(source, 'docs/internals/json.md')).read()))
missing = {}


def collect_keys(value, page):
    if isinstance(value, dict):
        for key in value:
            if not key.isdigit() and key not in words:  # a number: a size, as a key
                missing.setdefault(key, page)
            collect_keys(value[key], page)
    elif isinstance(value, list):
        for item in value:
            collect_keys(item, page)


pages = [p for p in glob.glob(os.path.join(source, 'tests/golden/expect/*.json')) if os.path.basename(p) != 'trace.json']
for path in pages:
    collect_keys(json.load(open(path)), os.path.basename(path))
kinds = {}
for name in ('next_kinds.def', 'note_kinds.def', 'problem_kinds.def'):
    found = re.findall(r'^\w+\((?:[A-Z_]+, *)?"?([a-z]\w*)"?,', open(os.path.join(source, 'analysis/report', name)).read(), re.M)
    assert found, name
    kinds.update((kind, name) for kind in found)
for key, page in sorted(missing.items()):
    print(f'docs/internals/json.md: no "{key}", which tests/golden/expect/{page} has')
left_out = sorted(kind for kind in kinds if kind not in words)
for kind in left_out:
    print(f'docs/internals/json.md: no "{kind}", which analysis/report/{kinds[kind]} has')
sys.exit(bool(missing or left_out) or not pages)
