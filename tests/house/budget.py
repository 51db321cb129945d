#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of product by capability: budget.py SOURCE_ROOT [--table].

Each row of budget.txt names a capability, the most lines it may have, its folders or files, and why its number was
raised last. A capability that has more lines than its row fails: something goes, or the row is raised in the same commit with
the reason. A file belongs to the longest path that it begins with; every file belongs to one.
--table prints the lines there are beside the rows.
"""
import os
import sys

PRODUCT = ("include", "core", "shim", "tuner", "analysis", "profiles", "cli")
COUNTED = (".c", ".h", ".def", "meson.build")


def read_rows(root):
    rows = []
    with open(os.path.join(root, "tests/house/budget.txt")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, most, paths, *why = (cell.strip() for cell in line.split("|"))
                rows.append((name, int(most.replace(",", "")), paths.split()))
    return rows


def count(root, rows):
    lines = {name: 0 for name, _, _ in rows}
    lost = []
    for top in PRODUCT:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if not name.endswith(COUNTED):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                owner = max(((len(p), row) for row, _, paths in rows for p in paths if path.startswith(p)), default=None)
                with open(os.path.join(root, path), "rb") as f:
                    n = f.read().count(b"\n")
                if owner:
                    lines[owner[1]] += n
                else:
                    lost.append(path)
    return lines, lost


def main(arguments):
    root = arguments[0]
    rows = read_rows(root)
    lines, lost = count(root, rows)
    wrong = [f"{path} belongs to no row of budget.txt" for path in lost]
    for name, most, paths in rows:
        if "--table" in arguments:
            print(f"{name:14} {lines[name]:7,} of {most:7,}   {' '.join(paths)}")
        if not lines[name]:
            wrong.append(f"{name} has no file")
        if lines[name] > most:
            wrong.append(f"{name} has {lines[name]:,} lines, {most:,} at most: take some out, or raise its row and say why")
    print("\n".join(wrong))
    print(f"{sum(lines.values()):,} lines of product in {len(rows)} capabilities")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
