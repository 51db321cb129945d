#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""planted_causes.py BUILD [--only KIND|NAME]... [--seed N | --seeds FIRST LAST] [--seconds S] [--keep FOLDER]
                         [--no-capo] [--tries N] [--list] [--json FILE]

Starts small jobs (4 ranks, stand-in NCCL) under BUILD's capo with default settings, plants a cause
in each, and judges `capo report`. BUILD is a meson build folder. half.json lists the seeds.

--only      a kind (cpu-limit), a name (cpu-limit-11), or a prefix with * (h-*); may be repeated
--seed      this seed in place of those of half.json; --seeds: these
--seconds   of each job, 10; windows scale with it
--keep      logs, truth.json, measured.json, page.txt, page.json stay in FOLDER/NAME
--tries     how often at most a job is played of which the program did not do as its truth says: 2
--no-capo   runs the programs alone and only checks them against their truth
"""
import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import planted_judge  # noqa: E402
import planted_kinds  # noqa: E402
from planted_means import Means, Missing  # noqa: E402

RANKS = 4
LIMIT_S = 120


def room_of_its_own():
    """Its own mounts: no other job's /dev/shm is seen, and nothing that was mounted stays."""
    if os.environ.get("PLANTED_ROOM") or os.geteuid():
        return
    script = ("mount -t tmpfs none /dev/shm 2>/dev/null; PLANTED_ROOM=1 exec \"$@\"")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable] + sys.argv)


def launch(folder):
    """The launcher of a job, run under capo: starts the ranks of launch.json."""
    with open(os.path.join(folder, "launch.json")) as f:
        spec = json.load(f)
    ranks = []
    for r in spec["ranks"]:
        def enter(r=r):
            for path in r["cgroups"]:
                with open(os.path.join(path, "cgroup.procs"), "w") as f:
                    f.write(str(os.getpid()))
        with open(os.path.join(folder, "said.%s" % r["env"]["RANK"]), "w") as said:
            ranks.append(subprocess.Popen(r["command"], env=dict(os.environ, **r["env"]),
                                          preexec_fn=enter, stdout=said, stderr=said))
    status = 0
    while any(p.poll() is None for p in ranks):
        if any(p.poll() for p in ranks) and not status:
            status = 1
            for p in ranks:
                if p.poll() is None:
                    p.kill()
        time.sleep(0.02)
    sys.exit(status or max(p.returncode for p in ranks))


