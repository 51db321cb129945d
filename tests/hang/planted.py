#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs for the player (player.c), made from a seed: what all ranks do, and one cause of a hang at a random place. make() is asked by hang.py."""
import random

FLOAT, INT, SUM, MAX = 7, 2, 0, 2
KINDS = ("allreduce", "broadcast", "reduce", "allgather", "reducescatter")
PROFILES = {"simple": {"proto": "simple"}, "ll": {"proto": "ll"}, "one": {"proto": "simple", "channels": 1}, "two": {"proto": "simple", "channels": 2}}


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
        self.profiles = {}  # by rank: the profile (PROFILES) it is tuned by; of the others none
        self.settings = {}  # by rank: variables of its own
        self.kinds_of_calls = KINDS
        self.channels = 1
        self.profiler = False
        self.watch = 300  # CAPO_HANG

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
        kind = rng.choice(self.kinds_of_calls)
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
        job.blame(["stopped" if why == ["stopped"] else "missing"], [who], why)
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


def tuned(job):
    """One rank chooses otherwise for one size: by another profile, or without one."""
    family = wide(job)
    who = in_pair(job, family)
    profiles = ["simple", job.rng.choice(("ll", ""))]
    job.profiles = {r: profiles[r == who] for r in range(job.n) if profiles[r == who]}
    job.profiler = job.rng.random() < 0.5  # then it is seen what ran
    if not job.profiler:
        job.sample = "1"
    job.collective(family, ["allreduce", 12345, FLOAT, SUM, 0, 0])
    others = family[who][1]
    job.blame(["tuned"], [who] if len(others) > 2 else others)
    job.finish(0)


def channels(job):
    """One rank's profile has another number of channels for one size."""
    family = wide(job)
    who = in_pair(job, family)
    few = job.rng.random() < 0.5
    job.profiles = {r: "one" if (r == who) == few else "two" for r in range(job.n)}
    job.channels = 4
    job.profiler = job.rng.random() < 0.5
    if not job.profiler:
        job.sample = "1"
    job.collective(family, ["allreduce", 30100, FLOAT, SUM, 0, 0])
    others = family[who][1]
    job.blame(["tuned"], [who] if len(others) > 2 else others)
    job.finish(0)


def algorithm(job):
    """One rank has another NCCL_ALGO than the others. Until then nobody made a call that it is about."""
    family = wide(job)
    who = in_pair(job, family)
    most, one = job.rng.choice((("ring", "tree"), ("tree", "ring")))
    job.settings = {r: {"NCCL_ALGO": "allreduce:" + (one if r == who else most)} for r in range(job.n)}
    job.profiler = job.rng.random() < 0.5
    if not job.profiler:
        job.sample = "1"
    job.collective(family, ["allreduce", 30100, FLOAT, SUM, 0, 0])
    others = family[who][1]
    job.blame(["tuned"], [who] if len(others) > 2 else others)
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
    "tuned": tuned,
    "channels": channels,
    "algorithm": algorithm,
}


def make(seed, cause):
    job = Job(random.Random(seed), 16 if seed % 10 == 9 else 8)
    job.watch = 1 if seed % 7 == 0 else 300
    if cause == "algorithm":
        job.kinds_of_calls = KINDS[1:]
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
