#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults x programs: each program runs bare and under the recorder, with the same fault. Wanted: the same exit status, the
same output, and every call that the program says it made in a log, or counted there as dropped.

usage: faults.py BUILD [FAULT...]        these rows of the table (default: all); "random N" is N kills at moments of seeds 1 to N
       faults.py --markdown              the table of docs/internals/reliability.md
       faults.py --check PAGE            is it there?
"""
import ctypes, glob, os, random, re, resource, signal, struct, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
from table import BUILD, FAULTS, PROGRAMS, SURVIVED, DROPPED

SKIP = 77


class Place:
    """A folder of its own per run: log folder, recording memory, the program's own count."""

    def __init__(self, top, name):
        self.dir = os.path.join(top, name)
        self.logs, self.shm, self.truth = (os.path.join(self.dir, n) for n in ("logs", "shm", "truth"))
        os.makedirs(self.shm)

    def counted(self, at=0):
        """What the program began and what it ended: calls, or (at=16) sends over libfabric."""
        try:
            return struct.unpack("=QQ", open(self.truth, "rb").read(at + 16)[at:])
        except (OSError, struct.error):
            return 0, 0


def environment(place, preload, extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "LD_", "NCCL_", "VICTIM_"))}
    env.update({"VICTIM_TRUTH": place.truth, "CAPO_DIR": place.logs, "CAPO_SHM": place.shm, "CAPO_GPU_SAMPLE": "0",
                "VICTIM_PROGRAM": BUILD + "/tests/faults/victim", "VICTIM_OTHER_NCCL": BUILD + "/tests/preload/fake_old/libnccl.so.2", **extra})
    if preload:
        env["LD_PRELOAD"] = preload
    return {k: v.replace("@", place.dir) for k, v in env.items()}


def run(command, place, preload, fault, seed):
    before, extra, during, libraries = fault.get("before"), fault.get("env", {}), fault.get("during"), fault.get("preload", [])
    if fault.get("place"):
        fault["place"](place)
    libraries = [found for name in libraries for found in [find_library(name)] if found]
    front, behind = (libraries, []) if fault.get("front", True) else ([], libraries)
    env = environment(place, " ".join(front + ([preload] if preload else []) + behind), extra)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.dir,
                               preexec_fn=before, text=True, errors="replace")
    if during:
        during(process, place, random.Random(seed))
    try:
        out, err = process.communicate(timeout=fault.get("timeout", 600))
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return "hangs", out, err
    finally:
        if fault.get("after"):
            fault["after"](place)
        for left in glob.glob(f"/dev/shm/{process.pid}:*"):  # of libfabric's shm provider, when its process was killed
            os.unlink(left)
    return process.returncode, out, err


def find_library(name):
    """A shared library of this machine, or of .deps, by its file name."""
    for top in os.environ.get("FAULT_LIBRARIES", "").split(":") + [BUILD and BUILD + "/tests/faults", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]:
        if top and os.path.exists(os.path.join(top, name)):
            return os.path.join(top, name)
    return None


