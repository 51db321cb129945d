#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in the sources, not in the files themselves, and asks whether the tests notice.

Every fault is one small change of one line: a comparison, an operator, a constant off by one, a condition turned round,
a call or an early return left out. They are chosen by a seed among all that the patterns find in a module's files
(modules.txt), and stay chosen while their lines stay. The build folder stays as it is: for each fault one object is compiled
elsewhere, and those of the module's test programs that have the file in them are linked with it and run one after the other,
those that noticed other faults of the file or are called like it first, until one fails; what no test notices is tried
again with sanitizers, under which .ci/run and ./dev deep run the tests, too. Tests that are scripts are asked afterwards, in a copy of
the sources with a build folder of its own. A fault that changes no instruction is no fault. What is left over is printed
as a diff; survivors.txt keeps those that no test can or need notice.
"""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import functools
import glob
import hashlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
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
    # not {0}, not the length of an array, not a unit such as 1000000
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
                   r"|__attribute__|\breserve|\bcapacity|\b\w+_free\(|\bcapo_hist_finish\(")
SPEAKS = re.compile(r"\bcapo_(?:msg|error|warn|warn_once|info|debug)\([^;]*;")

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
os.environ["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"


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
        if re.match(r"\s*if \((![\w.>-]+ \|\| ?)+(![\w.>-]+\) \{)?$", code) and "ENOMEM" in "".join(codes[number:number + 3]):
            continue
        best = re.search(r"(\S+) [<>] (\S+)\)$", code)  # the same number once more is no other
        best = best and codes[number].strip() == f"{best[2]} = {best[1].lstrip('(')};"
        last = number < len(lines) and lines[number] == "}"  # without its last return a function often returns the same
        for kind, pattern, other in SWAPS:
            for m in re.finditer(pattern, code):
                old = line[m.start(1):m.end(1)]
                new = line[:m.start(1)] + (other[old] if isinstance(other, dict) else other(old)) + line[m.end(1):]
                if kind == "constant" and "alloc(" in code and (int(other(old)) > int(old) or code[:m.start(1)].endswith("+ ")):
                    continue  # more memory than is needed, and the one more that memory for nothing has
                none = re.search(r"(\? -1 : |(?<![\w.])(?<![\w)\]=] )-| = -)$", code[:m.start(1)])
                if kind == "constant" and none and (old, other(old)) == ("1", "2"):
                    continue  # of an order, and of a number that stands for none, only the sign counts
                if kind == "constant" and re.search(r"\b(v?snprintf|capo_append)\(\w+, $", code[:m.start(1)]):
                    continue  # the size of a buffer whose text is shorter
                # a declaration left out compiles to nothing; a pointer's star is no product
                star = kind == "product" and re.search(r"\b(struct|char|void|const)\b", code)
                if best and kind == "comparison" and m.end(1) > code.rindex(" ", 0, code.rindex(" ")):
                    continue
                if new != line and not (last and kind == "left out") and not star:
                    fault = Fault(path, number, line, new, kind)
                    found.setdefault(fault.key(), fault)
    return list(found.values())


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


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
        if not command[0].endswith(("gcc", "cc", "nm", "ninja")):
            end_session(process.pid)
        out.seek(0)
        return status, out.read()


def must(command):
    status, said = run(command)
    if status != 0:
        sys.exit(said[-4000:] + "\nmutate: that failed: " + " ".join(command))
    return said


class Tests:
    """A build folder, its tests and what they noticed."""

    def __init__(self, build, seconds):
        self.build, self.seconds = build, seconds
        must(["ninja", "-C", build, "build.ninja"])
        self.tests = json.loads(must(["meson", "introspect", build, "--tests"]))
        self.outputs = {t["id"]: [os.path.relpath(f, build) for f in t["filename"]]
                        for t in json.loads(must(["meson", "introspect", build, "--targets"]))}
        self.commands = {}  # output: the command that makes it
        self.objects = {}   # source: the outputs compiled from it
        top = os.path.dirname(build)
        for command in json.loads(must(["ninja", "-C", build, "-t", "compdb"])):
            self.commands[command["output"]] = command["command"]
            if command["output"].endswith(".o"):
                source = os.path.relpath(os.path.normpath(os.path.join(build, command["file"])), top)
                self.objects.setdefault(source, []).append(command["output"])
        self.noticed = {}  # (file, test): how many of the file's faults the test noticed

    def ninja(self, *targets):
        return run(["ninja", "-C", self.build, *targets])

    def programs(self, test):
        return sum((self.outputs[t] for t in test["depends"]), [])

    def is_program(self, test):
        return os.path.relpath(test["cmd"][0], self.build) in self.programs(test)

    def chosen(self, words, path):
        """The tests that a row names and the file's own, those first that noticed most of it, then those called like it."""
        stem = os.path.splitext(os.path.basename(path))[0]
        got = [t for t in self.tests if t["name"] == stem and any(s.endswith(":unit") for s in t["suite"])]
        for word in words.split():
            group = [t for t in self.tests if t["name"] == word or any(s.endswith(":" + word) for s in t["suite"])]
            if not group:
                sys.exit(f'mutate: modules.txt: expected tests or suites of the build, found "{word}"')
            got += sorted((t for t in group if t not in got and "slow" not in str(t["suite"])), key=lambda t: t["name"])
        return sorted(got, key=lambda t: (-self.noticed.get((path, t["name"]), 0), stem not in t["name"]))

    def run_test(self, test, instead=()):
        """What is wrong with one test, None if it passes or asks nothing here; other files can be named instead of some."""
        instead = {os.path.join(self.build, old): os.path.join(self.build, new) for old, new in dict(instead).items()}
        env = {name: instead.get(value, value) for name, value in test["env"].items()}
        status, said = run([instead.get(word, word) for word in test["cmd"]], self.seconds,
                           cwd=test["workdir"] or self.build, env=dict(os.environ, **env))
        if status in (0, 77):
            return None
        return "never ends" if status is None else f"status {status}"

    def count_noticed(self, fault, test, why):
        self.noticed[fault.path, test["name"]] = self.noticed.get((fault.path, test["name"]), 0) + 1
        return "noticed", f"{test['name']}: {why}"


