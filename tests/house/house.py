#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the sources against the project's own rules: house.py SOURCE_ROOT [BUILD_ROOT].

modules.txt lists the directories and what each one includes, lists.txt the words that stand in one list only, waits.txt
what is not called with a lock held. known.txt holds the findings that are allowed until somebody mends them, one per
line, as this program prints them. A line that is no longer true must go, so the list only shrinks (--shrink does it).
--table prints the page docs/internals/modules.md.
"""
import collections
import os
import re
import subprocess
import sys

LONGEST = 900
ROOMS = ("include", "core", "shim", "tuner", "analysis", "profiles", "cli")
# Every directory may use these two; the table does not repeat them.
BASE = ("include/capo", "core/base")
# What must have a unit test, file by file.
TESTED = ("core", "tuner", "analysis/job", "analysis/log", "analysis/network", "analysis/report")
# Core's files that only the offline half uses: none of them in a library that is loaded into a job.
OFFLINE_CORE = ("profile/profile_check.c",)
JOB_LIBRARIES = ("shim/libcapo.so", "tuner/libnccl-tuner-capo.so")


def words(root, name):
    """The rows of a table of this folder, without comments and empty lines."""
    with open(os.path.join(root, "tests/house", name)) as text:
        return [line.rstrip("\n") for line in text if line.strip() and not line.startswith("#")]


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
        self.rows = [[cell.strip() for cell in row.split(" | ")] for row in words(root, "modules.txt")]

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
                if kind == '"' and not os.path.exists(os.path.join(self.root, name + ".in")): # made by the build
                    self.find("include", path, "of", name + ": no such file")
        return found

    # Which directory includes which.

    def arrows(self):
        """modules.txt is the real picture: every row lists what its files include, no more and no less, and only rows above it."""
        real = collections.defaultdict(set)
        for path, used in self.uses.items():
            here = os.path.dirname(path)
            real[here] |= {os.path.dirname(u) for u in used} - {here, *BASE}
        place = {}
        for i, (folder, allowed, _) in enumerate(self.rows):
            place[folder] = i
            listed = set(allowed.split()) - {"-"}
            for used in sorted(listed - real[folder]):
                self.find("modules.txt:", folder, "may use", used + ", and no file of it does")
            for used in sorted(real[folder] - listed):
                self.find("modules.txt:", folder, "includes", used + ", which its row does not list")
            for used in sorted(listed):
                if place.get(used, i) >= i:
                    self.find("modules.txt:", folder, "may use", used + ", which is no row above it")
        folders = {os.path.dirname(path) for path in self.text}
        for folder in sorted(folders - set(place)):
            self.find("modules.txt has no row for", folder)
        for folder in sorted(set(place) - folders):
            self.find("modules.txt:", folder, "is no directory with sources")

    def base_names(self):
        """x.c and x.h are one unit; two units of one name are what grep stumbles over. In tests/, too."""
        units = collections.defaultdict(set)
        tests = [os.path.relpath(os.path.join(folder, name), self.root)
                 for folder, _, names in os.walk(os.path.join(self.root, "tests")) for name in names if name.endswith((".c", ".h"))]
        for path in [*self.text, *tests]:
            unit = os.path.splitext(path)[0]
            if not unit.startswith("include/"):
                units[os.path.basename(unit)].add(unit)
        for name, found in sorted(units.items()):
            if len(found) > 1:
                self.find("one name:", *sorted(found))

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
        names = re.findall(r"^(?!static|typedef|extern|#|\s)[^;={}\n]*?\b(\w+)\([^;]*?\)\s*\{", self.text[path], re.M)
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

    def settings(self):
        """Each row of env.def is read by some code, and some test sets it."""
        rows = re.findall(r'^ENV(?:_OWN|_LEAST)?\((\w+), \w+, "(\w+)"', self.text["include/capo/env.def"], re.M)
        code = "\n".join(text for path, text in self.text.items() if not path.endswith("env.def"))
        tests = []
        for folder, _, names in os.walk(os.path.join(self.root, "tests")):
            for name in names:
                if name.endswith((".c", ".sh", ".py")):
                    with open(os.path.join(folder, name)) as f:
                        tests.append(f.read())
        tests = "\n".join(tests)
        for field, name in rows:
            if not re.search(rf"(?:->|\.|\bCAPO_ENV_){field}\b", code):
                self.find("include/capo/env.def:", name, "is read nowhere: env->" + field)
            if not re.search(rf"\b{name}\b", tests):
                self.find("include/capo/env.def:", name, "is set by no test")

    # The libraries that are loaded into a job.

    def linked(self, build):
        def symbols(*files):
            """{object: names defined there}, of archives, objects or libraries"""
            said = subprocess.run(["nm", "-A", "--defined-only", *files], text=True, capture_output=True, check=True).stdout
            got = collections.defaultdict(set)
            for line in said.splitlines():
                if " " not in line:
                    continue
                where, kind, name = line.rsplit(" ", 2)
                got[where.rsplit(":", 1)[0]].add((kind, name))
            return got

        def far(names):
            return {name for kind, name in names if kind.isupper()}

        objects = [os.path.join(folder, n)
                   for folder, _, names in os.walk(os.path.join(build, "cli/capo.p")) for n in names if n.endswith(".o")]
        offline = symbols(os.path.join(build, "profiles/libcapo-profiles.a"),
                          os.path.join(build, "analysis/libcapo-analysis.a"))
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
        rows = ["# Modules", "", "From the bottom up: what each directory contains, and which others its files include. All may include include/capo and",
                "core/base. `tests/house/house.py --table` prints this page from tests/house/modules.txt.", "",
                "| directory | contents | includes |", "|---|---|---|"]
        return rows + [f"| {folder} | {contents} | {used} |" for folder, used, contents in self.rows]

    def picture(self):
        with open(os.path.join(self.root, "docs/internals/modules.md")) as f:
            if f.read() != "\n".join(self.table()) + "\n":
                self.find("docs/internals/modules.md is not what house.py --table prints")

    def locked_calls(self):
        """Nothing that waits is called in a job at all, and no cancellation point with a brief lock held (core/base/lock.h)."""
        table = {kind: set(names.split()) for kind, names in (row.split(None, 1) for row in words(self.root, "waits.txt"))}
        for path, text in self.text.items():
            if not path.startswith(("shim/", "core/", "tuner/")) or path.startswith("core/base/lock."):
                continue
            for called in sorted(set(re.findall(r"(?<![\w.>])([a-z_]\w*)\(", re.sub(r"/\*.*?\*/", "", text, flags=re.S))) & table["any"]):
                self.find("waits", path, f"calls {called}(), at which a thread may be cancelled: make the system call itself")
            bodies = {m.group(1): m.group(2) for m in re.finditer(r"^[^\s/#].*?\b(\w+)\([^;{]*\)\n\{\n(.*?)^\}", text, re.M | re.S)}
            for name, body in bodies.items():
                for region in re.findall(r"\bcapo_lock_brief\(.*?(?:\bcapo_unlock_brief\(|\Z)", body, re.S):
                    for called in sorted(self.calls_of(region, bodies) & table["brief"]):
                        self.find("waits", path, f"{name}() calls {called}() between capo_lock_brief() and capo_unlock_brief()")

    @staticmethod
    def calls_of(text, bodies):
        """Names of the functions that @text calls, and those that functions of the same file call for it."""
        found, todo = set(), [text]
        while todo:
            for name in set(re.findall(r"\b([a-z_]\w*)\(", todo.pop())) - found:
                found.add(name)
                if name in bodies:
                    todo.append(bodies[name])
        return found


def main(arguments):
    flags = [a for a in arguments if a.startswith("--")]
    paths = [a for a in arguments if not a.startswith("--")]
    house = House(paths[0] if paths else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if "--table" in flags:
        print("\n".join(house.table()))
        return 0
    house.arrows()
    house.base_names()
    house.circles()
    house.long_files()
    house.headers()
    house.unit_tests()
    house.lists()
    house.settings()
    house.locked_calls()
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
