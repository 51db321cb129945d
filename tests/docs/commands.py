# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md and docs/*.md, word for word, and holds the output shown there against theirs.

usage: commands.py CAPO SOURCE [PAGE...]

A command stands in a block (indented by four, or ``` without a language, ```sh, ```console): a line that begins with "$ ",
or, in a block without such, a line that begins as a command does. A block is run by one bash in a folder of its page, with
the freshly built capo first in PATH, the stand-in NCCL, and what site.sh makes: recordings, profiles, data, and programs of the
names used there (torchrun, srun, mpirun, all_reduce_perf, train.py), which run the jobs of tests/jobs.

What is compared:
  * the exit status: 0, where the page does not show another ("exit status 1"); of capo diff, the one of what it found slower, which
    is measured here.
  * what NCCL or a file alone decides (topo, plan, graph, explain, profile, fit --model): each line shown, in order, word for
    word; where the page leaves lines out ("...", "shortened"), those that are shown. Digests and paths are not compared.
  * what was measured on somebody's machine: the titles of sections, and of each table the names of its columns. The same
    holds for pages shown without their command.

NOT_RUN says what is not run, and why; an entry that fits nothing is an error, as is one that is not needed.
"""
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

capo, source = (os.path.realpath(p) for p in sys.argv[1:3])
build = os.path.dirname(os.path.dirname(capo))
here = os.path.dirname(os.path.realpath(__file__))

# (page, how the command begins): why it is not run
NOT_RUN = {
    ("README.md", "./dev build"): "builds capo",
    ("README.md", "./dev run"): "builds capo, then takes minutes",
    ("README.md", "./dev test"): "builds capo and runs this test",
    ("README.md", "meson install"): "installs capo",
    ("docs/command-line.md", "capo VERB"): "a pattern",
    ("docs/compare.md", "capo diff old.txt new.txt"): "the reader's files; tests/fit/diff.sh compares such",
    ("docs/diagnose.md", "capo diagnose job.log"): "the reader's files of a job that failed; tests/diagnose has such",
    ("docs/expect.md", "capo expect tests.log"): "the reader's measurements; tests/expect has such",
    ("docs/expect.md", "capo expect capo-logs/ --topo this"): "needs GPUs and a job with GPU times",
    ("docs/hang.md", "capo hang"): "the reader's running job; tests/hang/outside.py asks so",
    ("docs/install.md", "./dev build"): "builds capo",
    ("docs/install.md", "meson install"): "installs capo",
    ("docs/internals/aarch64.md", "./dev deep"): "cross-builds capo, minutes",
    ("docs/internals/frameworks.md", "./dev frameworks"): "fetches hundreds of MB; ./dev deep has the quick one",
    ("docs/fragments.md", "CUDA_VISIBLE_DEVICES=MIG"): "needs a GPU with MIG slices",
    ("docs/internals/measurements.md", "./dev bench"): "takes minutes; tests/bench runs it",
    ("docs/internals/measurements.md", "tests/bench/run.sh"): "takes minutes; tests/bench runs it",
    ("docs/internals/gpu-kit.md", "./dev build"): "builds capo",
    ("docs/internals/gpu-kit.md", "tests/gpu/run.sh"): "needs a GPU; the test gpu-dry runs it without",
}
# What these ask is there on some machines only: (pattern of the command, how to see it, what it is)
NEEDS = [
    (r"\bplan |\bgraph |--predict\b|--model|--graph auto|--atlas|(explain|expect) .*--(platform|gpus)", "capo plan --platform dgx1v --sizes 1M | grep -q 'real NCCL 2.28.9'", "NCCL 2.28.9"),
    (r"nccl-2\.27\.3", "test -e nccl-2.27.3/libnccl.so.2", "NCCL 2.27.3"),
    (r"\bfi_pingpong\b", "command -v fi_pingpong", "fi_pingpong"),
    (r"\bjq\b", "command -v jq", "jq"),
]
BY_MODEL = r"^capo (topo|plan|graph|explain|profile|fit --model)\b"
# COMMANDS_SHOW=1 shows all output, and when each command of a block had ended
COMMAND = re.compile(r"(capo [a-z]|for |mkdir |\./dev|meson |tests/|([A-Z_]+=\S+ )+[a-z.])")
PAGE_OF = re.compile(r"capo \w+  ")  # the first line of a page: "capo report  job 48213"
TITLE = re.compile(r"([A-Z][A-Z ]+[A-Z])(?: \[\d\])*(?:$| {3}| \()")
MARK = "-- end of command"

work = tempfile.mkdtemp(prefix="capo-docs-")
env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_", "SLURM_"))}
env.update(PATH=f"{work}/bin:{build}/cli:{build}/tests/jobs:{env['PATH']}", LD_LIBRARY_PATH=f"{build}/tuner", LC_ALL="C.UTF-8", COLUMNS="80",
           BUILD=build, SOURCE=source, PYTHON=sys.executable, TMPDIR=work, XDG_CACHE_HOME=f"{work}/cache", XDG_CONFIG_HOME=f"{work}/config")
bad, ran, skipped, unused = 0, 0, [], dict(NOT_RUN)


def fail(where, what):
    global bad
    bad += 1
    print(f"FAIL  {where}: {what}")


def bash(script, folder):
    """A block; a command that hangs ends the test with what it has said so far."""
    with tempfile.NamedTemporaryFile("w+", dir=work, errors="replace") as out:
        status = subprocess.run(["timeout", "600", "bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
        out.seek(0)
        return status, out.read()


def blocks(page):
    """(line number, lines) of each block that may hold commands."""
    found, block, fence = [], [], None
    for number, line in enumerate(open(os.path.join(source, page)).read().split("\n") + [""], 1):
        if line.startswith("```"):
            if fence in ("", "sh", "console") and block:
                found.append(block)
            block, fence = [], None if fence is not None else line[3:]
        elif fence is not None or line.startswith("    "):
            block.append((number, line if fence is not None else line[4:]))
        elif block and line:
            found, block = found + [block], []
        elif block:
            block.append((number, ""))
    return found


def commands(block):
    """(line number, command, lines shown below it); the command is None for a page without one."""
    dollars, found = False, []
    for i, (number, text) in enumerate(block):
        if i == 0 or not block[i - 1][1]:  # a paragraph without any, before the first one with, has commands alone
            dollars |= any(t.startswith("$ ") for _, t in itertools.takewhile(lambda line: line[1], block[i:]))
        open_loop = found and found[-1][1] and re.match(r"for ", found[-1][1]) and not re.search(r"\bdone\b", found[-1][1])
        if open_loop:
            found[-1][1] += "\n" + text
        elif text.startswith("$ ") or not dollars and COMMAND.match(text) and not PAGE_OF.match(text):
            found.append([number, text.removeprefix("$ "), []])
        elif found:
            found[-1][2].append(text)
        else:
            found.append([number, None, [text]])
    return found


def heads(lines):
    """Titles of sections, and names of columns: a line of three cells or more, two blanks apart, of which none is a number."""
    found = []
    for line in lines:
        cells = re.split(r"  +", line.strip())
        if title := TITLE.match(line):
            found.append(title[1])
        elif len(cells) > 3 and all(re.fullmatch(r"[a-zA-Z(][a-zA-Z0-9 ,()%/|]*", cell) for cell in cells) and cells[0] in HEADS:
            found.append(cells)
    return found


AT_ONCE = 2  # pages; each has a folder of its own
LONGEST = ("docs/compare.md", "README.md")
HEADS = ("comm", "rank", "name (ranks)", "size", "import", "bucket cap", "algo", "class", "sets")


def plain(line):
    line = re.sub(r"(?<!\w)[./~]?[\w.-]*/[\w./-]+", "PATH", line)
    return re.sub(r"\b[0-9a-f]{32}\b", "DIGEST", re.sub(r" +", " ", line.strip()))


def compare(where, command, shown, output, pages):
    if command and re.match(BY_MODEL, command):
        actual, at = [plain(line) for line in output.split("\n")], 0
        for line in (plain(line) for line in shown):
            if not line or line == "...":
                continue
            if line not in actual[at:]:
                fail(where, f"not in this order in the output of {command}: {line!r}\n{output}")
                return
            at = actual.index(line, at) + 1
        return
    has = heads((output + pages).split("\n"))  # which sections there are depends on what was measured
    for head in heads(shown):  # a page leaves out columns that have no room; NEXT and TRIALS are there only when a number asks for them
        if head not in ("NEXT", "TRIALS") and head not in has and not any(set(head) <= set(h) for h in has if not isinstance(h, str) and not isinstance(head, str)):
            fail(where, f"{command or 'capo report'} prints no such {'title' if isinstance(head, str) else 'columns'}: {head}\n{output}")


def missing(command, folder):
    for pattern, probe, what in NEEDS:
        if re.search(pattern, command) and bash(probe, folder)[0]:
            return what


def run_block(page, folder, block, pages):
    global ran
    todo = []
    for number, command, shown in commands(block):
        where = f"{page}:{number}"
        if command is None:
            if any(TITLE.match(line) for line in shown):
                compare(where, None, shown, "", pages)
            continue
        key = next((k for k in NOT_RUN if k[0] == page and command.startswith(k[1])), None)
        unused.pop(key, None)
        if key:
            continue
        if what := missing(command, folder):
            skipped.append(f"{where} ({what})")
            continue
        todo.append((where, command, shown))
    script = "".join(f"{command}\n{{ s=$?; echo; echo '{MARK}' $s $SECONDS; }}\n" for _, command, _ in todo)
    _, output = bash(script, folder) if todo else (0, "")
    parts = re.split(rf"\n?{MARK} (\d+) (\d+)\n", output)
    for (where, command, shown), output, status, seconds in zip(todo, parts[::3], parts[1::3], parts[2::3]):
        ran += 1
        if os.environ.get("COMMANDS_SHOW"):
            print(f"{where}, {seconds} s: {command}\n{output}")
        said = re.search(r"exit status (\d)", "\n".join(shown))
        slower = re.search(r"; slower: (.*)", output)
        if slower and re.fullmatch("capo diff [^;|]*", command):
            right = status == ("0" if slower[1] == "nothing" else "1")
        else:
            right = status == "0" or bool(said) and status == said[1]
        if not right:
            fail(where, f"{command}: exit status {status}\n{output}")
        else:
            compare(where, command, shown, output, pages)
    if len(parts) // 3 < len(todo):
        fail(page, f"ended before its time: {todo[len(parts) // 3][1]}\n{parts[-1]}")


def run_page(page, pages):
    folder = os.path.join(work, page.replace("/", "-"))
    os.mkdir(folder)
    name = re.sub(r"\W", "_", os.path.basename(page).removesuffix(".md"))
    status, said = bash(f"set -e; . {here}/site.sh; common; if type page_{name} >/dev/null 2>&1; then page_{name}; fi", folder)
    if status:
        fail(page, f"site.sh: {said}")
    for block in blocks(page):
        run_block(page, folder, block, pages)


def main():
    status, pages = bash(f"set -e; . {here}/site.sh; programs; cd {work}; reference", work)
    if status:
        sys.exit(f"commands.py: site.sh: {pages}")
    todo = sys.argv[3:] or ["README.md"] + sorted(os.path.relpath(p, source) for p in glob.glob(f"{source}/docs/**/*.md", recursive=True))
    with ThreadPoolExecutor(AT_ONCE) as pool:  # the longest pages of all first
        list(pool.map(lambda page: run_page(page, pages), sorted(todo, key=lambda page: page not in LONGEST)))
    for page, command in unused if len(sys.argv) == 3 else []:
        fail("NOT_RUN", f"{page} has no {command}")
    print(f"{ran} commands run, {len(NOT_RUN)} not run" + (f", {len(skipped)} not here: {', '.join(skipped)}" if skipped else ""))
    return bad != 0


try:
    sys.exit(main())
finally:
    shutil.rmtree(work, ignore_errors=True)  # what a page left running in the background may still write
