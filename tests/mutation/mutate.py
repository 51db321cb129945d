#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in a copy of the sources and asks whether the tests notice.

Every fault is one small change of one line: a comparison, an operator, a constant off by one, a condition turned round,
a call or an early return left out. They are chosen by a seed among all that the patterns find in a room's files
(rooms.txt). The copy has its own build folder; for each fault one object is compiled and the room's tests are linked and
run one after the other, those that noticed other faults of the file or are called like it first, until one fails. A
fault that changes no instruction is no fault. What is left over is printed as a diff; survivors.txt keeps those that no
test can or need notice.
"""
import argparse
import fnmatch
import glob
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))

# name, what to look for (in code without comments and strings), what to write instead
SWAPS = [
    ("comparison", r"(?<= )(<=|>=|<|>)(?= )", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    ("equality", r"(?<= )(==|!=)(?= )", {"==": "!=", "!=": "=="}),
    ("logic", r"(?<= )(&&|\|\|)(?= |$)", {"&&": "||", "||": "&&"}),
    ("sum", r"(?<= )([+-])(?= )", {"+": "-", "-": "+"}),
    ("product", r"(?<= )([*/%])(?= (?!\w+[,;)]? *=))", {"*": "/", "/": "*", "%": "/"}),
    ("step", r"(\+=|-=)(?= )", {"+=": "-=", "-=": "+="}),
    ("bits", r"(?<= )(<<|>>|\||&)(?= )", {"<<": ">>", ">>": "<<", "|": "&", "&": "|"}),
    # not {0}, not the room of an array, not a unit such as 1000000
    ("constant", r"(?<![\w.\"'{\[])(\d{1,4})(?=[uUlL]*(?![\w.xX\]}]))", lambda n: str(int(n) + 1)),
    ("constant", r"(?<![\w.\"'{\[])([1-9]\d{0,3})(?=[uUlL]*(?![\w.xX\]}]))", lambda n: str(int(n) - 1)),
    ("size", r"(sizeof\((?:[^()]|\([^()]*\))*\))", lambda s: s + " / 2"),
    ("not", r"(?<=[( ])(!)(?=[\w(])", {"!": ""}),
    ("condition", r"(?<=\bif )(\(.*\))(?=(?: \{)?$)", lambda c: "(!" + c + ")"),
    ("condition", r"(?<=\bwhile )(\(.*\))(?= \{$)", lambda c: "(0 && " + c + ")"),
    ("left out", r"^(\s+(?:return\b[^;]*|break|continue);)$", lambda s: re.match(r"\s*", s)[0] + ";"),
    ("left out", r"^(\s+\w[\w>.\[\]-]* = [^;]*;)$", lambda s: re.match(r"\s*", s)[0] + ";"),
    ("left out", r"^(\s+(?!free|return|capo_warn|capo_info|capo_debug|fclose|close|munmap|assert)\w+\([^;]*\);)$",
     lambda s: re.match(r"\s*", s)[0] + ";"),
]
# Lines whose faults only waste or leak, or need memory to run out, and statements that only speak.
QUIET = re.compile(r"\b(free|close|fclose|dlclose|munmap|assert|_Static_assert|_cleanup_|ENOMEM)\b|^\s*#"
                   r"|__attribute__|\breserve|\bcapacity")
SPEAKS = re.compile(r"\bcapo_(?:msg|error|warn|warn_once|info|debug)\([^;]*;")


def table(name, between):
    with open(os.path.join(HERE, name)) as f:
        return [[cell.strip() for cell in line.rstrip("\n").split(between)] for line in f
                if line.strip() and not line.startswith("#")]


def bare(text):
    """The text with comments and strings blanked, character for character."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else m[0][0] + " " * (len(m[0]) - 2) + m[0][-1]
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", blank, text, flags=re.S)


class Fault:
    def __init__(self, path, number, old, new, kind):
        self.path, self.number, self.old, self.new, self.kind = path, number, old, new, kind

    def key(self):
        return (self.path, self.old.strip(), self.new.strip())

    def __str__(self):
        return f"{self.path}:{self.number}: {self.kind}\n    -{self.old}\n    +{self.new}"