class Beside(Tests):
    """The faults' objects and the programs with them lie beside those of a build folder; several can be asked at a time."""

    def __init__(self, build, seconds, asked):
        super().__init__(build, seconds)
        wanted = [t for words, path in asked for t in self.chosen(words, path) if self.is_program(t)]
        must(["ninja", "-C", build] + sorted(set(sum((self.programs(t) for t in wanted), []))))
        self.symbols = functools.lru_cache(None)(self.symbols)
        self.digest_of = functools.lru_cache(None)(self.digest_of)
        self.passes = functools.lru_cache(None)(self.passes)

    def symbols(self, output, *options):
        said = must(["nm", "--defined-only", "--format=just-symbols", *options, os.path.join(self.build, output)])
        return frozenset(said.split())

    def passes(self, path, name, flags):
        """Whether the test has nothing against the file as it is."""
        with open(os.path.join(ROOT, path)) as f, tempfile.TemporaryDirectory() as folder:
            made = self.compile(path, f.read(), folder, flags)
            return not any(self.fails(t, path, made, flags) for t in self.tests if t["name"] == name and self.is_program(t))

    def compile(self, path, text, folder, flags=()):
        """The object of this text in place of the file, None if it is no program."""
        source, output = os.path.join(folder, os.path.basename(path)), os.path.join(folder, "fault.o")
        with open(source, "w") as f:
            f.write(text)
        words = shlex.split(self.commands[self.objects[path][0]])
        while words[0] == "ccache":
            words = words[1:]
        for option in ("-o", "-MQ", "-MF"):
            at = words.index(option)
            del words[at:at + 2]
        words = [w for w in words[:-1] if w != "-MD"]
        words += [source, "-O1", "-g0", "-iquote", os.path.join(ROOT, os.path.dirname(path)), "-o", output, *flags]
        return output if run(words, cwd=self.build)[0] == 0 else None

    def digest_of(self, path):
        with open(os.path.join(ROOT, path)) as f, tempfile.TemporaryDirectory() as folder:
            return digest(self.compile(path, f.read(), folder))

    def link(self, target, path, made, name, flags):
        """Links a target with the object in place of the file's; the file is new and called name."""
        words = shlex.split(self.commands[target])
        words = [made if w in self.objects[path] else w for w in words]
        at = words.index("-o")
        words[at + 1:at + 2] = [name, "-Wl,--strip-debug", *flags] + ([] if made in words else [made])
        return run(words, cwd=self.build)[0] == 0

    def fails(self, test, path, made, flags):
        """What is wrong with one test, None if it passes or has nothing of the file in it."""
        ours = self.symbols(self.objects[path][0], "-g")
        named = [test["cmd"][0], *test["env"].values()]
        targets = [t for t in self.programs(test) if os.path.join(self.build, t) in named and ours & self.symbols(t)]
        instead = {t: f"{t}.fault{threading.get_ident()}" for t in targets}
        try:
            if not all(self.link(target, path, made, name, flags) for target, name in instead.items()):
                return "does not link"
            return self.run_test(test, instead) if targets else None
        finally:
            for name in instead.values():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.build, name))

    def ask(self, fault, words):
        with open(os.path.join(ROOT, fault.path)) as f:
            lines = f.read().split("\n")
        lines[fault.number - 1] = fault.new
        for flags in (), SANITIZERS:
            with tempfile.TemporaryDirectory() as folder:
                made = self.compile(fault.path, "\n".join(lines), folder, flags)
                if not made:
                    return "no program", "the compiler"
                if not flags and digest(made) == self.digest_of(fault.path):
                    return "no change", "the same instructions"
                for test in self.chosen(words, fault.path):
                    why = self.is_program(test) and self.fails(test, fault.path, made, flags)
                    if why and not self.passes(fault.path, test["name"], flags):
                        sys.exit(f"mutate: the test {test['name']} fails without a fault")
                    if why:
                        return self.count_noticed(fault, test, why + " with sanitizers" * bool(flags))
        return "SURVIVED", ""