def logged(build, place):
    """Calls in the logs and calls counted as dropped, after what was left behind has been taken up."""
    tool = build + "/tests/preload/log_text"
    recovered = subprocess.run([tool, "--recover", place.shm], stdout=subprocess.PIPE, text=True).stdout
    logs = [os.path.join(place.logs, n) for n in sorted(os.listdir(place.logs)) if n.endswith(".capo")] if os.path.isdir(place.logs) else []
    text = subprocess.run([tool] + logs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    calls = sum(int(n) for n in re.findall(r"^end calls=(\d+)", text, re.M))
    dropped = sum(int(n) for n in re.findall(r"^end calls=\d+ dropped=(\d+)", text, re.M))
    damaged = re.findall(r"^health (?!damages=0 ).*", text, re.M)
    sends = {ep: int(n) for ep, n in re.findall(r"^ep\tid=(\d+)\b.*\tsend=(\d+),", text, re.M)}  # a look has all since the begin
    return calls, dropped, damaged, recovered.strip(), len(re.findall(r"^info unfinished", text, re.M)), sum(sends.values())


def cell(build, command, name, fault, top, seed=1):
    """One cell: None, or what is wrong with it; and what was counted."""
    bare, ours = Place(top, "bare"), Place(top, "ours")
    wrong = []
    status, out, err = run(command, bare, None, fault, seed)
    if status == "hangs":
        return ["the program hangs by itself"], ""
    if ": not so: " in out or "Traceback" in err:  # then the fault may not have happened
        return [f"the program fails by itself: {(out + err).strip()[-300:]}"], ""
    mine, my_out, my_err = run(command, ours, build + "/shim/libcapo.so", fault, seed)
    if not fault.get("random") and mine != status:
        wrong.append(f"exit status {mine}, bare {status}: {my_err.strip()[-300:]}")
    elif fault.get("random") and mine not in (-signal.SIGKILL, 0):
        wrong.append(f"exit status {mine}, bare {status}: {my_err.strip()[-300:]}")
    if my_out != out and not (fault.get("random") and (out.startswith(my_out) or my_out.startswith(out))):
        wrong.append(f"other output: {my_out.strip()[-200:]!r}, bare {out.strip()[-200:]!r}")
    begun, ended = ours.counted()
    calls, dropped, damaged, recovered, unfinished, sends = logged(build, ours)
    counts = f"began {begun}, ended {ended}, in logs {calls}, dropped {dropped}"
    if fault.get("kept", True):
        most = begun + (1 if fault.get("killed") else 0)  # docs/internals/log-format.md: killed between two instructions
        # killed in a group: its members so far (three, here) are named as unfinished
        if not ended - (3 if fault.get("killed") and unfinished else 0) <= calls + dropped <= most:
            wrong.append(f"not accounted for: {counts}; {recovered} {my_err.strip()[-300:]}")
        begun, ended = ours.counted(16)
        if fault.get("kept", True) and not (0 if fault.get("killed") else ended) <= sends <= begun:
            wrong.append(f"sends not accounted for: began {begun}, ended {ended}, in logs {sends}")
    if damaged:
        wrong.append(f"a log is damaged: {damaged[0]}")
    if fault.get("said") and not re.search(fault["said"], my_err):
        wrong.append(f"did not say {fault['said']!r}: {my_err.strip()[-300:]!r}")
    if fault.get("drops") and dropped == 0:
        wrong.append(f"nothing was counted as dropped: {counts}")
    return wrong, counts


def commands(build, fault):
    """(program, command) for which the row has a cell that runs."""
    found = {**PROGRAMS, **dict([fault["own"]] if "own" in fault else []), **dict([fault["also"]] if "also" in fault else [])}
    return [(name, [word.replace("BUILD", build).replace("HERE", HERE).replace("PYTHON", sys.executable) for word in command])
            for name, command in found.items() if name not in fault.get("cells", {})]


def markdown():
    """Rows of the same result, programs and note are one."""
    rows = {}
    for name, fault in FAULTS.items():
        without = fault.get("cells", {})
        programs = [p for p in PROGRAMS if p not in without]
        if len(programs) > len(PROGRAMS) / 2:
            lacking = [p for p in PROGRAMS if p in without]
            programs = "all" + (f" but {', '.join(lacking)}" if lacking else "")
        else:
            programs = ", ".join(programs)
        key = DROPPED if fault.get("drops") else SURVIVED, programs, fault.get("note", "")
        rows.setdefault(key, []).append(fault.get("title", name))
    print("| what happens | result | programs | |\n|---|---|---|---|")
    for key, titles in rows.items():
        print(f"| {'; '.join(titles)} | {' | '.join(key)} |")


def main(args):
    if args[:1] == ["--check"]:
        import contextlib, io
        with contextlib.redirect_stdout(io.StringIO()) as made:
            markdown()
        shown = made.getvalue() in open(args[1], encoding="utf-8").read()
        print("the page has the table" if shown else f"{args[1]} does not have this table:\n{made.getvalue()}")
        return not shown
    if args[:1] == ["--markdown"]:
        return markdown() or 0
    build, names = os.path.realpath(args[0]), args[1:]
    many = 1
    if names[:1] == ["random"]:
        many, names = int(names[1]), ["kill"]
    bad = ran = 0
    for name in names or FAULTS:
        fault = FAULTS[name]
        lacks = fault.get("needs") and fault["needs"]()
        lacks = lacks or next((f"no {n} here" for n in fault.get("preload", []) if not find_library(n)), None)
        if lacks:
            print(f"{name}: skipped: {lacks}")
            continue
        for program, command in commands(build, fault):
            for seed in range(1, many + 1):
                with tempfile.TemporaryDirectory(prefix="capo-faults-") as top:
                    try:
                        wrong, counts = cell(build, command, name, fault, top, seed)
                    finally:
                        if fault.get("done"):
                            fault["done"](top)
                ran += 1
                if wrong or many == 1:
                    print(f"{name} x {program}: {'; '.join(wrong) if wrong else 'ok'} ({counts})", flush=True)
                bad += bool(wrong)
    print(f"{ran} runs, {bad} wrong")
    return 1 if bad else 0 if ran else SKIP


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
