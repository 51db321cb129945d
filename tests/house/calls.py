#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who calls whom, from the objects of a build: calls.py SOURCE_ROOT BUILD_ROOT [--shrink].

Units (x.c) that reach themselves by calls of functions fail, and so does a function that is declared in another unit's
header where its own unit has none. calls.txt holds what is left of the second: for each header the number of functions of
other units that it declares. Rows only go or get smaller; --shrink rewrites the file.
"""
import collections
import json
import os
import re
import subprocess
import sys

PRODUCT = ("core/", "shim/", "tuner/", "analysis/", "profiles/", "cli/")


def read_objects(root, build):
    """{unit: (functions it defines, names it takes from elsewhere)} of the product's C files."""
    made = {}
    with open(os.path.join(build, "compile_commands.json")) as f:
        for row in json.load(f):
            source = os.path.relpath(os.path.join(row["directory"], row["file"]), root)
            object_file = os.path.join(row["directory"], row["output"])
            if source.startswith(PRODUCT) and source.endswith(".c") and os.path.exists(object_file):
                made[object_file] = source
    units = {source: (set(), set()) for source in made.values()}
    for line in subprocess.run(["nm", "-A", *made], text=True, capture_output=True, check=True).stdout.splitlines():
        where, said = line.rsplit(":", 1)
        kind, name = said[17:].split(None, 1)
        # What the preload library wraps is called by everybody, and is not meant.
        if not name.startswith("capo_") and (made[where].startswith("shim/") or "_" not in name):
            continue
        if kind in "TW":
            units[made[where]][0].add(name)
        elif kind == "U":
            units[made[where]][1].add(name)
    return units


def circles(units):
    """{unit: units it calls} of those that reach themselves (Tarjan's components of more than one)."""
    where = {name: unit for unit, (defined, _) in units.items() for name in defined}
    graph = {unit: {where[n] for n in taken if n in where} - {unit} for unit, (_, taken) in units.items()}
    number, low, stack, found = {}, {}, [], {}

    def visit(unit):
        number[unit] = low[unit] = len(number)
        stack.append(unit)
        for other in sorted(graph[unit]):
            if other not in number:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], number[other])
        if low[unit] == number[unit]:
            at = stack.index(unit)
            if len(stack) - at > 1:
                found.update({u: sorted(graph[u] & set(stack[at:])) for u in stack[at:]})
            del stack[at:]

    sys.setrecursionlimit(10000)
    for unit in sorted(graph):
        if unit not in number:
            visit(unit)
    return found


def foreign(root, units):
    """{header: functions it declares that a unit of another name defines}. include/capo is shared on purpose."""
    where = {name: unit for unit, (defined, _) in units.items() for name in defined}
    count = collections.Counter()
    for folder in PRODUCT:
        for here, _, names in os.walk(os.path.join(root, folder)):
            for name in (n for n in names if n.endswith(".h")):
                path = os.path.relpath(os.path.join(here, name), root)
                with open(os.path.join(root, path)) as f:
                    text = re.sub(r"/\*.*?\*/|^[ \t]*#.*?$", " ", f.read(), flags=re.S | re.M)
                text = re.sub(r"\{[^{}]*\}", "{}", text)
                for declared in re.findall(r"\b([a-z_]\w*)\s*\([^;{}]*\)[^;{}()]*;", text):
                    unit = where.get(declared)
                    if unit and unit[:-2] != path[:-2]:
                        count[path] += 1
    return count


def main(arguments):
    root, build = arguments[:2]
    units = read_objects(root, build)
    wrong = [f"{unit} reaches itself by calls, through {' '.join(called)}" for unit, called in circles(units).items()]
    in_circles = len(wrong)
    shared = foreign(root, units)
    table = os.path.join(root, "tests/house/calls.txt")
    with open(table) as f:
        lines = f.read().splitlines()
    if "--shrink" in arguments:
        head = [line for line in lines if line.startswith("#")]
        with open(table, "w") as f:
            f.write("\n".join(head + [f"{path} | {n}" for path, n in sorted(shared.items())]) + "\n")
        return 0
    most = {path: int(n) for path, n in (line.split(" | ") for line in lines if not line.startswith("#"))}
    for path, n in sorted(shared.items()):
        if n > most.get(path, 0):
            wrong.append(f"{path} declares {n} functions of other units, at most {most.get(path, 0)} are known: give the unit its own header")
    print("\n".join(wrong))
    print(f"{len(units)} units, {in_circles} in circles by calls, "
          f"{sum(shared.values())} functions declared in another unit's header")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
