#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that hang for a known reason, and what capo hang says: hang.py CAPO BUILD [--count N] [--seed S] [--cause WORD].

Each scenario is made from its seed: 2 to 8 ranks, communicators, rounds of calls, and one cause at a random place. It is
judged twice: while the ranks stand there, and from their logs when all have been killed. A wrong culprit is a failure;
so is a hang called in a job that is merely uneven. The table of what was planted against what was said is printed.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

FLOAT, INT, SUM, MAX = 7, 2, 0, 2
KINDS = ("allreduce", "broadcast", "reduce", "allgather", "reducescatter")
AFTER = 0.4


class Job:
    """Lines of a script, and who is in which communicator: comms[i] is a dict rank -> (number of it there, members)."""

    def __init__(self, rng, most=8):
        self.rng = rng
        self.n = rng.randint(2, most)
        self.lines = []
        self.made = [1] * self.n  # communicators each rank has made
        self.families = [{r: (0, list(range(self.n))) for r in range(self.n)}]
        self.stuck = set()  # ranks that do no more
        self.sample = rng.choice(("0", "1", "8"))
        self.culprits, self.kinds, self.whys = set(), set(), set()

    def say(self, rank, *what):
        if rank not in self.stuck:
            self.lines.append(" ".join(map(str, (rank,) + what)))

    def all(self, *what):
        for r in range(self.n):
            self.say(r, *what)

    def split(self, colour, name):
        family = {}
        for r in range(self.n):
            members = [q for q in range(self.n) if colour(q) == colour(r)]
            self.say(r, "split", 0, colour(r), name + str(colour(r)))
            family[r] = (self.made[r], members)
            self.made[r] += 1
        self.families.append(family)

    def a_call(self):
        rng = self.rng
        kind = rng.choice(KINDS)
        return [kind, rng.choice((1, 16, 1000, 20000)), rng.choice((FLOAT, INT)), rng.choice((SUM, MAX)), 0, rng.randint(0, 1)]

    def collective(self, family, call, ranks=None):
        for r in ranks if ranks is not None else range(self.n):
            number, members = family[r]
            mine = list(call)
            mine[4] = call[4] % len(members)
            self.say(r, "coll", number, *mine)

    def ring(self, family):
        count, stream = self.rng.choice((10, 5000, 200000)), self.rng.randint(0, 1)
        for r in range(self.n):
            number, members = family[r]
            if len(members) < 2:
                continue
            at = members.index(r)
            self.say(r, "start")
            self.say(r, "send", number, (at + 1) % len(members), count, stream)
            self.say(r, "recv", number, (at - 1) % len(members), count, stream)
            self.say(r, "end")

    def round(self, waits=True):
        rng = self.rng
        family = rng.choice(self.families)
        what = rng.random()
        if what < 0.65:
            call = self.a_call()
            call[4] = rng.randint(0, 7)
            self.collective(family, call)
        elif what < 0.8:
            self.ring(family)
        else:
            self.all("start")
            for _ in range(2):
                self.collective(family, self.a_call()[:5] + [0])
            self.all("end")
        if waits and rng.random() < 0.4:
            self.all("sync", 0)
            self.all("sync", 1)
        if waits and rng.random() < 0.2:
            self.say(rng.randrange(self.n), "sleep", rng.randint(1, 30))

    def stand(self, rank, *last):
        """The rank does these things and then no more; the place is marked."""
        self.say(rank, "mark")
        for what in last:
            self.say(rank, *what)
        self.stuck.add(rank)

    def finish(self, more=3):
        for _ in range(self.rng.randint(0, more)):
            self.round(waits=False)
        for r in range(self.n):
            self.stand(r, ("sync", 0), ("sync", 1), ("hang",))

    def blame(self, kinds, ranks, whys=()):
        self.kinds, self.culprits, self.whys = set(kinds), set(ranks), set(whys)


def someone(job, family=None):
    return job.rng.randrange(job.n)


def wide(job):
    """A family whose communicators have at least two ranks somewhere; the world always has."""
    return job.rng.choice([f for f in job.families if any(len(f[r][1]) > 1 for r in f)])


def in_pair(job, family):
    return job.rng.choice([r for r in family if len(family[r][1]) > 1])


def absent(why, *last):
    def plant(job):
        family = wide(job)
        who = in_pair(job, family)
        job.stand(who, *last)
        job.collective(family, ["allreduce", 100, FLOAT, SUM, 0, 0])
        job.blame(["missing"], [who], why)
        job.finish()

    return plant