def compile_programs(build):
    """Into BUILD/planted, anew when a source is newer."""
    out = os.path.join(build, "planted")
    os.makedirs(out, exist_ok=True)
    stand = os.path.join(build, "tests", "standin")
    link = [os.path.join(stand, "libcuda.so.1"), os.path.join(stand, "libnccl.so.2"), "-ldl",
            "-lpthread", "-Wl,--enable-new-dtags"]
    core, include = os.path.join(HERE, "planted_core.c"), ["-I", find_include(build)]
    nvml = os.path.join(out, "nvml")
    os.makedirs(nvml, exist_ok=True)
    todo = [(os.path.join(out, "planted_player"), core, include, link),
            (os.path.join(out, "libplanted.so"), core,
             include + ["-shared", "-fPIC", "-DPLANTED_LIBRARY"], link),
            (os.path.join(out, "planted_slowfs"), os.path.join(HERE, "planted_slowfs.c"), [],
             ["-lpthread"]),
            (os.path.join(nvml, "libnvidia-ml.so.1"), os.path.join(HERE, "planted_nvml.c"),
             ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"], ["-lpthread"])]
    for target, source, options, libs in todo:
        if not os.path.exists(source):
            continue
        if os.path.exists(target) and os.path.getmtime(target) > os.path.getmtime(source):
            continue
        part = "%s.%d" % (target, os.getpid())
        subprocess.run(["gcc", "-O1", "-g", "-o", part, source] + options + libs, check=True)
        os.rename(part, target)
    return out


def find_include(build):
    """The stand-in's headers, of the tree that BUILD was made of."""
    for top in (os.path.join(build, ".."), os.path.join(build, "meson-info")):
        path = os.path.join(top, "tests", "standin", "include")
        if os.path.exists(path):
            return path
    with open(os.path.join(build, "meson-info", "meson-info.json")) as f:
        source = json.load(f)["directories"]["source"]
    return os.path.join(source, "tests", "standin", "include")


class Played:
    def __init__(self, scenario, build, programs, folder, with_capo):
        self.s, self.build, self.programs = scenario, build, programs
        self.folder, self.with_capo = folder, with_capo
        self.logs = os.path.join(folder, "logs")
        self.capo = [os.path.join(build, "cli", "capo")]
        self.means = Means(folder, programs)
        self.job = None

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, what):
        with open(self.path(name), "w") as f:
            f.write(what if isinstance(what, str) else json.dumps(what, indent=1) + "\n")

    def rank_spec(self, r):
        s = self.s
        node = s.nodes[r]
        env = {"RANK": str(r), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(s.nodes[:r].count(node)),
               "LOCAL_WORLD_SIZE": str(s.nodes.count(node)), "GROUP_RANK": str(node),
               "IPATH_NO_BACKTRACE": "1",  # else a library of libfabric turns a signal into exit(1)
               "PYTHONDONTWRITEBYTECODE": "1"}
        if len(set(s.nodes)) > 1:
            env["NCCL_HOSTID"] = "planted-%d-node%d" % (os.getpid(), node)
        if s.group:
            env["PLANTED_GROUP"] = s.group
        env.update(s.env)
        env.update(s.env_of.get(r, {}))
        libraries = [os.path.join(self.build, "tests", "standin")]
        if env.get("PLANTED_NVML"):
            libraries.append(os.path.join(self.programs, "nvml"))
        env["LD_LIBRARY_PATH"] = ":".join(libraries)
        if s.lang == "c":
            command = [os.path.join(self.programs, "planted_player"), self.folder, str(s.seconds)]
        else:
            command = [s.python or sys.executable, os.path.join(HERE, "planted_job.py"),
                       os.path.join(self.programs, "libplanted.so"), self.folder, str(s.seconds)]
        return {"env": env, "command": s.prefix_of.get(r, []) + command,
                "cgroups": s.cgroups_of.get(r, [])}

    def start(self):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("CAPO_", "NCCL_", "PLANTED_", "LD_"))}
        command = [sys.executable, os.path.abspath(__file__), "--launch", self.folder]
        if self.with_capo:
            command = self.capo + ["run", "--quiet", "--dir", self.logs, "--"] + command
        self.output = open(self.path("output"), "w")
        self.job = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.output,
                                    stderr=self.output, start_new_session=True)

    def said(self):
        text = ""
        for name in ["output"] + ["said.%d" % r for r in range(RANKS)]:
            if os.path.exists(self.path(name)):
                with open(self.path(name), errors="replace") as f:
                    text += f.read()[-600:]
        return text

    def wait_for(self, name):
        end = time.monotonic() + LIMIT_S
        while not os.path.exists(self.path(name)):
            if self.job.poll() is not None or time.monotonic() > end:
                raise planted_judge.Failed("no %s: %s" % (name, self.said()))
            time.sleep(0.02)
        with open(self.path(name)) as f:
            return float(f.read())

    def play(self):
        s = self.s
        s.prepare(self.means)
        self.write("plan", "\n".join(s.plan) + "\n")
        self.write("truth.json", s.truth())
        self.write("launch.json", {"ranks": [self.rank_spec(r) for r in range(RANKS)]})
        self.means.before(s)
        self.start()
        t0 = self.wait_for("t0")
        self.means.pids = [int(self.wait_for("pid.%d" % r)) for r in range(RANKS)]
        self.means.begin_clock(t0)
        for at, what, *args in sorted(s.events, key=lambda e: e[0]):
            time.sleep(max(0, t0 + at - time.monotonic()))
            what(*args)
        for controller, (rank, folder) in s.stays.items():
            if not self.means.is_in(rank, controller, folder[0]):
                raise Missing("somebody moved the rank out of its %s cgroup" % controller)
        try:
            self.job.wait(LIMIT_S + s.seconds)
        except subprocess.TimeoutExpired:
            raise planted_judge.Failed("the job does not end: " + self.said())
        if self.job.returncode:
            raise planted_judge.Failed("status %d: %s" % (self.job.returncode, self.said()))
        self.means.end_clock()
        measured = planted_judge.measure(self.folder, RANKS, t0, s.truth())
        measured["kernel"] = self.means.facts
        measured["load"] = os.getloadavg()[0]
        measured["holds"], measured["why_not"] = planted_judge.holds(s.truth(), measured)
        self.write("measured.json", measured)
        return measured

    def ask(self):
        pages = {}
        for name, words in (("page.json", ["report", "--json"]), ("page.txt", ["report", "--wide"]),
                            ("notes.txt", ["report", "--wide", "--all", "--notes"])):
            done = subprocess.run(self.capo + words + [self.logs], capture_output=True, text=True,
                                  errors="replace", timeout=LIMIT_S)
            pages[name] = done.stdout
            self.write(name, done.stdout + (done.stderr if name != "page.json" else ""))
        return pages

    def finish(self):
        if self.job and self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
            for r in range(RANKS):
                try:
                    with open(self.path("pid.%d" % r)) as f:
                        os.kill(int(float(f.read())), signal.SIGKILL)
                except (OSError, ValueError):
                    pass
            self.job.wait()
        self.means.close()


