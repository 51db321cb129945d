#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo watch beside a job of 8 ranks on the stand-in: what the job notices, what a look costs. usage: watch.sh BUILD
exec python3 - "$1" <<'PYTHON'
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

build = os.path.abspath(sys.argv[1])
capo, jobs = os.path.join(build, "cli/capo"), os.path.join(build, "tests/jobs")
RANKS, PAIRS = 8, int(os.environ.get("CAPO_BENCH_PAIRS", "7"))
work = tempfile.mkdtemp(prefix="capo-bench-watch-")
COMMAND = [capo, "run", "--no-watch", "--quiet", "--dir", work + "/logs", "--", jobs + "/launch", "-n", str(RANKS), "--", jobs + "/ddp_train", "--replay", "resnet50",
           "--steps", "60", "--scale", "0.01", "--quiet"]
WATCH = [capo, "watch", "--dir", work + "/logs", "--until", str(os.getpid()), "--metrics", work, "--every", "1"]


def run():
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def beside():
    watch = subprocess.Popen(WATCH, stderr=subprocess.DEVNULL)
    took = run()
    watch.terminate()
    watch.wait()
    return took


def look():
    """A whole capo watch --once: the start of the program and one look."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([capo, "watch", "--once", "--dir", work + "/logs"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if 'state="alive"} %d' % RANKS not in done.stdout:
        return None
    memory = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("capo_watch_resident_bytes{")]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(memory[0])


run()
ratios = []
for _ in range(PAIRS):
    plain = run()
    watched = beside()
    ratios.append((watched[0] / plain[0], watched[1] / plain[1]))
print("%d ranks with and without a watch that looks every second: wall %.3f, processor time %.3f (medians of %d ratios)" % (
    RANKS, statistics.median(r[0] for r in ratios), statistics.median(r[1] for r in ratios), PAIRS))
job = subprocess.Popen(COMMAND[:-1] + ["--steps", "3000", "--quiet"], stdout=subprocess.DEVNULL)
looks = []
while len(looks) < 15 and job.poll() is None:
    looks += [taken for taken in [look()] if taken]
job.terminate()
job.wait()
ms, peak = 1e3 * statistics.median(t[0] for t in looks), max(t[1] for t in looks)
print("one look and its program's start: %.1f ms of processor time, every 15 s %.3f %% of a core (median of %d); %.1f MB at most" % (
    ms, ms / 150, len(looks), peak / 1e6))
subprocess.run(["rm", "-rf", work])
PYTHON
