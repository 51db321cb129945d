#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""strangers.py BUILD [options of ../scenes.py]: plays the *.scenes of this folder by the runner and
the judge of tests/scenes. It adds: processes with several GPUs, pretended nodes, more ends of a
job and of its logs, and the facts that stand as comments beside a truth (README.md).
CAPO_STRANGERS: another folder, with its *.scenes and the one C file that plays them."""
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.abspath(os.environ.get("CAPO_STRANGERS", HERE))
PLAYER = next(name[:-2] for name in sorted(os.listdir(FOLDER)) if name.endswith(".c"))
SCENES = os.environ.get("CAPO_SCENES", os.path.join(HERE, ".."))
sys.path.insert(0, SCENES)
import scene_judge
import scene_read
import scene_run

LIVE, REPORTS = ("dir", "pid", "none", "launcher"), ("live-report", "report")
WAYS = {"never": LIVE + REPORTS + ("end",), "never-hang": LIVE + ("end",),
        "never-live": LIVE + ("live-report",), "never-end": ("end",)}
MASKED = "healthy-but"  # the job goes on, but NCCL EP masked the ranks of the truth
MAKING = threading.Lock()  # scenes are played side by side
FACTS = {}  # name of a scene: [(word, text)]
FOLDERS = {}  # name of a scene: a path in its folder
HOST_MS = struct.calcsize("=" + "56sdq" * 6 + "24q")  # place in clock.RANK


def read_facts(path):
    name = None
    with open(path) as f:
        for line in f:
            word, _, rest = line.strip().partition(" ")
            if word == "scene":
                name = rest
                FACTS[name] = []
            elif not word:
                name = None
            elif word == "#" and name:
                FACTS[name].append((rest.split(" ")[0], rest.partition(" ")[2]))


def player_of(build):
    """Made once, with the compiler at hand, beside the runner's own player."""
    program = os.path.join(build, "tests", "scenes", PLAYER)
    source = os.path.join(FOLDER, PLAYER + ".c")
    libraries = os.path.join(build, "tests", "standin")
    with MAKING:
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            part = "%s.%d" % (program, os.getpid())
            subprocess.run(["gcc", "-D_GNU_SOURCE", "-std=gnu11", "-O1", "-g", "-I",
                            os.path.join(SCENES, "..", "standin", "include"), source, "-o", part,
                            "-L" + libraries, "-l:libnccl.so.2", "-l:libcuda.so.1",
                            "-Wl,--as-needed", "-l:libnccl_ep.so.0", "-l:libnccl_m2n.so",
                            "-Wl,-rpath-link," + libraries, "-pthread"], check=True)
            os.rename(part, program)
    return program


class Played(scene_run.Played):
    def stop(self):
        if self.scene.kind == MASKED:  # the masked rank pauses for ever
            self.scene.job["stop"] = "kill"
        super().stop()

    def ask_live(self):
        if self.scene.kind == MASKED and not self.metrics:
            time.sleep(3.5)  # NCCL EP masks a rank after a time-out
        super().ask_live()

    def command(self, scene):
        script, job = self.path("script"), scene.job
        if scene is not self.scene:  # `first`: its ids and ends are its own
            script = os.path.join(self.path("other-job"), "script")
            os.makedirs(os.path.dirname(script), exist_ok=True)
        FOLDERS[scene.name] = os.path.dirname(script)
        with open(script, "w") as f:
            f.write("\n".join(scene.script) + "\n")
        return [sys.executable, os.path.join(HERE, "stranger_launch.py"), job.get("like", "srun"),
                str(scene.n), job.get("unrecorded", "-"), job.get("gpus", "1"),
                job.get("drive", "each"), job.get("nodes", "-"), job.get("set", "-"), "--",
                player_of(self.build), script]

    def spoil(self):
        word, _, which = self.scene.job.get("logs", "").partition(":")
        if word == "without":
            scene_run.run_command(self.capo + ["recover", self.logs])
            seen = self.pids()
            pids = [seen.get(int(r), 0) for r in which.split(",")]
            for name in os.listdir(self.logs):
                if any(".%d." % pid in name for pid in pids):
                    os.remove(os.path.join(self.logs, name))
        elif word == "cut-of":  # the logs of some ranks: cut-of:BYTES:RANKS
            scene_run.run_command(self.capo + ["recover", self.logs])
            size, _, which = which.partition(":")
            seen = self.pids()
            pids = [seen.get(int(r), 0) for r in which.split(",")]
            for name in os.listdir(self.logs):
                path = os.path.join(self.logs, name)
                if any(".%d." % pid in name for pid in pids):
                    if name.endswith(".capo"):
                        os.truncate(path, min(int(size), os.path.getsize(path)))
                    else:
                        os.remove(path)
        elif word == "copied":
            self.scene.job["logs"] = "memory-gone"
            super().spoil()
            self.scene.job["logs"] = "copied"
            shutil.copytree(self.logs, self.path("copied"))
            shutil.rmtree(self.logs)
            self.logs = self.path("copied")
        else:
            super().spoil()


