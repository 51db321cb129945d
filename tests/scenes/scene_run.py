# SPDX-License-Identifier: Apache-2.0
"""Plays a scene under `capo run` with default settings and asks about it while it runs and after.

One time is not capo's default: standing jobs have CAPO_HANG=4, else a test of the watch stands for
minutes. CAPO_STANDIN_TIMEOUT is not set, so a rank waits for ever, as NCCL does."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import scene_page
from scene_read import HERE

STANDS_S = 11  # `capo hang` takes host code for a hang after 10 s (--after)
WATCH_S = 25  # CAPO_HANG=4, and a machine that is busy
LIMIT_S = int(os.environ.get("CAPO_SCENE_LIMIT", 240))  # a job's way to its place


class Answer:
    """What one command said: exit status, JSON (None: there was none), the page for people."""

    def __init__(self, status, page, text):
        self.status, self.page, self.text = status, page, text


class Failed(Exception):
    """The scene itself did not come to its place; capo is not to blame for that."""


def run_command(words):
    """A crash or a command that does not end is an answer, too."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_S / 2)
    except subprocess.TimeoutExpired:
        return 124, "", "no answer within %d s" % (LIMIT_S / 2)
    return done.returncode, done.stdout, done.stderr


def ask_both(capo, verb, operands):
    """JSON and text are not of one moment: the text comes second."""
    status, out, err = run_command(capo + [verb, "--json"] + operands)
    try:
        page = json.loads(out)
    except ValueError:
        page = None
    _, text, more = run_command(capo + [verb, "--wide"] + operands)
    return Answer(status, page, text + err + more)


