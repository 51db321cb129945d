# SPDX-License-Identifier: Apache-2.0
"""Reads *.scenes. A scene is a paragraph:

scene NAME
what  what happens, in a sentence
job   LANGUAGE RANKS KEY=VALUE...
truth KIND KEY=VALUE...
never a regular expression that no page may have (any number of these lines)
...   c: the script of scene_player.c; torch: a function of scene_train.py

Keys of job:
  like        the launcher: torchrun, kill, srun (scene_launch.py); default srun
  end         how a standing job is ended: term (SIGTERM to the launcher), kill (SIGKILL to all)
  logs        what is then done to its logs: only:RANK, cut:BYTES, memory-gone
  ask         during: two seconds behind the mark, not when it has stood for long
  watch       CAPO_HANG; for hangs it is 4 by default, so that a test need not stand for 5 minutes
  unrecorded  ranks that run without capo
  first       a scene whose job is run before it, into the same folder of logs
  beside      a scene whose job is run before it, into another folder; both are given to a report
  restarts    of torchrun
  calls       none: no call of NCCL is made; end: all have ended, so that the watch may be silent
  stop        how a job that goes on is ended: term, int, kill (a signal to all ranks); or
              wait:SECONDS, that much later; or pause:RANK:SECONDS, stopped for so long before it ends by its file
Truth: hang, died (one rank ended first, the launcher ended the others), slow, pause (a rank is late
once), healthy, unknown (nothing may be said). Its keys:
  ranks       job ranks that are the cause
  wide        others may be named beside them
  verdict     words that `capo hang` may say; default: any that is a hang
  how         how it ended: signal:N or exit:N
  call        what the others wait in
  waiting     how many ranks wait in it
  undecided   so little is recorded that "undecided" is right
  uncertain   "certain" would be wrong
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("ended", "hang", "part", "slow", "healthy", "torch")
KINDS = ("hang", "died", "slow", "pause", "healthy", "unknown")
JOB_KEYS = {"like", "end", "logs", "ask", "watch", "unrecorded", "first", "beside", "restarts",
            "calls", "stop"}
TRUTH_KEYS = {"ranks", "wide", "verdict", "how", "call", "waiting", "undecided", "uncertain"}


class Scene:
    def __init__(self, name, place):
        self.name, self.place = name, place
        self.what, self.lang, self.n, self.job, self.kind, self.truth = "", "", 0, {}, "", {}
        self.script, self.never = [], []

    @property
    def ranks(self):
        return {int(r) for r in self.truth.get("ranks", "").split(",") if r}

    @property
    def verdicts(self):
        return set(filter(None, self.truth.get("verdict", "").split(",")))

    @property
    def stands(self):
        """The job stands until it is ended from outside."""
        return self.kind == "hang"


def read_pairs(words, known, place):
    pairs = dict((w.split("=", 1) + [""])[:2] for w in words)
    for key in pairs:
        if key not in known:
            raise ValueError("%s: expected one of %s, found %s" % (place, sorted(known), key))
    return pairs


def read_file(name):
    scenes, scene = [], None
    with open(os.path.join(HERE, name)) as f:
        for number, line in enumerate(f, 1):
            word, _, rest = line.strip().partition(" ")
            place = "%s:%d" % (name, number)
            if not word or word == "#":
                scene = None if not word else scene
            elif word == "scene":
                scene = Scene(rest, place)
                scenes.append(scene)
            elif scene is None:
                raise ValueError("%s: expected a line `scene NAME`, found %s" % (place, word))
            elif word == "what":
                scene.what = rest
            elif word == "never":
                scene.never.append(rest)
            elif word == "job":
                scene.lang, n, *pairs = rest.split()
                scene.n, scene.job = int(n), read_pairs(pairs, JOB_KEYS, place)
            elif word == "truth":
                scene.kind, *pairs = rest.split()
                scene.truth = read_pairs(pairs, TRUTH_KEYS, place)
                if scene.kind not in KINDS:
                    raise ValueError("%s: expected one of %s, found %s" % (
                        place, KINDS, scene.kind))
            else:
                scene.script.append(line.strip())
    return scenes


def read_all():
    scenes = [s for name in FILES for s in read_file(name + ".scenes")]
    names = [s.name for s in scenes]
    for s in scenes:
        if names.count(s.name) > 1 or not (s.what and s.n and s.kind and s.script):
            raise ValueError("%s: %s is there twice or not whole" % (s.place, s.name))
    return scenes