def faults_of(path):
    with open(os.path.join(ROOT, path)) as f:
        text = f.read()
    found = {}
    code = SPEAKS.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), bare(text))
    lines, codes = text.split("\n"), code.split("\n")
    for number, (line, code) in enumerate(zip(lines, codes), 1):
        if not line.startswith(" ") or QUIET.search(code) or "ENOMEM" in "".join(codes[number:number + 1]):
            continue
        last = number < len(lines) and lines[number] == "}"  # without its last return a function often returns the same
        for kind, pattern, other in SWAPS:
            for m in re.finditer(pattern, code):
                old = line[m.start(1):m.end(1)]
                new = line[:m.start(1)] + (other[old] if isinstance(other, dict) else other(old)) + line[m.end(1):]
                if kind == "constant" and "alloc(" in code and int(other(old)) > int(old):
                    continue  # more memory than is needed
                if kind == "constant" and re.search(r"\? -(1 : )?$", code[:m.start(1)]) and other(old) == "2":
                    continue  # of an order only the sign counts
                # a declaration left out compiles to nothing; a pointer's star is no product
                star = kind == "product" and re.search(r"\b(struct|char|void|const)\b", code)
                if new != line and not (last and kind == "left out") and not star:
                    fault = Fault(path, number, line, new, kind)
                    found.setdefault(fault.key(), fault)
    return list(found.values())


def end_session(leader):
    """Kills what is left of a command's session: a test's worker has a group of its own and outlives a test that was killed."""
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat) as f:
                pid, rest = f.read().split(" (", 1)
            if int(rest.rsplit(") ", 1)[1].split()[3]) == leader:
                os.kill(int(pid), 9)
        except (OSError, ValueError, IndexError):
            pass  # it has ended meanwhile


