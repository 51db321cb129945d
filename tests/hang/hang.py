#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that hang for a known reason, and what capo hang says: hang.py CAPO BUILD [--count N] [--seed S] [--cause WORD].

Each scenario is made from its seed (planted.py): 2 to 16 ranks, communicators, rounds of calls, and one cause at a random place. It is
judged twice: while the ranks stand there, and from their logs when all have been killed. A wrong culprit is a failure;
so is a hang called in a job that is merely uneven. The table of what was planted against what was said is printed.

By seed, too, somebody who watches is killed at a random moment: who asks, who asks for stacks (with its helper, or not), that helper alone, rank 0,
which has the verdict of the watch written. Nothing may be left stopped or lie about then, and the next one who asks gets the same answer.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from planted import CAUSES, PROFILES, make
from proc import children, folders, state

AFTER = 0.4


class Run:
    def __init__(self, tools, job):
        self.capo, self.build = tools
        self.folder = tempfile.mkdtemp(prefix="capo-hang-test-")
        self.logs = os.path.join(self.folder, "logs")
        self.job = job
        script = os.path.join(self.folder, "script")
        with open(script, "w") as f:
            f.write("\n".join(job.lines) + "\n")
        self.kept = socket.socket()  # nobody else is given its port; rank 0 reuses it
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept.bind(("127.0.0.1", 0))
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_"))}
        env.update(LD_LIBRARY_PATH=os.path.join(self.build, "tests/standin"), LD_PRELOAD=os.path.join(self.build, "shim/libcapo.so"),
                   CAPO_DIR=self.logs, CAPO_QUIET="1", NCCL_MAX_NCHANNELS=str(job.channels), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.kept.getsockname()[1]),
                   WORLD_SIZE=str(job.n), CAPO_GPU_SAMPLE=job.sample, CAPO_HANG=str(job.watch))
        for name in set(job.profiles.values()):
            to = 121000 if "channels" in PROFILES[name] else 50000
            with open(os.path.join(self.folder, name + ".json"), "w") as f:
                json.dump({"capo_profile": 1, "rules": [{"when": {}, "allreduce": [
                    {"upto": to - 1000, "leave": True}, {"upto": to, "algo": "ring", **PROFILES[name]}, {"upto": "max", "leave": True}]}]}, f)
        if job.profiles:
            env.update(NCCL_TUNER_PLUGIN=env["LD_PRELOAD"])
        if job.profiler:
            env.update(NCCL_PROFILER_PLUGIN=env["LD_PRELOAD"])
        own = [dict(job.settings.get(r, {}), **({"CAPO_PROFILE": os.path.join(self.folder, job.profiles[r] + ".json")} if r in job.profiles else {}))
               for r in range(job.n)]
        self.ranks = [subprocess.Popen([os.path.join(self.build, "tests/hang/player"), script], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=dict(env, RANK=str(r), LOCAL_RANK=str(r), **own[r])) for r in range(job.n)]

    def in_place(self):
        """Has every rank come to where it stands?"""
        end = time.monotonic() + 240
        while time.monotonic() < end:
            if all(os.path.exists("%s/script.place.%d" % (self.folder, r)) for r in range(self.job.n)):
                return True
            time.sleep(0.02)
        return False

    def ask_and_die(self):
        """Somebody who asks is killed at a random moment: neither the job nor who asks next may notice."""
        asks = subprocess.Popen([self.capo, "hang", self.logs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.job.rng.random() * 0.1)
        asks.kill()
        asks.wait()

    def asker_dies(self, left):
        """Who asks for stacks is killed while its helper is at work, and the helper too, or not. Said is who stays: of the ranks those stopped by
        it, and the helper. Into @left goes what it has made in /tmp: memory is read without files."""
        asks = subprocess.Popen([self.capo, "hang", "--stacks", "--after", str(AFTER), self.logs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while asks.poll() is None and not children(asks.pid):
            time.sleep(0.001)
        time.sleep(self.job.rng.random() * 0.02)
        asks.send_signal(signal.SIGSTOP)  # what it has open now is what it leaves
        helpers = children(asks.pid)
        left += [f for f in folders(asks.pid, "/tmp/capo-hang-") if f != self.folder]  # it reads the logs there
        asks.kill()
        for helper in helpers if self.job.rng.random() < 0.5 else []:
            try:
                os.kill(helper, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it went with who asked
        asks.wait()
        end = time.monotonic() + 60
        while True:
            stay = [r for r, p in enumerate(self.ranks) if state(p.pid) == "t"] + [h for h in helpers if state(h) not in ("", "Z", "X")]
            if not stay or time.monotonic() > end:
                break
            time.sleep(0.01)
        return stay

    def helper_dies(self):
        """The helper that reads stacks is killed. Said is which ranks stay stopped by it."""
        asks = subprocess.Popen([self.capo, "hang", "--stacks", "--after", str(AFTER), self.logs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while asks.poll() is None and not children(asks.pid):
            time.sleep(0.001)
        time.sleep(self.job.rng.random() * 0.02)
        for child in children(asks.pid):
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was through
        asks.wait()
        end = time.monotonic() + 60
        while time.monotonic() < end and any(state(p.pid) == "t" for p in self.ranks):
            time.sleep(0.01)
        return [r for r, p in enumerate(self.ranks) if state(p.pid) == "t"]

    def first_dies(self):
        """Rank 0, which has the watch's verdict written, at a random moment of that."""
        time.sleep(self.job.rng.random() * 1.5)
        self.ranks[0].kill()
        self.ranks[0].wait()

    def ask(self, after=AFTER):
        out = subprocess.run([self.capo, "hang", "--json", "--after", str(after), self.logs], capture_output=True, text=True)
        page = json.loads(out.stdout) if out.stdout.startswith("{") else {"verdict": out.stderr, "culprits": []}
        return out.returncode, page

    def end(self, over_s=0):
        """@over_s: one after the other in any order, for so long altogether, as a job of many nodes is ended that hung."""
        self.kept.close()
        for p in self.job.rng.sample(self.ranks, len(self.ranks)):
            if p.poll() is None:
                p.send_signal(signal.SIGKILL)
                time.sleep(over_s / max(len(self.ranks) - 1, 1))
        for p in self.ranks:
            p.wait()

    def finish(self, keep):
        self.end()
        subprocess.run([self.capo, "recover", self.logs], capture_output=True)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def judge(job, page):
    """right, undecided, or wrong."""
    said = {c["rank"] for c in page["culprits"]}
    if page["verdict"] in ("healthy", "undecided", "ended") and page["disagreed_and_ended"] and "mismatch" in job.kinds:
        return "right"  # the stand-in ended it, and that is what the page says; who of those killed ended first is another question
    if page["verdict"] == "undecided" and "undecided" in job.kinds:
        return "right"
    if page["verdict"] in ("healthy", "slow", "undecided"):
        return "undecided"
    if page["verdict"] == "order" and job.kinds & {"order"}:
        return "right" if job.culprits <= said else "wrong"
    if not said or not said <= job.culprits:
        return "wrong"
    # no watch saw that it was stopped, so its log says only that it was killed
    kinds = {"missing"} if job.kinds == {"stopped"} and not page["live"] else job.kinds
    return "right" if page["verdict"] in kinds else "wrong"


def hung(tools, seed, cause, keep):
    job = make(seed, cause)
    run = Run(tools, job)
    results = []
    try:
        if not run.in_place():
            return [("not in place", {"verdict": "-", "culprits": []})], job, run.folder
        left = []
        if seed % 3 == 0:
            run.ask_and_die()
        if seed % 5 == 0 and run.helper_dies():
            return [("stopped by the helper", {"verdict": "-", "culprits": []})], job, run.folder
        if seed % 5 == 1:
            stay = run.asker_dies(left)
            if stay:
                return [("stopped, or still there: %s" % stay, {"verdict": "-", "culprits": []})], job, run.folder
        for how in ("now", "without 0", "later"):
            if how == "without 0":
                if seed % 7 or 0 in job.culprits:
                    continue
                run.first_dies()
            if how == "later":
                run.end(0.8 if seed % 4 == 3 else 0)
            for _ in range(8):
                if how != "later":
                    time.sleep(AFTER + 0.1)
                _, page = run.ask()
                result = judge(job, page)
                # what only time tells needs more of it on a busy machine: the stand-in may still be at an earlier call
                early = result == "undecided" or (result == "wrong" and page["verdict"] in ("running", "inside"))
                if not early or how == "later":
                    break
            results.append((result, page))
            if left:
                results.append(("left behind: " + left[0], page))
    finally:
        run.finish(keep or any(r[0] == "wrong" for r in results))
    return results, job, run.folder


def uneven(tools, seed, keep):
    job = make(seed, "healthy")
    run = Run(tools, job)
    results = []
    try:
        while any(p.poll() is None for p in run.ranks):
            if os.path.isdir(run.logs):
                if seed % 3 == 0:
                    run.ask_and_die()
                status, page = run.ask(10)
                if status == 1 and {c["why"] for c in page["culprits"]} <= {"host", "call", "gpu"}:
                    # that nothing moves for ten seconds is true of a machine that others keep busy, too
                    status, page = run.ask(60)
                results.append(("wrong" if status == 1 else "right", page))
            time.sleep(0.3)
        status, page = run.ask(10)
        results.append(("right" if page["verdict"] == "healthy" else "wrong", page))
        if any(p.returncode for p in run.ranks):
            results.append(("wrong", {"verdict": "a rank failed", "culprits": []}))
    finally:
        run.finish(keep or any(r[0] == "wrong" for r in results))
    return results, job, run.folder


def main():
    options = argparse.ArgumentParser()
    options.add_argument("capo")
    options.add_argument("build")
    options.add_argument("--count", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--cause", help="one of planted.py, healthy, or planted: all but healthy")
    options.add_argument("--jobs", type=int, default=6)
    options.add_argument("--keep", action="store_true")
    o = options.parse_args()
    tools = (os.path.abspath(o.capo), os.path.abspath(o.build))
    names = list(CAUSES) + ["healthy"] * 4 if not o.cause else list(CAUSES) if o.cause == "planted" else [o.cause]
    wanted = [(o.seed + i, names[(o.seed + i) % len(names)]) for i in range(o.count)]
    table = collections.defaultdict(collections.Counter)
    tally = collections.Counter()

    def one(what):
        seed, cause = what
        return (what,) + (uneven(tools, seed, o.keep) if cause == "healthy" else hung(tools, seed, cause, o.keep))

    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for (seed, cause), results, job, folder in pool.map(one, wanted):
            for place, (result, page) in enumerate(results):
                if cause != "healthy" or result == "wrong" or place == len(results) - 1:
                    table[cause][page["verdict"]] += 1
                    tally[result] += 1
                if result not in ("right",) or o.keep:
                    said = ", ".join("%s (%s)" % (c["rank"], c["why"]) for c in page["culprits"])
                    print("%s: seed %d, %s of rank %s, %d ranks, %s: said %s: %s  %s" % (
                        result.upper(), seed, cause, sorted(job.culprits), job.n, "now" if place == 0 else "then",
                        page["verdict"], said, folder))
    said = sorted({v for row in table.values() for v in row})
    print("%-12s" % "planted" + "".join("%11s" % v for v in said))
    for cause in table:
        print("%-12s" % cause + "".join("%11s" % (table[cause][v] or "") for v in said))
    total = sum(tally.values())
    print("%d verdicts: %d right, %d undecided, %d wrong" % (total, tally["right"], tally["undecided"], total - tally["right"] - tally["undecided"]))
    return 0 if total == tally["right"] + tally["undecided"] and tally["right"] >= 0.95 * total else 1


sys.exit(main())
