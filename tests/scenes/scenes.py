#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scenes with the truth beside each (*.scenes), and what capo says of them by default.

Each is asked about by PID of a rank, PID of the launcher, folder and without an operand while it
runs, and by folder after its end (`capo hang`, `capo report`). A row per scene is printed:
r right, u undecided, W wrong, w wrong and known (--expect), - not asked. Exit status 0: nothing is
wrong that --expect does not list; 77: nothing could be played."""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import subprocess
import sys
import time

import scene_judge
import scene_page
from scene_read import HERE, read_all
from scene_run import Failed, Played

WAYS = ("dir", "pid", "none", "launcher", "same", "watch", "line", "live-report", "end",
        "recovered", "report", "merged", "stderr", "file", "metrics")
RELEASE = "torch-2.15.0"


def find_torch(build):
    """The environment of PyTorch on the stand-in, or why there is none. Nothing is fetched."""
    frameworks = os.path.join(HERE, "..", "frameworks")
    store = os.environ.get("CAPO_FRAMEWORKS") or os.path.realpath(
        os.path.join(HERE, "..", "..", ".deps", "frameworks"))
    for name in (RELEASE, "common"):
        if not os.path.isdir(os.path.join(store, name, "site-packages")):
            return None, "%s is not in %s: ./dev frameworks --quick fetches it" % (name, store)
    sys.path.insert(0, frameworks)
    import frameworks as module
    import wheels
    try:
        env = dict(module.Release(RELEASE, build, wheels.Wheels(store)).env)
    except (wheels.Missing, subprocess.CalledProcessError) as why:
        return None, str(why)
    env.pop("CAPO_STANDIN_TIMEOUT")  # a rank that does not come is waited for, as by NCCL
    return env, ""


def read_expected(path, scenes):
    """{(scene, way)} known to be wrong: lines of a name (with * and ?) and a way."""
    known, names = set(), [s.name for s in scenes]
    if not path:
        return known
    with open(path) as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            found = fnmatch.filter(names, words[0])
            if len(words) != 2 or words[1] not in WAYS or not found:
                sys.exit("%s:%d: expected NAME of a scene and one of %s, found %s" % (
                    path, number, ", ".join(WAYS), line.strip()))
            known.update((name, words[1]) for name in found)
    return known


def play_one(scene, build, torch, scenes, keep):
    played = Played(scene, build, torch, scenes)
    begin = time.monotonic()
    try:
        played.play()
        results = scene_judge.judge(scene, played)
        failed = ""
    except Failed as why:
        results, failed = {}, str(why)
    finally:
        played.finish(keep)
    return scene, results, failed, time.monotonic() - begin, played


def print_row(scene, results, known, seconds):
    letters = []
    for way in WAYS:
        result = results.get(way, ("-",))[0]
        wrong = "w" if (scene.name, way) in known else "W"
        letters.append({"right": "r", "undecided": "u", "wrong": wrong}.get(result, "-"))
    print("%-34s %-8s" % (scene.name, scene.kind) + "".join("%7s" % x for x in letters) +
          "%6.0f s" % seconds, flush=True)


def write_json(path, rows):
    with open(path, "w") as f:
        json.dump([{"scene": scene.name, "what": scene.what, "truth": scene.kind,
                    "ranks": sorted(scene.ranks), "failed": failed, "results": {
                        way: dict(zip(("result", "why", "said"), r)) for way, r in results.items()},
                    "pages": {way: [a.page for a in given]
                              for way, given in played.answers.items()},
                    "texts": {way: [a.text for a in given]
                              for way, given in played.answers.items()}}
                   for scene, results, failed, _, played in rows], f, indent=1)


def print_totals(rows, known):
    print("\n%-12s%8s%11s%7s%8s" % ("way", "right", "undecided", "wrong", "known"))
    tally = collections.Counter((way, r[0]) for _, results, *_ in rows
                                for way, r in results.items())
    old = collections.Counter(way for scene, results, *_ in rows for way, r in results.items()
                              if r[0] == "wrong" and (scene.name, way) in known)
    for way in WAYS:
        print("%-12s%8d%11d%7d%8d" % ((way,) + tuple(tally[way, r] for r in scene_judge.ORDER) +
                                      (old[way],)))
    print("%-12s%8d%11d%7d%8d" % (("all",) + tuple(
        sum(tally[way, r] for way in WAYS) for r in scene_judge.ORDER) + (sum(old.values()),)))


def print_wrong(rows, known):
    for scene, results, failed, *_ in rows:
        if failed:
            print("FAILED  %s: %s" % (scene.name, failed))
        for way, (result, why, said) in results.items():
            if result == "wrong":
                print("%s  %s, %s: %s%s; said: %s; because: %s" % (
                    "known" if (scene.name, way) in known else "WRONG", scene.name, way, scene.kind,
                    " of rank " + ",".join(map(str, sorted(scene.ranks))) if scene.ranks else "",
                    said or "-", why))
    mended = sorted((s.name, way) for s, results, *_ in rows for way, r in results.items()
                    if (s.name, way) in known and r[0] != "wrong")
    for name, way in mended:
        print("not wrong this time: %s %s" % (name, way))
    for line in scene_page.not_judged:
        print("not judged: " + line)


def choose(scenes, o):
    names = set(o.only)
    unknown = names - {s.name for s in scenes}
    if unknown:
        sys.exit("scenes.py: no scene %s; --list shows all" % ", ".join(sorted(unknown)))
    return [s for s in scenes if (not names or s.name in names) and o.lang in (None, s.lang)]


def play_all(chosen, scenes, o, torch, known):
    print("%-34s %-8s" % ("scene", "truth") + "".join("%7s" % w[:6] for w in WAYS))
    rows = []
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(o.load)]
    try:
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            waiting = [pool.submit(play_one, s, o.build, torch, scenes, o.keep) for s in chosen]
            for done in concurrent.futures.as_completed(waiting):
                rows.append(done.result())
                print_row(rows[-1][0], rows[-1][1], known, rows[-1][3])
    finally:
        for p in busy:
            p.kill()
            p.wait()
    return sorted(rows, key=lambda row: scenes.index(row[0]))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("build")
    options.add_argument("--only", action="append", default=[], metavar="NAME")
    options.add_argument("--lang", choices=("c", "torch"))
    options.add_argument("--load", type=int, default=0, metavar="N",
                         help="N processes that keep the machine busy meanwhile")
    options.add_argument("--jobs", type=int, default=4, help="scenes at a time (4)")
    options.add_argument("--expect", metavar="FILE", help="what is known to be wrong")
    options.add_argument("--json", metavar="FILE", help="every answer, for programs")
    options.add_argument("--list", action="store_true", help="the scenes, and nothing is played")
    options.add_argument("--keep", action="store_true", help="leave folders of the jobs there")
    o = options.parse_args()
    o.build = os.path.abspath(o.build)
    scenes = read_all()
    chosen = choose(scenes, o)
    if o.list:
        for s in chosen:
            print("%-34s %-8s %s" % (s.name, s.kind, s.what))
        return 0
    known = read_expected(o.expect, scenes)
    torch = None
    if any(s.lang == "torch" for s in chosen):
        torch, why = find_torch(o.build)
        if not torch:
            skipped = [s for s in chosen if s.lang == "torch"]
            chosen = [s for s in chosen if s.lang == "c"]
            print("SKIP  %d scenes of PyTorch: %s" % (len(skipped), why))
    if not chosen:
        return 77
    rows = play_all(chosen, scenes, o, torch, known)
    print_totals(rows, known)
    print_wrong(rows, known)
    if o.json:
        write_json(o.json, rows)
    bad = any(failed or any(r[0] == "wrong" and (scene.name, way) not in known
                            for way, r in results.items())
              for scene, results, failed, *_ in rows)
    return 1 if bad else 0


sys.exit(main())