def run(command, seconds=900, **how):
    """(status, output); a status of None is the time limit. The output goes to a file: whoever still held a pipe would be
    waited for."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                                   start_new_session=True, **how)
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        end_session(process.pid)
        out.seek(0)
        return status, out.read()


def must(command):
    status, said = run(command)
    if status != 0:
        sys.exit(said[-4000:] + "\nmutate: that failed: " + " ".join(command))
    return said


class Copy:
    """The sources in a folder of their own, built there."""

    def __init__(self, folder, seconds):
        self.top, self.build, self.seconds = folder, os.path.join(folder, "build"), seconds
        files = must(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
        files = [path for path in files if path and os.path.isfile(os.path.join(ROOT, path))]
        for path in files:
            with open(os.path.join(ROOT, path), "rb") as f:
                self.put(path, f.read(), os.stat(os.path.join(ROOT, path)).st_mode)
        for have in glob.glob(os.path.join(folder, "*/**/*.[chdp]*"), recursive=True):
            path = os.path.relpath(have, folder)
            if not path.startswith("build") and path not in files and os.path.isfile(have):
                os.unlink(have)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            nccl = os.path.join(ROOT, ".deps/nccl/include")
            must(["meson", "setup", self.build, folder, "-Dtests=enabled", "-Doptimization=1", "-Ddebug=false"]
                 + ([f"-Dnccl_include={nccl}"] if os.path.exists(nccl) else []))
        must(["ninja", "-C", self.build, "build.ninja"])
        self.tests = json.loads(must(["meson", "introspect", self.build, "--tests"]))
        self.outputs = {t["id"]: [os.path.relpath(f, self.build) for f in t["filename"]]
                        for t in json.loads(must(["meson", "introspect", self.build, "--targets"]))}
        self.told = {}  # (file, test): how many of the file's faults the test noticed
        self.objects = {}
        for command in json.loads(must(["ninja", "-C", self.build, "-t", "compdb"])):
            if command["output"].endswith(".o"):
                source = os.path.normpath(os.path.join(self.build, command["file"]))
                self.objects.setdefault(os.path.relpath(source, folder), command["output"])

    def put(self, path, content, mode=0o644):
        there = os.path.join(self.top, path)
        if os.path.exists(there):
            with open(there, "rb") as f:
                if f.read() == content:
                    return
        os.makedirs(os.path.dirname(there), exist_ok=True)
        with open(there, "wb") as f:
            f.write(content)
        os.chmod(there, mode)

    def ninja(self, *targets):
        return run(["ninja", "-C", self.build, *targets])

    def prepare(self, rooms):
        """Builds what all faults need, so that the time of each is its own."""
        tests = [t for words in rooms for t in self.chosen(words, "")]
        must(["ninja", "-C", self.build] + sorted(set(sum((self.outputs[d] for t in tests for d in t["depends"]), []))))

    def digest(self, path):
        with open(os.path.join(self.build, self.objects[path]), "rb") as f:
            return hashlib.sha256(f.read()).digest()

    def chosen(self, words, path):
        """The tests that a row names and the file's own, those first that noticed most of it, then those called like it."""
        stem = os.path.splitext(os.path.basename(path))[0]
        got = [t for t in self.tests if t["name"] == stem and any(s.endswith(":unit") for s in t["suite"])]
        for word in words.split():
            group = [t for t in self.tests if t["name"] == word or any(s.endswith(":" + word) for s in t["suite"])]
            got += sorted((t for t in group if t not in got and "slow" not in str(t["suite"])), key=lambda t: t["name"])
        return sorted(got, key=lambda t: (-self.told.get((path, t["name"]), 0), stem not in t["name"]))

    def fails(self, test):
        """What is wrong with one test, None if it passes. A test that cannot be had or asks nothing here passes."""
        if self.ninja(*sum((self.outputs[t] for t in test["depends"]), []))[0] != 0:
            return "does not link"
        status, said = run(test["cmd"], self.seconds, cwd=test["workdir"] or self.build,
                           env=dict(os.environ, **{k: v for k, v in test["env"].items()}))
        if status in (0, 77):
            return None
        return "never ends" if status is None else f"status {status}"

    def ask(self, fault, quick, slow):
        """(verdict, what told it) of one planted fault; the sources are as before afterwards."""
        with open(os.path.join(self.top, fault.path), "rb") as f:
            before = f.read()
        lines = before.decode().split("\n")
        lines[fault.number - 1] = fault.new
        self.ninja(self.objects[fault.path])
        was = self.digest(fault.path)
        self.put(fault.path, "\n".join(lines).encode())
        try:
            if self.ninja(self.objects[fault.path])[0] != 0:
                return "no program", "the compiler"
            if self.digest(fault.path) == was:
                return "no change", "the same instructions"
            for tests in (quick, slow):
                for test in self.chosen(tests, fault.path):
                    why = self.fails(test)
                    if why:
                        self.told[fault.path, test["name"]] = self.told.get((fault.path, test["name"]), 0) + 1
                        return "noticed", f"{test['name']}: {why}"
            return "SURVIVED", ""
        finally:
            self.put(fault.path, before)
            self.ninja(self.objects[fault.path])


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("rooms", nargs="*", help="rooms of rooms.txt, or single files; all rooms unless said")
    ask.add_argument("--count", type=int, default=100, help="faults in each room")
    ask.add_argument("--seed", default="1", help="another seed chooses others")
    ask.add_argument("--minutes", type=float, default=600, help="stop after so long")
    ask.add_argument("--least", type=float, default=90, help="fail when fewer percent are noticed")
    ask.add_argument("--folder", default=os.path.join(ROOT, "build-mutation"), help="where the copy is built")
    ask.add_argument("--limit", type=float, default=60, help="seconds for one test")
    ask.add_argument("--quick", action="store_true", help="leave out the slower tests")
    ask.add_argument("--list", action="store_true", help="print the faults that would be planted, and no more")
    said = ask.parse_args()

    known = {tuple(row[:3]) for row in table("survivors.txt", "\t")}
    sources = must(["git", "-C", ROOT, "ls-files", "*.c"]).split()
    work = []
    for room, patterns, quick, slow in table("rooms.txt", " | "):
        files = [f for f in sources if any(fnmatch.fnmatchcase(f, p) for p in patterns.split())]
        if said.rooms and room not in said.rooms:
            files = [f for f in files if f in said.rooms]
        all_faults = [f for path in files for f in faults_of(path) if f.key() not in known]
        random.Random(f"{said.seed} {room}").shuffle(all_faults)
        work += [(room, fault, quick, slow) for fault in all_faults[:said.count]]
    if said.list:
        print(*(fault for _, fault, _, _ in work), sep="\n")
        return 0
    if not work:
        sys.exit("mutate: no such room or file")
    if said.minutes < 600:
        random.Random(said.seed).shuffle(work)

    copy = Copy(said.folder, said.limit)
    copy.prepare({quick for _, _, quick, _ in work})
    end = time.monotonic() + said.minutes * 60
    counts = {}
    for i, (room, fault, quick, slow) in enumerate(work):
        if time.monotonic() > end:
            break
        verdict, why = copy.ask(fault, quick, "" if said.quick else slow)
        counts.setdefault(room, {}).setdefault(verdict, []).append(fault)
        print(f"{i + 1:4} {verdict:10} {fault}" + (f"\n    {why}" if why else ""), flush=True)
    noticed = left = 0
    for room, got in counts.items():
        n, s = len(got.get("noticed", [])), len(got.get("SURVIVED", []))
        noticed, left = noticed + n, left + s
        print(f"{room}: {n} of {n + s} noticed" + (f" ({100 * n / (n + s):.0f} %)" if n + s else "")
              + f", {len(got.get('no change', []))} change nothing, {len(got.get('no program', []))} do not compile")
    print(f"{noticed} of {noticed + left} planted faults noticed")
    return 1 if 100 * noticed < said.least * (noticed + left) else 0


if __name__ == "__main__":
    sys.exit(main())