def differs(place, values):
    def plant(job):
        family = wide(job)
        who = in_pair(job, family)
        call = [{4: "broadcast"}.get(place, "allreduce"), 1000, FLOAT, SUM, 0, 0]
        job.collective(family, call, [r for r in range(job.n) if r != who])
        call[place] = values(job, call, len(family[who][1]))
        job.collective(family, call, [who])
        others = family[who][1]
        job.blame(["mismatch"], [who] if len(others) > 2 else others)
        job.finish(0)

    return plant


def skipped(job):
    family = wide(job)
    who = in_pair(job, family)
    job.collective(family, ["allreduce", 777, FLOAT, SUM, 0, 0], [r for r in range(job.n) if r != who])
    job.collective(family, ["allgather", 333, FLOAT, SUM, 0, 0])
    others = family[who][1]
    job.blame(["mismatch", "missing"], [who] if len(others) > 2 else others)
    job.finish(0)


def order(job):
    """One rank takes two communicators in another order than the others, and waits in between."""
    job.split(lambda r: 0, "other")
    a, b = job.families[0], job.families[-1]
    who = someone(job)
    waits = job.rng.random() < 0.7
    call = ["allreduce", 500, FLOAT, SUM, 0, 0]
    for r in range(job.n):
        for family in (b, a) if r == who else (a, b):
            job.collective(family, call, [r])
            if waits and family is (b if r == who else a):
                job.stand(r, ("sync", 0), ("hang",))
    job.blame(["order"], [who])
    job.finish(0)


def one_half(what, count):
    """Another one receives from, or sends to, a rank that knows nothing of it."""

    def plant(job):
        family = wide(job)
        who = in_pair(job, family)
        number, members = family[who]
        peer = job.rng.choice([m for m in members if m != who])
        job.say(peer, what, number, members.index(who), count, 0)
        job.blame(["p2p"], [who])
        job.finish()

    return plant


def not_split(job):
    who = someone(job)
    job.stand(who, ("hang",))
    for r in range(job.n):
        job.stand(r, ("split", 0, 0, "late"))
    job.blame(["birth"], [who])


def open_group(job):
    family = wide(job)
    who = in_pair(job, family)
    job.say(who, "start")
    job.collective(family, ["allreduce", 100, FLOAT, SUM, 0, 0])
    job.stand(who, ("hang",))
    job.blame(["missing"], [who], ["group"])
    job.finish()


def refused(job):
    family = wide(job)
    who = in_pair(job, family)
    job.say(who, "bad", family[who][0])
    job.stand(who, ("hang",))
    job.collective(family, ["allreduce", 16, FLOAT, SUM, 0, 0])
    job.blame(["missing"], [who], ["error"])
    job.finish()


def aborted(job):
    family = wide(job)
    who = in_pair(job, family)
    job.say(who, "sync", 0)
    job.say(who, "sync", 1)
    job.say(who, "abort", family[who][0])
    job.stand(who, ("hang",))
    job.collective(family, ["allreduce", 100, FLOAT, SUM, 0, 0])
    job.blame(["missing"], [who], ["aborted"])
    job.finish()


def on_the_gpu(job):
    """All enter the call; the GPU of one does not come to it. Nobody can see whose, so all who stand in it are named."""
    family = wide(job)
    who = in_pair(job, family)
    job.say(who, "block", 0)
    job.collective(family, ["allreduce", 100, FLOAT, SUM, 0, 0])
    job.sample = "1"
    job.blame(["running"], [r for r in range(job.n) if len(family[r][1]) > 1])
    job.finish(0)


def replayed(job):
    """One rank does not launch a captured graph once more: launches are not seen, so nobody may be named."""
    who = someone(job)
    job.all("capture", 0)
    job.collective(job.families[0], ["allreduce", 100, FLOAT, SUM, 0, 0])
    job.all("instantiate", 0)
    for _ in range(job.rng.randint(1, 4)):
        job.all("launch", 0)
    job.all("sync", 0)
    job.stand(who, ("hang",))
    job.all("launch", 0)
    job.blame(["undecided"], [])
    job.finish(0)


def other(values):
    return lambda job, call, size: job.rng.choice([v for v in values if v != call])


CAUSES = {
    "host": absent(["host"], ("hang",)),
    "killed": absent(["gone"], ("kill",)),
    "left": absent(["gone"], ("exit", 3)),
    "exited": absent(["exited"], ("exit", 0)),
    "stopped": absent(["stopped"], ("stop",)),
    "kind": differs(0, lambda job, call, size: "allgather"),
    "count": differs(1, lambda job, call, size: 999),
    "type": differs(2, lambda job, call, size: INT),
    "operator": differs(3, lambda job, call, size: MAX),
    "root": differs(4, lambda job, call, size: 1),
    "skipped": skipped,
    "order": order,
    "no-send": one_half("recv", 1000),
    "no-receive": one_half("send", 900000),
    "split": not_split,
    "group": open_group,
    "refused": refused,
    "aborted": aborted,
    "gpu": on_the_gpu,
    "graph": replayed,
}


