#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static analysis of what is shipped (not of the tests): every finding is mended, or stands with its reason in kept.txt.

usage: run.py BUILD [TOOL...]     tools: clang-tidy cppcheck (these by default) gcc clang (minutes)
       run.py --places            only: do the files and functions exist that kept.txt names?

Another release of a tool finds other things, so each is asked only in the release that Debian 12 has; elsewhere it is skipped.
A row of kept.txt that nothing matches any more fails, too.
"""
import fnmatch, glob, json, os, re, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
ROOMS = ("include/", "core/", "shim/", "tuner/", "analysis/", "profiles/", "cli/", "deploy/")
SKIP = 77
FINDING = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? (?:warning|error): (?P<text>.*) \[(?P<check>[\w.,+=-]+)\]$", re.M)


def compiled(build):
    """{path: its row of compile_commands.json}: each source once, as the first that is built of it; some are in several plugins."""
    rows = {}
    for row in json.load(open(os.path.join(build, "compile_commands.json"))):
        if row["file"].endswith(".c"):
            rows.setdefault(os.path.realpath(os.path.join(row["directory"], row["file"])), row)
    return rows


def files(build):
    """{file: (folder, [-I -D -std])} of what is shipped."""
    found = {}
    for path, row in compiled(build).items():
        path = os.path.relpath(path, TOP)
        if path.startswith(ROOMS):
            flags = [w for w in shlex.split(row["command"]) if re.match(r"-(I|isystem|D|U|std|f(PIC|no-common|no-strict))", w)]
            found[path] = (row["directory"], [w for w in flags if "_FORTIFY_SOURCE" not in w])
    return found


def text_of(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.stdout


def each(sources, command):
    """The output of command(path, flags) for each source, on all processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return "\n".join(pool.map(lambda s: text_of(*command(os.path.join(TOP, s[0]), s[1][1]), cwd=s[1][0]), sources.items()))


def clang_tidy(sources):
    return each(sources, lambda path, flags: ["clang-tidy-14", "--quiet", "--checks=-*,bugprone-*,cert-*,concurrency-*", path, "--"] + flags)


def clang(sources):
    """The analyser that scan-build runs."""
    return each(sources, lambda path, flags: ["clang-14", *flags, "--analyze", "-Xclang", "-analyzer-output=text", "-Xclang",
                                              "-analyzer-checker=security.insecureAPI.vfork,nullability,optin.portability", "-o", "/dev/null", path])


def gcc(sources):
    return each(sources, lambda path, flags: ["gcc", *flags, "-O2", "-fanalyzer", "-fdiagnostics-plain-output", "-c", "-o", "/dev/null", path])


# cppcheck reads no header of the system and stops at a macro that it takes for a call.
JANSSON = ["-Djson_array_foreach(a,i,v)=while(next_item(a,&i,&v))", "-Djson_object_foreach(o,k,v)=while(next_pair(o,&k,&v))"]


def cppcheck(sources):
    flags = sorted({w for _, f in sources.values() for w in f if re.match("-[DI]", w)} - {"-I.."})
    flags = [w if not w.startswith("-I") or os.path.isabs(w[2:]) else "-I" + os.path.join(next(iter(sources.values()))[0], w[2:])
             for w in flags if w[:2] != "-D" or w.startswith("-D_")]
    return text_of("cppcheck", "-j", str(os.cpu_count()), "--enable=warning,portability,performance", "--quiet", "--suppress=missingInclude",
                   "--template={file}:{line}: warning: {message} [{id}]", "--template-location=", "-D__x86_64__", "-DElfW(x)=Elf64_##x", *JANSSON, f"-I{TOP}", f"-I{TOP}/include",
                   *flags, *(os.path.join(TOP, s) for s in sources))


TOOLS = {  # what it is asked for its release, what that must be
    "clang-tidy": (clang_tidy, ["clang-tidy-14", "--version"], r"version 14\.0\.6"),
    "cppcheck": (cppcheck, ["cppcheck", "--version"], r"Cppcheck 2\.10\b"),
    "clang": (clang, ["clang-14", "--version"], r"version 14\.0\.6"),
    "gcc": (gcc, ["gcc", "-dumpfullversion"], r"^12\.2"),
}


def lines_of(path, cache={}):
    if path not in cache:
        cache[path] = [""] + open(os.path.join(TOP, path), encoding="utf-8").read().split("\n")
    return cache[path]