def play_one(scenario, build, programs, keep, with_capo):
    folder = os.path.join(keep, scenario.name) if keep else tempfile.mkdtemp(prefix="planted-")
    if keep:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    played = Played(scenario, build, programs, folder, with_capo)
    result = {"name": scenario.name, "kind": scenario.kind}
    try:
        measured = played.play()
        result["lost_s"] = measured["lost_s"]
        result["holds"], result["why_not"] = measured["holds"], measured["why_not"]
        if with_capo:
            pages = played.ask()
            try:
                page = json.loads(pages["page.json"])
            except ValueError:
                page = None
            result.update(planted_judge.judge(dict(scenario.truth(), measured=measured),
                                              pages["page.txt"], page))
        else:
            result["verdict"] = "truth only"
    except Missing as e:
        result.update(verdict="skipped", why=str(e))
    except planted_judge.Failed as e:
        result.update(verdict="failed", why=str(e))
    finally:
        played.finish()
        if keep:
            with open(os.path.join(folder, "result.json"), "w") as f:
                json.dump(result, f, indent=1)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return result


VERDICTS = ["right", "fine", "generic", "not-known", "missed", "false", "invalid", "skipped", "failed"]


def main():
    if sys.argv[1:2] == ["--launch"]:
        launch(sys.argv[2])
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, nargs=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--keep")
    parser.add_argument("--json")
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("--no-capo", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    with open(os.path.join(HERE, os.environ.get("PLANTED_HALF", "half.json"))) as f:
        half = json.load(f)
    chosen = []
    for kind in planted_kinds.KINDS:
        for seed in (range(args.seeds[0], args.seeds[1] + 1) if args.seeds else
                     [args.seed] if args.seed is not None else half["seeds"].get(kind, [])):
            name = "%s-%d" % (kind, seed)
            if not args.only or any(fnmatch.fnmatch(kind, p) or fnmatch.fnmatch(name, p)
                                    for p in args.only):
                chosen.append(planted_kinds.make(kind, seed, half, args.seconds))
    if args.list:
        for s in chosen:
            truth = s.truth()
            print("%-26s %s" % (s.name, truth["says"]))
        return 0
    if not chosen:
        sys.exit("nothing is called so: see --list")
    room_of_its_own()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and all is undone
    build = os.path.abspath(args.build)
    programs = compile_programs(build)
    results = []
    for s in chosen:
        for left in range(args.tries - 1, -1, -1):
            result = play_one(s, build, programs, args.keep and os.path.abspath(args.keep),
                              not args.no_capo)
            if result.get("holds", True) or not left or result["verdict"] == "false":
                break
            s = planted_kinds.make(s.kind, s.seed, half, args.seconds)
        results.append(result)
        print("%-26s %-10s lost %s  %s%s" % (
            s.name, result["verdict"],
            "-" if "lost_s" not in result else "%.2f s" % result["lost_s"],
            result.get("why", ""),
            "" if result.get("holds", True) else "  THE PROGRAM DID OTHERWISE: " + result["why_not"]),
            flush=True)
    counts, kinds = {}, {}
    for r in results:
        counts[r["verdict"]] = counts.get(r["verdict"], 0) + 1
        kinds.setdefault(r["kind"], []).append(r["verdict"])
    columns = [v for v in VERDICTS if v in counts]
    print("\n%-18s %5s" % ("kind", "jobs") + "".join("%11s" % v for v in columns))
    for kind, verdicts in kinds.items():
        print("%-18s %5d" % (kind, len(verdicts)) + "".join("%11d" % verdicts.count(v) for v in columns))
    print(", ".join("%s %d" % item for item in sorted(counts.items())))
    besides = sum(1 for r in results if r.get("true_besides"))
    if besides:
        print("in %d also a cause that was not planted and was so by the program's own clock" % besides)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    return 1 if {"false", "missed", "failed"} & set(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