def never(scene, way, answer):
    """A sentence that the truth rules out."""
    for word, text in FACTS.get(scene.name, []):
        if not word.startswith("never"):
            continue
        if way not in WAYS.get(word, WAYS["never"]):
            continue
        pattern, _, why = text.partition(" -- ")
        found = re.search(pattern, answer.text, re.I)
        if found:
            return "says `%s`: %s" % (found[0], why)
    return ""


def not_masked(scene, way, result, answer):
    """The rank that NCCL EP left out has to be named, by a page that decides."""
    if scene.kind != MASKED or way == "watch" or result[0] == scene_judge.UNDECIDED:
        return ""
    named = re.search("masked .*(?:rank|process) (%s)\\b" % "|".join(map(str, scene.ranks)),
                      " ".join(answer.text.split()))
    return "" if named or answer.status == 3 else "no word of the masked rank"


def all_may_pause(scene):
    """Have all ranks ended their calls, as far as the facts allow? Then no call is under way."""
    stand = [text.split(" | ")[0].split() for word, text in FACTS.get(scene.name, []) if word == "in"]
    return bool(stand) and all("pause" in words[1].split("|") for words in stand if len(words) > 1)


def by_its_clocks(scene):
    """Seconds that each rank was in host code: on a busy machine a rank may truly be late."""
    seconds = []
    for r in range(scene.n):
        try:
            with open(os.path.join(FOLDERS[scene.name], "clock.%d" % r), "rb") as f:
                f.seek(HOST_MS)
                seconds.append("%.2f" % (struct.unpack("=d", f.read(8))[0] / 1e3))
        except (OSError, KeyError, struct.error):
            return ""
    return " [in host code by its clocks, s: %s]" % " ".join(seconds)


def judge_one(scene, way, answer):
    if all_may_pause(scene):
        scene.job.setdefault("calls", "end")
    kept = scene.kind, scene.truth
    if kept[0] == MASKED:
        scene.kind = "healthy"
    if way in ("end", "report"):
        for word, text in FACTS.get(scene.name, []):
            if word == "end-truth":
                scene.kind, *pairs = text.split()
                scene.truth = scene_read.read_pairs(pairs, scene_read.TRUTH_KEYS, scene.name)
    page, nodes = answer.page, scene.job.get("nodes")
    whole = "logs" not in scene.job or way not in ("end", "report")
    if page and nodes and whole and "nodes" in page:
        right = page["nodes"] == len(nodes.split("+"))
        answer = scene_run.Answer(answer.status, dict(page, nodes=1 if right else page["nodes"] + 100),
                                  answer.text)
    try:
        result = (plain_judge_one(scene, way, answer) if kept[0] != MASKED or way not in ("end", "report")
                  else (scene_judge.RIGHT, "", ""))  # this runner killed it
    finally:
        scene.kind, scene.truth = kept
    if result[0] != scene_judge.WRONG:
        bad = never(scene, way, answer) or not_masked(scene, way, result, answer)
        if bad:
            result = scene_judge.WRONG, bad, result[2]
    if result[0] == scene_judge.WRONG and scene.kind in ("healthy", "slow"):
        result = (result[0], result[1] + by_its_clocks(scene), *result[2:])
    return result


files = sorted(name[:-7] for name in os.listdir(FOLDER) if name.endswith(".scenes"))
for name in files:
    read_facts(os.path.join(FOLDER, name + ".scenes"))
scene_read.FILES = tuple(os.path.join(FOLDER, name) for name in files)
scene_read.KINDS += (MASKED,)
scene_read.JOB_KEYS |= {"gpus", "drive", "nodes", "set"}
scene_run.Played = Played
plain_judge_one, scene_judge.judge_one = scene_judge.judge_one, judge_one
sys.argv[0] = os.path.join(SCENES, "scenes.py")
runpy.run_path(sys.argv[0], run_name="__main__")