class Copy(Tests):
    """The sources in a folder of their own, built there: for tests that are scripts."""

    def __init__(self, folder, seconds):
        self.top = folder
        files = must(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
        files = [path for path in files if path and os.path.isfile(os.path.join(ROOT, path))]
        for path in files:
            with open(os.path.join(ROOT, path), "rb") as f:
                self.put(path, f.read(), os.stat(os.path.join(ROOT, path)).st_mode)
        for have in glob.glob(os.path.join(folder, "*/**/*.[chdp]*"), recursive=True):
            path = os.path.relpath(have, folder)
            if not path.startswith("build") and path not in files and os.path.isfile(have):
                os.unlink(have)
        build = os.path.join(folder, "build")
        if not os.path.exists(os.path.join(build, "build.ninja")):
            nccl = os.path.join(ROOT, ".deps/nccl/include")
            must(["meson", "setup", build, folder, "-Dtests=enabled", "-Doptimization=1", "-Ddebug=false"]
                 + ([f"-Dnccl_include={nccl}"] if os.path.exists(nccl) else []))
        super().__init__(build, seconds)

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

    def ask(self, fault, words):
        """(verdict, what noticed it) of one planted fault; the sources are as before afterwards."""
        with open(os.path.join(self.top, fault.path), "rb") as f:
            before = f.read()
        lines = before.decode().split("\n")
        lines[fault.number - 1] = fault.new
        self.put(fault.path, "\n".join(lines).encode())
        try:
            for test in self.chosen(words, fault.path):
                if not self.is_program(test) and self.ninja(*self.programs(test))[0] == 0:
                    why = self.run_test(test)
                    if why:
                        return self.count_noticed(fault, test, why)
            return "SURVIVED", ""
        finally:
            self.put(fault.path, before)


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("modules", nargs="*", help="modules of modules.txt, or single files; all modules unless said")
    ask.add_argument("--count", type=int, default=100, help="faults in each module")
    ask.add_argument("--seed", default="1", help="another seed chooses others")
    ask.add_argument("--minutes", type=float, default=600, help="stop after so long")
    ask.add_argument("--least", type=float, default=90, help="fail when fewer percent are noticed")
    ask.add_argument("--build", default=os.path.join(ROOT, "build"), help="a build folder with tests; it is brought up to date")
    ask.add_argument("--jobs", type=int, default=os.cpu_count(), help="faults at a time")
    ask.add_argument("--folder", default=os.path.join(ROOT, "build-mutation"), help="where the copy for scripts is built")
    ask.add_argument("--limit", type=float, default=60, help="seconds for one test")
    ask.add_argument("--tests", help="ask these, names or suites, instead of those of modules.txt")
    ask.add_argument("--quick", action="store_true", help="leave out the slower tests")
    ask.add_argument("--list", action="store_true", help="print the faults that would be planted, and no more")
    said = ask.parse_args()

    known = {tuple(row[:3]) for row in table("survivors.txt", "\t")}
    sources = must(["git", "-C", ROOT, "ls-files", "*.c"]).split()
    work = []
    unknown = [m for m in said.modules if m not in sources + [row[0] for row in table("modules.txt", " | ")]]
    if unknown:
        sys.exit(f"mutate: expected modules of modules.txt or source files, found {' '.join(unknown)}")
    for module, patterns, quick, slow in table("modules.txt", " | "):
        files = [f for f in sources if any(fnmatch.fnmatchcase(f, p) for p in patterns.split())]
        if said.modules and module not in said.modules:
            files = [f for f in files if f in said.modules]
        all_faults = [f for path in files for f in faults_of(path) if f.key() not in known]
        # each by a number of its own: another line of the sources does not make it another choice
        all_faults.sort(key=lambda f: hashlib.sha256(repr((said.seed, f.key())).encode()).digest())
        work += [(module, fault, quick, slow) for fault in all_faults[:said.count]]
    if said.list:
        print(*(fault for _, fault, _, _ in work), sep="\n")
        return 0
    if not work:
        sys.exit("mutate: expected modules of modules.txt or files in them, found none")
    if said.minutes < 600:
        random.Random(said.seed).shuffle(work)

    work = [(i, module, fault, said.tests if said.tests is not None else quick + " " + slow * (not said.quick)) for i, (module, fault, quick, slow) in enumerate(work, 1)]
    beside = Beside(os.path.abspath(said.build), said.limit, {(words, fault.path) for _, _, fault, words in work})
    end = time.monotonic() + said.minutes * 60
    counts = {}

    def note(number, fault, verdict, why):
        print(f"{number:4} {verdict:10} {fault}" + (f"\n    {why}" if why else ""), flush=True)
        return verdict

    def first(number, module, fault, words):
        if time.monotonic() > end:
            return None
        verdict, why = beside.ask(fault, words)
        if verdict == "SURVIVED" and any(not beside.is_program(t) for t in beside.chosen(words, fault.path)):
            return "scripts"
        return note(number, fault, verdict, why)

    with concurrent.futures.ThreadPoolExecutor(said.jobs) as pool:
        verdicts = list(pool.map(lambda row: first(*row), work))
    copy = Copy(said.folder, said.limit) if "scripts" in verdicts else None
    for (number, module, fault, words), verdict in zip(work, verdicts):
        if verdict == "scripts" and time.monotonic() < end:
            verdict = note(number, fault, *copy.ask(fault, words))
        counts.setdefault(module, {}).setdefault(verdict, []).append(fault)
    noticed = left = 0
    for module, got in counts.items():
        n, s = len(got.get("noticed", [])), len(got.get("SURVIVED", []))
        noticed, left = noticed + n, left + s
        print(f"{module}: {n} of {n + s} noticed" + (f" ({100 * n / (n + s):.0f} %)" if n + s else "")
              + f", {len(got.get('no change', []))} change nothing, {len(got.get('no program', []))} do not compile")
    print(f"{noticed} of {noticed + left} planted faults noticed")
    return 1 if 100 * noticed < said.least * (noticed + left) else 0


if __name__ == "__main__":
    sys.exit(main())
