#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The warnings of NCCL's sources: nccl_warns.py DEF SRC...

Lists the warnings in the trees SRC (NCCL's src/ of several releases) that no row of DEF (analysis/diagnose/nccl_warns.def)
matches. With --new it prints rows for them: look up what the warning means and give it a class,
or put its words into nccl_warns_unknown.txt: the page shows such a line itself."""
import os
import re
import sys

WARN = re.compile(r'\bWARN\(\s*((?:"(?:[^"\\]|\\.)*"\s*(?:PRI\w+\s*|%\s*)?)+)')


def warnings_of(root):
    found = {}
    for folder, _, files in os.walk(root):
        for name in sorted(files):
            if name.endswith((".cc", ".h", ".cu", ".cpp", ".c")) and "windows" not in name:
                with open(os.path.join(folder, name), errors="replace") as source:
                    for call in WARN.finditer(source.read()):
                        parts = re.findall(r'"((?:[^"\\]|\\.)*)"|PRI\w+', call.group(1))
                        found.setdefault("".join(parts), os.path.relpath(os.path.join(folder, name), root))
    return found


def words_of(form):
    """The parts of a printf format that every line of it has, as in the table: "A*B"."""
    parts = re.split(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?[a-zA-Z]|%\d*l*$|\\n|\\\"|\"|\|", form)
    parts = [part.strip() for part in parts]
    parts = [part.replace("*", "").strip() for part in parts if len(part.strip(" .,:()[]'/=-")) >= 3]
    return "*".join(part[:48].strip() for part in parts[:3])


def rows_of(path):
    with open(path) as table:
        for name, words in re.findall(r'^(?:NCCL_WARN\((\w+)|(?:LINE_WORDS|WORD_MEANING)\(\w+, (?:NCCL|ANY)),((?:\s*"(?:[^"\\]|\\.)*")+)[,)]', table.read(), re.M):
            for one in "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', words)).split("|"):
                yield name, one


def matches(words, form):
    at = 0
    for part in words.split("*"):
        at = form.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def main():
    new = "--new" in sys.argv
    table, *roots = [word for word in sys.argv[1:] if word != "--new"]
    words = os.path.join(os.path.dirname(table), "line_words.def")
    rows = [one for path in (table, words) for _, one in rows_of(path)]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "nccl_warns_unknown.txt")) as unknown:
        rows += unknown.read().split("\n")[:-1]
    missing = 0
    for root in roots:
        for form, place in warnings_of(root).items():
            words = words_of(form)
            if words and not any(matches(row, form) for row in rows):
                missing += 1
                rows.append(words)
                print(f'NCCL_WARN(UNKNOWN, "{words}")' if new else f"{place}: {form}")
    return 1 if missing and not new else 0


if __name__ == "__main__":
    sys.exit(main())
