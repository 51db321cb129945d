#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's frames read from outside, of processes with capo and without: outside.py CAPO BUILD. Against what the interpreter itself says, of
every CPython 3.9 to 3.14 that this machine has (on PATH, of pyenv)."""
import ast
import ctypes
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.argv[1:3] = map(os.path.abspath, sys.argv[1:3])
from job import BUILD, CAPO, Job, check  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMES, CHURN, TRAIN = (os.path.join(HERE, name) for name in ("frames.py", "churn.py", "train.py"))
STANDIN = os.path.join(BUILD, "tests/standin")


def releases():
    found = {}
    for python in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))) + [shutil.which("python3"), "/usr/bin/python3"]:
        try:
            said = subprocess.run([python, "-c", "import sys; print(sys.version.split()[0], sys.prefix, hasattr(sys, '_is_gil_enabled') and not sys._is_gil_enabled())"],
                                  capture_output=True, text=True, check=True).stdout.split()
        except (OSError, TypeError, subprocess.CalledProcessError):
            continue
        if 9 <= int(said[0].split(".")[1]) <= 14 and said[2] == "False":
            found.setdefault((said[0], said[1]), python)
    return found


def started(python, program):
    p = subprocess.Popen([python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    check("it starts", p.stdout.readline() == "ready\n")
    return p


def ask(pid, *more):
    """The page of a process without capo; another one, that is gone, may have had its number for a while."""
    for _ in range(50):
        out = subprocess.run([CAPO, "hang", "--json", *more, str(pid)], capture_output=True, text=True)
        page = json.loads(out.stdout) if out.stdout else {}
        if page.get("recorded") is False:
            return page
        time.sleep(0.5)
    raise AssertionError("no page: %s%s" % (out.stdout, out.stderr))


def line_of(program, text):
    with open(program) as f:
        return next(i for i, line in enumerate(f, 1) if text in line)


def alike(shown, said):
    """Our line of a frame is theirs; a file of Python itself is named without its folder."""
    return len(shown) == len(said) and all(b.endswith(a) for a, b in zip(shown, said))


def in_time(what, true):
    end, said = time.monotonic() + 120, None
    while time.monotonic() < end:
        good, said = true()
        if good:
            return
        time.sleep(0.1)
    raise AssertionError("%s: %s" % (what, said))


def known_frames(release, python):
    p = started(python, FRAMES)
    try:
        def same():
            """Threads come to their places: until both agree."""
            p.stdin.write("\n")
            p.stdin.flush()
            said = json.loads(p.stdout.readline())
            page = ask(p.pid)
            shown = {t["tid"]: t for t in page["python"]}
            main = shown.pop(p.pid, None)
            good = (main and main["thread"] == 0 and
                    main["frames"] == ["%s:%d %s" % (FRAMES, line_of(FRAMES, mark), name) for mark, name in
                                       (("# in main", "read_line"), ("# from main", "main"), ("# the program", "<module>"))] and
                    len(shown) == len(said) == 5)
            for tid, frames in said:
                if tid not in shown:
                    good = False
                elif len(frames) > 64:
                    good &= alike(shown[tid]["frames"], frames[:64] + ["..."])
                else:
                    good &= alike(shown[tid]["frames"], frames)
            where = {frames[0].rsplit(" ", 1)[1] + frames[0].split(":")[1].split(" ")[0] for _, frames in said}
            good &= where == {name + str(line_of(FRAMES, mark)) for mark, name in (
                ("# asleep", "asleep"), ("# in C", "in_c"), ("# in a generator", "numbers"), ("# at the bottom", "deep"), ("# in a lambda", "<lambda>"))}
            with open("/proc/%d/task/%d/comm" % (p.pid, p.pid)) as f:
                good &= bool(main) and main["name"] == f.read().strip()
            return good, (said, page)

        in_time(release, same)

        def on_the_page():
            text = subprocess.run([CAPO, "hang", str(p.pid)], capture_output=True, text=True).stdout
            return (re.search(r"^    Python at \d\d:\d\d:\d\d, main thread: %s:\d+ read_line <- %s:\d+ main <- " % (FRAMES, FRAMES), text, re.M) and
                    re.search(r"^    Python at \d\d:\d\d:\d\d, thread 1 \(.+, \d+\): %s:%d asleep$" % (FRAMES, line_of(FRAMES, "# asleep")), text, re.M) and
                    "and 3 more threads (--json)" in text), text

        in_time(release + " page", on_the_page)
        stopped = ask(p.pid, "--stacks")
        if not stopped["no_threads"]:
            def with_stacks():
                page = ask(p.pid, "--stacks")
                shown = {t["tid"]: t["frames"] for t in page["python"]}
                return all(t["python"] == shown.get(t["tid"]) for t in page["threads"]) and len(page["threads"]) == 6, page

            in_time(release + " stopped", with_stacks)

            def stopped_page():
                text = subprocess.run([CAPO, "hang", "--stacks", str(p.pid)], capture_output=True, text=True).stdout
                return re.search(r"^    thread %d .*\n        Python: %s:\d+ read_line <- " % (p.pid, FRAMES), text, re.M) and "Python at" not in text, text

            in_time(release + " stopped, page", stopped_page)
        return stopped["no_threads"]
    finally:
        p.kill()
        p.wait()


def calls():
    """Of churn.py: which function each line is in, and the lines' text."""
    with open(CHURN) as f:
        text = f.read()
    of = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            of.update((i, node.name) for i in range(node.lineno, node.end_lineno + 1))
    return of, text.split("\n")