def make(seed, cause):
    job = Job(random.Random(seed), 16 if seed % 10 == 9 else 8)
    if job.rng.random() < 0.5:
        job.split(lambda r: r // 2, "pair")
    if job.rng.random() < 0.5:
        job.split(lambda r: r % 2, "half")
    for _ in range(job.rng.randint(1, 12)):
        job.round()
    if cause == "healthy":
        for _ in range(12):
            job.round()
            job.say(someone(job), "sleep", job.rng.randint(20, 150))
        job.all("sync", 0)
        job.all("sync", 1)
        job.blame(["healthy"], [])
    else:
        job.all("sync", 0)
        job.all("sync", 1)
        CAUSES[cause](job)
    return job


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
                   CAPO_DIR=self.logs, CAPO_QUIET="1", NCCL_MAX_NCHANNELS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.kept.getsockname()[1]),
                   WORLD_SIZE=str(job.n), CAPO_GPU_SAMPLE=job.sample)
        self.ranks = [subprocess.Popen([os.path.join(self.build, "tests/hang/player"), script], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=dict(env, RANK=str(r), LOCAL_RANK=str(r))) for r in range(job.n)]

    def in_place(self):
        """Has every rank come to where it stands?"""
        end = time.monotonic() + 60
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

    def ask(self):
        out = subprocess.run([self.capo, "hang", "--json", "--after", str(10 if self.job.kinds == {"healthy"} else AFTER), self.logs], capture_output=True, text=True)
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
    if page["verdict"] == "healthy" and page["disagreed_and_ended"] and "mismatch" in job.kinds:
        return "right"  # the stand-in ended it, and that is what is said
    if page["verdict"] == "undecided" and "undecided" in job.kinds:
        return "right"
    if page["verdict"] in ("healthy", "slow", "undecided"):
        return "undecided"
    if page["verdict"] == "order" and job.kinds & {"order"}:
        return "right" if job.culprits <= said else "wrong"
    if not said or not said <= job.culprits:
        return "wrong"
    if page["verdict"] not in job.kinds:
        return "wrong"
    return "right"


def hung(tools, seed, cause, keep):
    job = make(seed, cause)
    run = Run(tools, job)
    results = []
    try:
        if not run.in_place():
            return [("not in place", {"verdict": "-", "culprits": []})], job, run.folder
        if seed % 3 == 0:
            run.ask_and_die()
        for how in ("now", "later"):
            for _ in range(8):
                if how == "now":
                    time.sleep(AFTER + 0.1)
                _, page = run.ask()
                result = judge(job, page)
                # what only time tells needs more of it on a busy machine: the stand-in may still be at an earlier call
                early = result == "undecided" or (result == "wrong" and page["verdict"] in ("running", "inside"))
                if not early or how == "later":
                    break
            results.append((result, page))
            if how == "now":
                run.end(0.8 if seed % 4 == 3 else 0)
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
                status, page = run.ask()
                results.append(("wrong" if status == 1 else "right", page))
            time.sleep(0.3)
        status, page = run.ask()
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
    options.add_argument("--cause")
    options.add_argument("--jobs", type=int, default=6)
    options.add_argument("--keep", action="store_true")
    o = options.parse_args()
    tools = (os.path.abspath(o.capo), os.path.abspath(o.build))
    names = list(CAUSES) + ["healthy"] * 4
    wanted = [(o.seed + i, o.cause or names[(o.seed + i) % len(names)]) for i in range(o.count)]
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
                        result.upper(), seed, cause, sorted(job.culprits), job.n, "now" if place == 0 else "later",
                        page["verdict"], said, folder))
    said = sorted({v for row in table.values() for v in row})
    print("%-12s" % "planted" + "".join("%11s" % v for v in said))
    for cause in table:
        print("%-12s" % cause + "".join("%11s" % (table[cause][v] or "") for v in said))
    total = sum(tally.values())
    print("%d verdicts: %d right, %d undecided, %d wrong" % (total, tally["right"], tally["undecided"], total - tally["right"] - tally["undecided"]))
    return 0 if total == tally["right"] + tally["undecided"] and tally["right"] >= 0.95 * total else 1


sys.exit(main())
