#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the sources against the house's own rules: house.py SOURCE_ROOT [BUILD_ROOT].

rooms.txt says which folder may use which, lists.txt which words stand in one list only. What is wrong today and allowed
until it is mended stands in known.txt, one finding a line, in the words that this program prints; a line that is no longer
so must go, so that the list only shrinks (--shrink does it). --table prints HACKING.md's table of rooms.
"""
import collections
import fnmatch
import itertools
import os
import re
import subprocess
import sys

LONGEST = 500
ROOMS = ("include", "core", "shim", "tuner", "profiles", "cli")
# What must have a unit test, file by file.
TESTED = ("core", "tuner", "profiles/job")
# Core's files that only the offline half uses: none of them in a library that is loaded into a job.
OFFLINE_CORE = ("log/fabric_read.c", "log/find.c", "log/info_read.c", "log/read.c", "log/rules_read.c", "profile/check.c")
JOB_LIBRARIES = ("shim/libcapo.so", "tuner/libnccl-tuner-capo.so")


def words(root, name):
    """The rows of a table of this folder, without comments and empty lines."""
    with open(os.path.join(root, "tests/house", name)) as text:
        return [line.rstrip("\n") for line in text if line.strip() and not line.startswith("#")]


def spread(pattern):
    """a/{b,c} as a/b and a/c."""
    m = re.search(r"\{([^}]*)\}", pattern)
    if not m:
        return [pattern]
    return list(itertools.chain(*(spread(pattern[: m.start()] + w + pattern[m.end():]) for w in m[1].split(","))))


class House:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.text = {}
        for room in ROOMS:
            for folder, _, names in os.walk(os.path.join(root, room)):
                for name in names:
                    if name.endswith((".c", ".h", ".def")):
                        path = os.path.relpath(os.path.join(folder, name), root)
                        with open(os.path.join(folder, name)) as f:
                            self.text[path] = f.read()
        self.uses = {f: self.includes(f) for f in self.text}
        self.rows = [[cell.strip() for cell in row.split(" | ")] for row in words(root, "rooms.txt")]

    def find(self, *said):
        self.findings.append(" ".join(said))

    def includes(self, path):
        found = set()
        for kind, name in re.findall(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)', self.text[path], re.M):
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            for candidate in ([beside] if kind == '"' else []) + [name, "include/" + name]:
                if candidate in self.text:
                    found.add(candidate)
                    break
            else:
                if kind == '"':
                    self.find("include", path, "of", name + ": no such file")
        return found

    # Who may use whom.

    def row_of(self, folder):
        for i, row in enumerate(self.rows):
            if any(fnmatch.fnmatchcase(folder, p) for p in spread(row[0].replace(" ", ""))):
                return i
        return None

    def arrows(self):
        may = []  # per row the rows it may use
        for i, (names, allowed, _) in enumerate(self.rows):
            reach = set()
            for word in allowed.split() if allowed != "-" else []:
                for folder in spread(word):
                    j = self.row_of(folder)
                    if j is None or j >= i:
                        self.find("rooms.txt:", names, "may use", folder + ", which is no row above it")
                    else:
                        reach |= {folder} | may[j]
            may.append(reach)
        seen = set()
        for path in sorted(self.text):
            folder = os.path.dirname(path)
            i = self.row_of(folder)
            if i is None:
                self.find("room", folder, "has no row in rooms.txt")
                continue
            seen.add(i)
            for used in sorted(self.uses[path]):
                there = os.path.dirname(used)
                if there != folder and there not in may[i]:
                    self.find("arrow", path, "->", used)
        for i, row in enumerate(self.rows):
            if i not in seen:
                self.find("rooms.txt:", row[0], "is no folder")

    def circles(self):
        """Units (x.c with x.h) that reach themselves."""
        graph = collections.defaultdict(set)
        for path, used in self.uses.items():
            unit = os.path.splitext(path)[0]
            graph[unit] |= {os.path.splitext(u)[0] for u in used} - {unit}

        def reach(start):
            todo, got = list(graph[start]), set()
            while todo:
                unit = todo.pop()
                if unit not in got:
                    got.add(unit)
                    todo += graph[unit]
            return got

        for unit in sorted(graph):
            if unit in reach(unit):
                self.find("circle through", unit)

    def long_files(self):
        for path, text in sorted(self.text.items()):
            if not path.endswith(".def") and text.count("\n") > LONGEST:
                self.find("long", path)

    # Headers beside what they promise; tests beside what is promised.

    def defined(self, path):
        """Names of functions and tables with linkage that a .c file defines."""
        names = re.findall(r"^(?!static|typedef|extern|#|\s)[^;={}\n]*?\b(\w+)\([^;]*?\)\s*\n\{", self.text[path], re.M)
        return set(names) | set(re.findall(r"^(?!static|typedef|extern)[\w ]+?[ *](\w+)(?:\[\w*\])* = \{", self.text[path], re.M))

    def headers(self):
        where = collections.defaultdict(set)
        for path in self.text:
            if path.endswith(".c"):
                for name in self.defined(path):
                    where[name].add(os.path.dirname(path))
        for path in sorted(self.text):
            folder = os.path.dirname(path)
            if not path.endswith(".h") or folder == "include/capo":
                continue
            declared = re.findall(r"^(?!static|typedef|#|\s)[\w *]+?\b(\w+)\([^{}]*?\)[^{}();]*;", self.text[path], re.M)
            there = set().union(*(where[name] for name in declared))
            for other in sorted(there - {folder} if folder not in there else []):
                self.find("header", path, "is implemented in", other)

    def unit_tests(self):
        tests, named = "", set()
        for folder, _, names in os.walk(os.path.join(self.root, "tests")):
            for name in names:
                if name.startswith("test_") and name.endswith(".c"):
                    named.add(name[5:])
                    with open(os.path.join(folder, name)) as f:
                        tests += f.read()
        said = set(re.findall(r"\w+", tests))
        for path in sorted(self.text):
            mentioned = self.defined(path) & said or os.path.basename(path) in named
            if path.endswith(".c") and path.startswith(TESTED) and not mentioned:
                self.find("untested", path)
        with open(os.path.join(self.root, "tests/unit/meson.build")) as f:
            rows = f.read()
        for name in sorted(os.listdir(os.path.join(self.root, "tests/unit"))):
            if name.startswith("test_") and f"'{name[5:-2]}'" not in rows:
                self.find("tests/unit/" + name, "is not in tests/unit/meson.build")

    def lists(self):
        """Words that stand as literals in one list and nowhere else."""
        for row in words(self.root, "lists.txt"):
            name, literal, allowed = (cell.strip() for cell in row.split(" | "))
            for path, text in sorted(self.text.items()):
                if path not in allowed.split() and re.search(f'"(?:{literal})"', text):
                    self.find("list of", name + ":", "also in", path)

    # The libraries that are loaded into a job.

    def linked(self, build):
        def symbols(*files):
            """{object: names defined there}, of archives, objects or libraries"""
            said = subprocess.run(["nm", "-A", "--defined-only", *files], text=True, capture_output=True, check=True).stdout
            got = collections.defaultdict(set)
            for line in said.splitlines():
                where, kind, name = line.rsplit(" ", 2)
                got[where.rsplit(":", 1)[0]].add((kind, name))
            return got

        def far(names):
            return {name for kind, name in names if kind.isupper()}

        objects = [os.path.join(folder, n)
                   for folder, _, names in os.walk(os.path.join(build, "cli/capo.p")) for n in names if n.endswith(".o")]
        offline = symbols(os.path.join(build, "profiles/libcapo-profiles.a"))
        offline.update((o, s) for o, s in symbols(*objects).items() if "_tuner_" not in o)
        for member, names in symbols(os.path.join(build, "core/libcapo-core.a")).items():
            if member.endswith(tuple(name.replace("/", "_") + ".o" for name in OFFLINE_CORE)):
                offline[member] = names
        for library in JOB_LIBRARIES:
            inside = {name for names in symbols(os.path.join(build, library)).values() for _, name in names}
            for member in sorted(offline):
                if far(offline[member]) & inside:
                    short = os.path.basename(member.split(":")[-1])
                    self.find("linked into", os.path.basename(library) + ":", short)

    # The picture.

    def table(self):
        rows = ["| room | may use | what lives there |", "|---|---|---|"]
        return rows + ["| " + " | ".join(row) + " |" for row in self.rows]

    def picture(self):
        with open(os.path.join(self.root, "HACKING.md")) as f:
            if "\n".join(self.table()) not in f.read():
                self.find("HACKING.md does not show the table of rooms.txt (house.py --table)")


def main(arguments):
    flags = [a for a in arguments if a.startswith("--")]
    paths = [a for a in arguments if not a.startswith("--")]
    house = House(paths[0] if paths else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if "--table" in flags:
        print("\n".join(house.table()))
        return 0
    house.arrows()
    house.circles()
    house.long_files()
    house.headers()
    house.unit_tests()
    house.lists()
    house.picture()
    if len(paths) > 1:
        house.linked(paths[1])
    known = words(house.root, "known.txt")
    fresh = [f for f in house.findings if f not in known]
    stale = [k for k in known if k not in house.findings and not (k.startswith("linked") and len(paths) < 2)]
    if "--shrink" in flags:
        where = os.path.join(house.root, "tests/house/known.txt")
        with open(where) as f:
            lines = f.read().splitlines(keepends=True)
        with open(where, "w") as f:
            f.writelines(line for line in lines if line.rstrip("\n") not in stale)
    for finding in fresh:
        print(finding)
    for line in stale:
        print("mended, take it out of known.txt (house.py --shrink):", line)
    print(f"{len(house.text)} files, {len(house.findings)} findings, {len(known)} known, {len(fresh)} new")
    return 1 if fresh or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