def can_exist(frames, of, lines):
    """No function with another's line; and of a thread that stood still none called from where it is not."""
    callee, one_moment = None, frames[0] != "(changing)"
    for frame in frames:
        if frame in ("(changing)", "..."):
            callee = None
            continue
        file, line, name = re.fullmatch(r"(.+):(\d+) (\S+)", frame).groups()
        line = int(line)
        if line == 0:  # of what the compiler adds: nobody's line
            callee = None
            continue
        if file.startswith("file_"):
            n = int(file[5:])
            if (name, line) not in {("g_%d" % n, n + 1), ("g_%d" % n, n + 2), ("<module>", n + 1), ("<module>", 0), ("<module>", 1), ("<listcomp>", n + 2)}:
                return False
            callee = "exec" if name == "<module>" else "g_" if name != "<listcomp>" else None
            callee = callee if one_moment else None
            continue
        if file != CHURN:
            callee = None
            continue
        if name not in ("<module>", "<genexpr>", "<listcomp>") and of.get(line) != name:
            return False
        if callee and name not in ("<module>", "<genexpr>", "<listcomp>") and callee + "(" not in lines[line - 1] and "# calls " + callee not in lines[line - 1]:
            return False
        callee = name if name.isidentifier() and one_moment else None
    return True


def never_wrong(release, python, looks):
    of, lines = calls()
    p, caught = started(python, CHURN), 0
    try:
        for _ in range(looks):
            page = ask(p.pid)
            for t in page["python"]:
                check("%s: %s" % (release, t), can_exist(t["frames"], of, lines))
                caught += t["frames"][0] != "(changing)"
    finally:
        p.kill()
        p.wait()
    return caught


def dies(python):
    rng = random.Random(16)
    for i in range(30):
        p = started(python, FRAMES)
        asking = subprocess.Popen([CAPO, "hang", "--json", str(p.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.random() * 0.03)
        p.kill()
        if i % 2:
            p.wait()
        out, err = asking.communicate()
        p.wait()
        page = json.loads(out) if out else {"recorded": False}
        check("%d, %s%s" % (asking.returncode, out, err), asking.returncode == 3 or page.get("recorded") is not False)


def not_allowed(python):
    """Without the permission to trace it, the page says what would allow it. A process may trace another of no more capabilities."""
    with open("/proc/self/status") as f:
        capable = int(re.search(r"CapEff:\s*(\w+)", f.read())[1], 16) >> 19 & 1
    if os.geteuid() != 0 or not capable:
        print("not tried: who may not trace: nobody here has CAP_SYS_PTRACE")
        return
    p = started(python, FRAMES)
    try:
        def without():
            ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE

        out = subprocess.run([CAPO, "hang", str(p.pid)], capture_output=True, text=True, preexec_fn=without).stdout
        check(out, "    no lines of Python: pid %d may not be read: " % p.pid in out and "CAP_SYS_PTRACE" in out)
        page = json.loads(subprocess.run([CAPO, "hang", "--json", str(p.pid)], capture_output=True, text=True, preexec_fn=without).stdout)
        check(page, page["python"] == [] and "may not be read" in page["no_python"])
    finally:
        p.kill()
        p.wait()


def of_a_job():
    """No watch, no frame: the culprit's lines are read when it is asked for."""
    job = Job("", 2, [sys.executable, TRAIN, os.path.join(STANDIN, "libcuda.so.1"), os.path.join(STANDIN, "libnccl.so.2"), "FOLDER"], CAPO_HANG="0")
    try:
        def is_complete():
            out = subprocess.run([CAPO, "hang", "--after", "1", job.logs], capture_output=True, text=True).stdout
            return ("RANK 1 IS MISSING" in out and
                    re.search(r"^    Python at \d\d:\d\d:\d\d, main thread: .*train.py:%d wait_for <- .*train.py:%d load_batch <- .*train.py:%d main <- " % (
                        line_of(TRAIN, "time.sleep"), line_of(TRAIN, 'wait_for("free")'), line_of(TRAIN, "            load_batch()")), out, re.M) and
                    re.search(r"^    Python at \d\d:\d\d:\d\d, thread 1 \(.+, \d+\): threading.py:\d+ wait <- (\.\.\. <- )?.*train.py:%d prefetch" %
                              line_of(TRAIN, "threading.Event().wait"), out, re.M)), out

        in_time("a job", is_complete)

        def in_json():
            page = json.loads(subprocess.run([CAPO, "hang", "--after", "1", "--json", job.logs], capture_output=True, text=True).stdout)
            who = page["culprits"][0] if page["culprits"] else {}
            return (who.get("python") and [t["thread"] for t in who["python"]] == [0, 1] and who["python"][0]["tid"] == who["pid"] and
                    who["python_at"] > 1e9 and who["no_python"] is None), page

        in_time("a job in JSON", in_json)
    finally:
        job.end()


found = releases()
check("there is a CPython of those known", found)
for (release, prefix), python in found.items():
    no_stacks = known_frames("%s of %s" % (release, prefix), python)
    print("%s of %s: ok%s" % (release, prefix, ", not stopped: " + no_stacks if no_stacks else ""))
for (release, _), python in found.items():
    print("%s: of 75 looks at a thread %d caught it standing" % (release, never_wrong(release, python, 25)))
dies(sys.executable)
not_allowed(sys.executable)
of_a_job()
print("ok")
