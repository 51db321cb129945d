#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds comments that name a function, a file or a @parameter which is not there: comments.py SOURCE_ROOT.

outside.txt lists the names of other projects that comments mention: files and functions of NCCL, CUDA, libfabric, libc.
"""
import os
import re
import sys

CODE = (".c", ".h", ".def", ".h.in", ".S", ".py", ".sh", ".build")
PRODUCT = ("include/", "core/", "shim/", "tuner/", "analysis/", "profiles/", "cli/")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def read_tree(root):
    text, names = {}, set()
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "build", "__"))]
        for name in files:
            names.add(name)
            if name.endswith(CODE):
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), errors="replace") as f:
                    text[path] = f.read()
    return text, names


def comments_of(text):
    return [m for m in COMMENT.finditer(text) if m.group()[0] == "/"]


def code_of(text):
    return COMMENT.sub(lambda m: " " if m.group()[0] == "/" else m.group(), text)


def around_of(text, begin, end):
    """Words that a comment may mean: its own without @, the paragraph before it, and what follows up to the next empty line."""
    before = re.split(r"\n[ \t]*\n", text[:begin])[-1]
    rest = text[end:].lstrip("\n")
    stop = re.search(r"\n[ \t]*\n", rest)
    own = re.sub(r"@\w+", " ", text[begin:end])
    return set(re.findall(r"\w+", " ".join((before, own, rest[:stop.start()] if stop else rest))))


def findings(root):
    text, names = read_tree(root)
    with open(os.path.join(root, "tests/house/outside.txt")) as f:
        outside = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    known = {word for t in text.values() for word in re.findall(r"\w+", code_of(t))}
    for path in sorted(p for p in text if p.startswith(PRODUCT) and not p.endswith(".build")):
        for m in comments_of(text[path]):
            comment = m.group()

            def find(at, *what):
                line = text[path].count("\n", 0, m.start() + at) + 1
                return " ".join([f"{path}:{line}:", *what])

            for w in re.finditer(r"(?<![\w.>])([a-z]\w*_\w+)\(\)", comment):
                name = w.group(1)
                if name not in known and name not in outside:
                    yield find(w.start(), name + "()", "is no function of the tree")
            for w in re.finditer(r"(?<![/\w.*-])([A-Za-z_0-9]+\.(?:c|h|def|py|sh))\b(?!\w)", comment):
                if w.group(1) not in names and w.group(1) not in outside:
                    yield find(w.start(), w.group(1), "is no file of the tree")
            around = around_of(text[path], m.start(), m.end())
            for w in re.finditer(r"(?<![\w/.-])@([a-z_]\w*)", comment):
                if w.group(1) not in around:
                    yield find(w.start(), "@" + w.group(1), "is no parameter or field of what follows")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    found = list(findings(root))
    print("\n".join(found))
    print(f"{len(found)} comments name what is not there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