def descendants(pid):
    """The processes that @pid has started, and what these have."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                text = f.read()
        except OSError:
            continue
        children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(text.split()[0]))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


class Room:
    """A /dev/shm of the scene's own, so that no other job is seen, where the kernel allows it."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             "mount -t tmpfs none /dev/shm && echo made && exec sleep 1000000"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        made = self.holder.stdout.readline() == "made\n"
        self.enter = ["nsenter", "-m", "-t", str(self.holder.pid), "--"] if made else []
        self.shm = "/proc/%d/root/dev/shm" % self.holder.pid if made else "/dev/shm"

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Played:
    def __init__(self, scene, build, torch, scenes):
        self.scene, self.torch, self.scenes = scene, torch, scenes
        self.build = build
        self.room = Room()
        self.capo = self.room.enter + [os.path.join(build, "cli", "capo")]
        self.folder = tempfile.mkdtemp(prefix="capo-scene-")
        self.logs = os.path.join(self.folder, "logs")
        self.job = None
        self.answers = {}
        self.metrics = []  # texts of capo watch --once, each of the moment of the last "dir"
        self.hang_file = None  # hang.txt and hang.json

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, scene):
        if scene.lang == "torch":
            return [sys.executable, "-m", "torch.distributed.run", "--standalone",
                    "--max-restarts", scene.job.get("restarts", "0"),
                    "--nproc-per-node", str(scene.n),
                    os.path.join(HERE, "scene_train.py"), scene.script[0], self.folder]
        script = self.path("script")
        with open(script, "w") as f:
            f.write("\n".join(scene.script) + "\n")
        return [sys.executable, os.path.join(HERE, "scene_launch.py"),
                scene.job.get("like", "srun"), str(scene.n), scene.job.get("unrecorded", "-"), "--",
                os.path.join(self.build, "tests", "scenes", "scene_player"), script]

    def start(self, scene, logs=None):
        if scene.lang == "torch":
            env = dict(self.torch)
        else:
            env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_"))}
            env["LD_LIBRARY_PATH"] = os.path.join(self.build, "tests", "standin")
        env["IPATH_NO_BACKTRACE"] = "1"  # else a library below libfabric turns a signal into exit(1)
        watch = scene.job.get("watch", "4" if scene.stands else "")
        if watch:
            env["CAPO_HANG"] = watch
        self.output = open(self.path("output"), "a")
        self.job = subprocess.Popen(
            self.capo + ["run", "--quiet", "--dir", logs or self.logs, "--"] + self.command(scene),
            env=env, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            start_new_session=True)

    def read_output(self):
        with open(self.path("output"), errors="replace") as f:
            return f.read()

    def pids(self):
        found = {}
        for path in glob.glob(self.path("place.*[0-9]")):
            with open(path) as f:
                found[int(path.rsplit(".", 1)[1])] = int(f.read())
        return found

    def wait_for(self, what, true, limit=LIMIT_S):
        end = time.monotonic() + limit
        while not true():
            if time.monotonic() > end:
                raise Failed("no %s within %d s: %s" % (what, limit, self.read_output()[-800:]))
            if self.job.poll() is not None and not true():
                raise Failed("no %s, the job has ended: %s" % (what, self.read_output()[-800:]))
            time.sleep(0.05)

    def has_ended(self):
        return self.job.poll() is not None

    def ask(self, way, verb, *operands):
        self.answers.setdefault(way, []).append(ask_both(self.capo, verb, list(map(str, operands))))

    def ask_live(self):
        """The rank that is asked about is alive: not one that ended as part of the scene."""
        scene = self.scene
        alive = [r for r, pid in sorted(self.pids().items()) if os.path.exists("/proc/%d" % pid)
                 and str(r) not in scene.job.get("unrecorded", "").split(",")]
        self.ask("dir", "hang", self.logs)
        if alive:
            self.ask("pid", "hang", self.pids()[alive[0]])
        self.ask("launcher", "hang", self.job.pid)
        if self.room.enter:
            self.ask("none", "hang")
        self.metrics.append(run_command(self.capo + ["watch", "--once", "--dir", self.logs])[1])

    def read_hang_file(self):
        text, page = "", None
        for path in (path for end in ("txt", "json")  # hang.watch goes with the watch
                     for path in glob.glob(os.path.join(self.logs, "**", "hang." + end), recursive=True)):
            with open(path, errors="replace") as f:
                if path.endswith("/hang.txt"):
                    text = f.read()
                elif path.endswith("/hang.json"):
                    try:
                        page = json.load(f)
                    except ValueError:
                        page = None
        self.hang_file = (text, page) if text else None

    def stand(self):
        """A hang: all ranks are where they stand, and have been for longer than --after."""
        time.sleep(STANDS_S + scene_page.way_to_place_s(self.scene))
        self.ask_live()
        self.ask("live-report", "report", self.logs)
        if "watch" in self.scene.job:
            return
        end = time.monotonic() + WATCH_S - STANDS_S
        while time.monotonic() < end and not self.watch_fired():
            time.sleep(0.2)
        self.answers["watch"] = [Answer(0, {"fired": self.watch_fired()}, "")]

    def watch_fired(self):
        return " has not moved for " in self.read_output()

    def end(self):
        """As the scene says; what is left of the job after that is killed."""
        if self.scene.job.get("end") == "kill":
            for pid in self.pids().values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if not self.has_ended():
            self.job.terminate()
        try:
            self.job.wait(60)
        except subprocess.TimeoutExpired:
            pass
        self.kill_rest()

    def kill_rest(self):
        """Workers of torchrun are groups of their own, and do not end with it."""
        for pid in list(self.pids().values()) + list(descendants(self.job.pid)) + [self.job.pid]:
            for kill, number in ((os.kill, pid), (os.killpg, pid)):
                try:
                    kill(number, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
        self.job.wait()

    def stop(self):
        """Ends a job that goes on: by its file, or as the scene says."""
        word, *numbers = self.scene.job.get("stop", "file").split(":")
        if word == "pause":
            pid = self.pids()[int(numbers[0])]
            os.kill(pid, signal.SIGSTOP)
            time.sleep(int(numbers[1]))
            os.kill(pid, signal.SIGCONT)
        elif word == "wait":
            time.sleep(int(numbers[0]))
        elif word != "file":
            for pid in self.pids().values():
                os.kill(pid, getattr(signal, "SIG" + word.upper()))
            return
        open(self.path("stop"), "w").close()

    def spoil(self):
        """What becomes of the logs before somebody asks."""
        word, _, number = self.scene.job.get("logs", "").partition(":")
        if word == "memory-gone":
            for pid in self.pids().values():
                for path in glob.glob("%s/capo-*-%d-*" % (self.room.shm, pid)):
                    os.remove(path)
            return
        if not word:
            return
        run_command(self.capo + ["recover", self.logs])
        keep = ".%d." % self.pids().get(int(number), 0)
        for path in glob.glob(os.path.join(self.logs, "*")):
            if word == "only" and keep not in path:
                os.remove(path)
            elif word == "cut" and path.endswith(".capo"):
                os.truncate(path, min(int(number), os.path.getsize(path)))
            elif word == "cut":
                os.remove(path)

    def play_other(self, name, logs):
        other = next(s for s in self.scenes if s.name == name)
        self.start(other, logs)
        self.wait_for("end of " + name, self.has_ended)
        time.sleep(1.1)  # the newest job is recognized by its start, in seconds

    def play(self):
        scene = self.scene
        if "first" in scene.job:
            self.play_other(scene.job["first"], self.logs)
        if "beside" in scene.job:
            self.play_other(scene.job["beside"], self.path("other"))
        self.start(scene)
        marks = any({"mark", "early"} & set(line.split()) for line in scene.script) or (
            scene.lang == "torch" and scene.script[0] != "restarted")
        if marks:
            self.wait_for("marks of all ranks",
                          lambda: len(self.pids()) == scene.n)
        if scene.stands:
            self.stand()
            self.end()
        else:
            if scene.job.get("ask") == "during":
                time.sleep(2)
                self.ask_live()
            elif marks and scene.kind not in ("died", "unknown"):
                for _ in range(5 if scene.kind == "healthy" else 2):
                    self.ask_live()
                self.ask("live-report", "report", self.logs)
            self.stop()
            self.wait_for("end", self.has_ended)
            if scene.kind != "died" and "stop" not in scene.job and self.job.returncode:
                raise Failed("status %d: %s" % (self.job.returncode, self.read_output()[-800:]))
        self.read_hang_file()
        self.spoil()
        self.ask("end", "hang", self.logs)
        run_command(self.capo + ["recover", self.logs])
        self.ask("recovered", "hang", self.logs)
        self.ask("report", "report", self.logs)
        if "beside" in scene.job:
            self.ask("merged", "report", self.logs, self.path("other"))

    def finish(self, keep):
        if self.job and not self.has_ended():
            self.kill_rest()
        run_command(self.capo + ["recover", self.logs])
        self.room.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
