#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dry run of run.sh that is killed at random places and started again, until it comes to its end: broken.py BUILD [KILLS] [SEED]

What is killed is sometimes all of it, sometimes run.sh alone, whose part then goes on by itself. At the end every part must be done, as it
should be, in results.txt once and in order; none that was done is begun again; and a limit of no time leaves all out and says so."""
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
build, kills, seed = os.path.realpath(sys.argv[1]), int((sys.argv + ["5"])[2]), int((sys.argv + ["5", "1"])[3])
out = tempfile.mkdtemp(prefix="capo-gpu-broken-")
# without PyTorch: this is about breaks, and the test gpu-dry is about the rest
env = dict(os.environ, CAPO_FRAMEWORKS=os.path.join(out, "none"))
command = [os.path.join(HERE, "run.sh"), "--dry", build, os.path.join(out, "results")]


def parts():
    with open(os.path.join(HERE, "run.sh")) as f:
        return re.findall(r"([\w-]+):\d+", re.search(r"^parts='(.*)'", f.read(), re.M)[1])


def read(name):
    try:
        with open(os.path.join(out, "results", name), errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def done():
    return {p for p in parts() if read("done." + p)}


def of_session(leader):
    """Its processes, without procps."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, errors="replace") as f:
                if int(f.read().rpartition(")")[2].split()[3]) == leader:
                    found.append(int(path.split("/")[2]))
        except (OSError, IndexError):
            pass  # it is gone
    return found


def check(what, true):
    if not true:
        print(f"FAIL: {what}\nbegun: {read('begun').split()}\ndone: {sorted(done())}\n{read('results.txt')[-3000:]}")
        sys.exit(1)


rng = random.Random(seed)
late = subprocess.run([*command[:2], "--limit", "0", *command[2:]], env=env, capture_output=True, text=True)
check("a limit of no time leaves everything out", late.returncode in (3, 77) and "not begun for want of time: here train" in late.stdout and not done())
again = []
for kill in range(kills):
    job = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    # at a random moment of the part after so many more
    wanted = len(read("begun").split()) + rng.randint(1, 2)
    end = time.monotonic() + 300
    while job.poll() is None and len(read("begun").split()) < wanted and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(rng.random() * 2)
    if job.poll() is not None:
        break
    before = done()
    if rng.random() < 0.5:
        job.kill()
    else: # with its parts, which are in groups of their own
        for pid in of_session(job.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    job.wait()
    again.append((before, len(read("begun").split())))
last = subprocess.run(command, env=env, capture_output=True, text=True)
check(f"the last run: {last.returncode} {last.stdout[-2000:]}", last.returncode == 0)
check("every part is done", done() == set(parts()))
begun = read("begun").split()
for before, at in again:
    check(f"{before & set(begun[at:])} was done, and begun again", not before & set(begun[at:]))
text = read("results.txt")
titles = re.findall(r"^== (.*)$", text, re.M)
check("each part once", len(titles) == len(set(titles)) == len(parts()))
check("all is as it should be", "FAIL" not in text and text.rstrip().endswith("all that ran is as it should be"))
third = subprocess.run(command, env=env, capture_output=True, text=True)
check("nothing is done a second time", third.returncode == 0 and read("begun").split() == begun)
print(f"killed {len(again)} times after {[at for _, at in again]} parts had begun; {len(begun)} begun for {len(parts())}")
shutil.rmtree(out)