def function_at(path, line):
    """The function whose body the line is in: its head is at the margin, and so is the brace that ends it."""
    for n in range(line, 0, -1):
        text = lines_of(path)[n]
        if text == "}" and n < line:
            return "-"
        head = re.match(r"(?!typedef|struct \w+ \{)[A-Za-z_].*?\b(\w+)\(", text)
        if head and not text.rstrip().endswith(";"):
            return head.group(1)
    return "-"


class Kept:
    """One row: tool | check | file | where | reason. File is a pattern; where is a function (a pattern), ~WORD: the line or the
    next one has one of these words, ! between; or @cleanup: the pointer that is said to leak is declared with a cleanup attribute in that function."""

    def __init__(self, number, line):
        self.number, self.used = number, False
        self.tool, self.check, self.file, self.where, self.reason = (w.strip() for w in line.split("|", 4))

    def covers(self, tool, check, path, line, text):
        if tool != self.tool or not fnmatch.fnmatchcase(check, self.check) or not fnmatch.fnmatchcase(path, self.file):
            return False
        source = lines_of(path)
        if self.where.startswith("~"):
            return any(re.search(r"\b(" + self.where[1:].replace("!", "|") + r")\b", s) for s in source[line:line + 2])
        if self.where == "@cleanup":
            name, first = re.escape(re.search(r"(\w+)[\w.]*'?$", text).group(1)), line
            while first > 1 and source[first] != "{":
                first -= 1
            return re.search(r"_cleanup_[^;]*\b" + name + r"\b", "\n".join(source[first:line + 1])) is not None
        return fnmatch.fnmatchcase(function_at(path, line), self.where)


def kept_rows():
    return [Kept(n, line) for n, line in enumerate(open(os.path.join(HERE, "kept.txt"), encoding="utf-8"), 1)
            if line.strip() and not line.startswith("#")]


def check_places(rows):
    """Each row's file and function exist: after a renaming this finds the row in a second, without an analyser."""
    known = [path for room in ROOMS for path in glob.glob(os.path.join(TOP, room, "**", "*.[ch]"), recursive=True)]
    known = [os.path.relpath(path, TOP) for path in known]
    bad = 0
    for row in rows:
        here = [path for path in known if fnmatch.fnmatchcase(path, row.file)]
        heads = [re.match(r"[A-Za-z_].*?\b(\w+)\(", line) for path in here for line in lines_of(path)]
        if here and (row.where[0] in "~@" or any(head and fnmatch.fnmatchcase(head.group(1), row.where) for head in heads)):
            continue
        bad += 1
        print(f"kept.txt:{row.number}: no function {row.where} in {row.file}" if here else f"kept.txt:{row.number}: no file {row.file}")
    return 1 if bad else 0


def main(args):
    rows = kept_rows()
    if args == ["--places"]:
        return check_places(rows)
    build, wanted = os.path.realpath(args[0]), args[1:] or ["clang-tidy", "cppcheck"]
    sources = files(build)
    bad = ran = 0
    skipped = []
    for tool in wanted:
        run, ask, release = TOOLS[tool]
        try:
            said = text_of(*ask)
        except OSError:
            said = ""
        if not re.search(release, said):
            skipped.append(f"{tool} is not here in the release whose findings are known")
            continue
        ran += 1
        out, seen, kept = run(sources), set(), 0
        for m in FINDING.finditer(out):
            path = os.path.relpath(os.path.realpath(os.path.join(build, m["file"])), TOP)
            what = (m["check"], path, int(m["line"]), m["text"])
            if what in seen or not path.startswith(ROOMS):
                continue
            seen.add(what)
            found = [row for row in rows if row.covers(tool, *what)]
            for row in found:
                row.used = True
            kept += bool(found)
            if not found:
                bad += 1
                print(f"{tool}: {path}:{m['line']}: {function_at(path, int(m['line']))}: {m['text']} [{m['check']}]")
        if re.search(r"\b(fatal error|unknown argument|error: unable|no such file)", out):
            bad += 1
            print(f"{tool} could not read a source:", re.search(r".*\b(fatal error|unknown argument|error: unable|no such file).*", out).group())
        for row in rows:
            if row.tool == tool and not row.used:
                bad += 1
                print(f"kept.txt:{row.number}: {tool} finds no such thing any more in {row.file}: {row.where} [{row.check}]; take the row out")
        print(f"{tool}: {len(sources)} sources, {kept} findings with a reason", flush=True)
    for line in skipped:
        print("not tried:", line)
    return 1 if bad else 0 if ran else SKIP


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
