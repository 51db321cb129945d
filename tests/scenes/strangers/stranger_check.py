#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stranger_check.py PLAYER STANDIN FILE.scenes [NAME...]: plays each scene without capo and
compares what the program did, by its own clock and counts (clock.RANK, ended.RANK), with the facts
beside the truth: `# in`, `# calls`, `# errors`, `# ended`, `# late`, `# late-from`, `# more-host`,
`# alike`, `# waits`, `# alive`, `# calls-move`."""
import concurrent.futures
import glob
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COMMS, SLOTS = 24, 6
LAYOUT = "=" + "56sdq" * SLOTS + "%dq" % COMMS + "d" + "qqq" + "d"


def read_scenes(path):
    scenes, s = [], None
    for line in open(path):
        word, _, rest = line.strip().partition(" ")
        if not word:
            s = None
        elif word == "scene":
            s = {"name": rest, "facts": [], "script": [], "job": {}}
            scenes.append(s)
        elif s is None:
            continue
        elif word == "#":
            s["facts"].append(rest.split(" ", 1) if " " in rest else [rest, ""])
        elif word == "what":
            s["what"] = rest
        elif word == "job":
            lang, n, *pairs = rest.split()
            s["n"], s["job"] = int(n), dict(p.split("=", 1) for p in pairs)
        elif word == "truth":
            kind, *pairs = rest.split()
            s["truth"], s["keys"] = kind, dict((p.split("=", 1) + [""])[:2] for p in pairs)
        else:
            s["script"].append(line.strip())
    return scenes


def read_clock(folder, r):
    try:
        data = open(os.path.join(folder, "clock.%d" % r), "rb").read()
    except OSError:
        return None
    if len(data) < struct.calcsize(LAYOUT):
        return None
    v = struct.unpack(LAYOUT, data[:struct.calcsize(LAYOUT)])
    slots = [(v[3 * i].split(b"\0")[0].decode(), v[3 * i + 1], v[3 * i + 2]) for i in range(SLOTS)]
    rest = v[3 * SLOTS:]
    return {"slots": slots, "calls": rest[:COMMS], "host_ms": rest[COMMS], "turns": rest[COMMS + 1],
            "errors": rest[COMMS + 2], "last": rest[COMMS + 3], "sync_ms": rest[COMMS + 4]}


def ranks_of(text):
    return [int(r) for r in text.split(",")]


class Play:
    def __init__(self, scene, player, standin):
        self.s, self.folder = scene, tempfile.mkdtemp(prefix="stranger-")
        self.bad = []
        script = os.path.join(self.folder, "script")
        with open(script, "w") as f:
            f.write("\n".join(scene["script"]) + "\n")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_"))}
        env["LD_LIBRARY_PATH"] = standin
        env["IPATH_NO_BACKTRACE"] = "1"  # else a library below libfabric turns a signal into exit(1)
        job = scene["job"]
        self.out = open(os.path.join(self.folder, "output"), "w")
        self.p = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "stranger_launch.py"), job.get("like", "srun"),
             str(scene["n"]), "-", job.get("gpus", "1"), job.get("drive", "each"),
             job.get("nodes", "-"), job.get("set", "-"), "--", player, script],
            env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out,
            start_new_session=True)
        self.begin = time.monotonic()

    def need(self, good, text, *args):
        if not good:
            self.bad.append(text % args)

    def clocks(self):
        return {r: read_clock(self.folder, r) for r in range(self.s["n"])}

    def pids(self):
        return {int(p.rsplit(".", 1)[1]): int(open(p).read() or 0)
                for p in glob.glob(os.path.join(self.folder, "place.*[0-9]"))}

    def facts(self, word):
        return [f[1] for f in self.s["facts"] if f[0] == word]

    def check_in(self, before, after):
        for text in self.facts("in"):
            fields = text.split(" | ")
            words = fields[0].split(None, 1)
            steps, counts = words[1].split("|"), fields[1] if len(fields) > 1 else ""
            for r in ranks_of(words[0]):
                c, d = before[r], after[r]
                if not c:
                    self.need(False, "rank %d has no clock", r)
                    continue
                step, begin, active = d["slots"][0]
                self.need(active and step.startswith(tuple(steps)), "rank %d is in `%s`%s, not %s",
                          r, step, "" if active else " (left)", steps)
                self.need(c["slots"][0][1] == begin, "rank %d moves", r)
                self.check_counts(r, d, counts)

    def check_counts(self, r, d, counts):
        for pair in counts.replace("-", "").split():
            comm, n = pair.split(":")
            self.need(d["calls"][int(comm)] == int(n), "rank %d made %d calls of %s, not %s", r,
                      d["calls"][int(comm)], comm, n)

    def check_ended(self):
        for text in self.facts("ended"):
            who, code = text.split()
            for r in ranks_of(who):
                path = os.path.join(self.folder, "ended.%d" % r)
                said = open(path).read().split()[0] if os.path.exists(path) else "runs"
                self.need(said == code, "rank %d: %s, not %s", r, said, code)

    def check_late(self, first, last):
        for text in self.facts("late"):
            who, ms, how = text.split()
            named = set()
            for t in self.facts("late"):
                named |= set(ranks_of(t.split()[0]))
            def cost(r):
                a, b = first[r], last[r]
                if how == "once":
                    return b["host_ms"] - a["host_ms"] if a else b["host_ms"]
                return (b["host_ms"] - a["host_ms"]) / max(1, b["turns"] - a["turns"])
            others = [cost(r) for r in range(self.s["n"]) if r not in named]
            base = min(others) if others else 0
            for r in ranks_of(who):
                said = cost(r) - base
                self.need(0.8 * float(ms) <= said <= 1.35 * float(ms) + 5,
                          "rank %d is late by %.0f ms per %s, not %s", r, said, how, ms)

        for text in self.facts("late-from"):
            r, low, high = (int(v) for v in text.split())
            a, b = first[r], last[r]
            said = (b["host_ms"] - a["host_ms"]) / max(1, b["turns"] - a["turns"])
            self.need(low <= said <= high, "rank %d is late by %.0f ms per turn", r, said)

        for text in self.facts("more-host"):  # ms in host code beyond the least of the others, in the 5 s
            r, low, high = (int(v) for v in text.split())
            spent = {k: last[k]["host_ms"] - first[k]["host_ms"] for k in range(self.s["n"])}
            said = spent.pop(r) - min(spent.values())
            self.need(low <= said <= high, "rank %d has %.0f ms more in host code", r, said)

        def per_turn(key, r):
            a, b = first[r], last[r]
            return (b[key] - a[key]) / max(1, b["turns"] - a["turns"])

        for text in self.facts("alike"):  # ms in host code per turn: at most so far apart
            who, ms = text.split()
            spent = [per_turn("host_ms", r) for r in ranks_of(who)]
            self.need(max(spent) - min(spent) <= float(ms), "ms in host code per turn: %s",
                      [round(v, 1) for v in spent])
        for text in self.facts("waits"):  # ms in `sync` per turn
            who, low, high = text.split()
            for r in ranks_of(who):
                self.need(float(low) <= per_turn("sync_ms", r) <= float(high),
                          "rank %d waits %.1f ms per turn", r, per_turn("sync_ms", r))

    def finish(self):
        for pid in list(self.pids().values()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()
        self.out.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self):
        s = self.s
        stands = s["truth"] == "hang"
        forever = any("forever" in line.split() for line in s["script"])
        marks = any({"mark", "early"} & set(line.split()) for line in s["script"])
        zero = self.clocks()
        if marks:
            end = time.monotonic() + 40
            while len(self.pids()) < s["n"] and time.monotonic() < end and self.p.poll() is None:
                time.sleep(0.02)
            self.need(len(self.pids()) == s["n"], "marks of %s only", sorted(self.pids()))
            zero = self.clocks()
        if stands:
            time.sleep(3)
            before = self.clocks()
            time.sleep(1)
            after = self.clocks()
            self.need(self.p.poll() is None, "the job has ended with %s", self.p.poll())
            self.check_in(before, after)
            for text in self.facts("calls"):
                who, counts = text.split(None, 1)
                for r in ranks_of(who):
                    self.check_counts(r, after[r], counts)
            self.check_ended()
        elif forever:
            time.sleep(1)
            first = self.clocks()
            time.sleep(5)
            last = self.clocks()
            self.need(self.p.poll() is None, "the job has ended with %s", self.p.poll())
            for r in range(s["n"]):
                dead = any(r in ranks_of(t.split()[0]) for t in self.facts("ended"))
                if not dead and (s["job"].get("drive") != "one" or r == 0):
                    self.need(last[r]["turns"] > first[r]["turns"], "rank %d makes no turns", r)
            self.check_late(first, last)
            for text in self.facts("calls-move"):
                comm, who = text.split()
                for r in ranks_of(who):
                    self.need(last[r]["calls"][int(comm)] > first[r]["calls"][int(comm)],
                              "calls of rank %d do not move", r)
            open(os.path.join(self.folder, "stop"), "w").close()
            try:
                self.p.wait(20)
            except subprocess.TimeoutExpired:
                self.need(False, "does not end by its file")
            self.check_ended()
            if not self.facts("ended"):
                self.need(self.p.poll() == 0, "ended with %s", self.p.poll())
        else:
            try:
                self.p.wait(40)
            except subprocess.TimeoutExpired:
                self.need(False, "does not end")
            self.check_ended()
            last = self.clocks()
            if any(t.endswith("once") for t in self.facts("late")):
                self.check_late(zero, last)
        for text in self.facts("errors"):
            r, n = text.split()
            c = read_clock(self.folder, int(r))
            self.need(c["errors"] >= int(n), "rank %s had %d errors", r, c["errors"])
        silent = not self.facts("errors") and "onerror" not in " ".join(s["script"]) and \
            "shrink" not in " ".join(s["script"]) and "abort" not in " ".join(s["script"]) and \
            not {"revoke", "gone", "syncgone", "onterm"} & set(" ".join(s["script"]).split())
        if silent:
            for r, c in self.clocks().items():
                self.need(not c or not c["errors"], "rank %d had %d errors", r, c and c["errors"])
        if self.bad:
            with open(os.path.join(self.folder, "output")) as f:
                self.bad.append(f.read()[-300:])
        return time.monotonic() - self.begin


def one(scene, player, standin):
    play = Play(scene, player, standin)
    try:
        return scene, play.run(), play.bad
    except Exception as why:
        return scene, 0, play.bad + [repr(why)]
    finally:
        play.finish()


def main():
    player, standin, path, *names = sys.argv[1:]
    scenes = [s for s in read_scenes(path) if not names or s["name"] in names]
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("STRANGER_JOBS", "5"))) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(one, s, os.path.abspath(player), standin) for s in scenes]):
            scene, seconds, bad = done.result()
            wrong += bool(bad)
            print("%-34s %5.1f s  %s" % (scene["name"], seconds, "; ".join(bad) or "as said"),
                  flush=True)
    print("%d of %d as said" % (len(scenes) - wrong, len(scenes)))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
