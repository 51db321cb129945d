#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that is slow, or never answers: slow_source.py CAPO BUILD. The log says it, the source is asked no more, and the job, its calls and
its end do not wait for it. What the thread that reads costs is measured on the way."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from job import BUILD, CAPO, Job, check

NVML = os.path.join(BUILD, "tests/fragment/libnvidia-ml.so.1")
GPUS = "".join("gpu 00000000:%02X:00.0 GPU-%d\nclocks 1980 1980 60 0\n" % (r + 1, r) for r in range(2))
CALLS = "".join("%d coll 0 allreduce 1000 7 0 0 0\n%d sync 0\n" % (r, r) for r in range(2))


def frames(job, rank):
    text = subprocess.run([CAPO, "dump", job.log(rank)], capture_output=True, text=True).stdout if os.path.isdir(job.logs) and job.log(rank) else ""
    return "".join(re.findall(r"^\d+ MACHINE \d+\n((?:    .*\n)*)", text, re.M))


def cost(job, rank):
    """Seconds that the thread has run so far."""
    for tid in os.listdir("/proc/%d/task" % job.ranks[rank].pid):
        with open("/proc/%d/task/%s/comm" % (job.ranks[rank].pid, tid)) as name, open("/proc/%d/task/%s/schedstat" % (job.ranks[rank].pid, tid)) as stat:
            if name.read() == "capo-machine\n":
                return int(stat.read().split()[0]) / 1e9
    raise AssertionError("no thread of the machine")


def sampled(job, rank):
    return sum(int(n) for n in re.findall(r"\n    samples\t(\d+)", frames(job, rank)))


def play(word, part):
    with tempfile.TemporaryDirectory(prefix="capo-slow-") as made:
        with open(made + "/driver", "w") as f:
            f.write(word + GPUS)
        job = Job(CALLS + "0 until go\n1 until go\n" + CALLS + "0 mark\n1 mark\n0 until end\n1 until end\n", 2, also=NVML, CAPO_HANG="0",
                  CAPO_TEST_NVML=made + "/driver")
        try:
            part(job)
            job.go("go")
            job.wait("calls behind it", lambda: all(os.path.exists(job.path("script.place.%d" % r)) for r in range(2)))
            job.go("end")
            check("it ends well", all(p.wait() == 0 for p in job.ranks))
        finally:
            job.end()


def hangs(job):
    job.wait("what has not answered", lambda: all("    left\tprocess\tthe GPU driver (NVML)\tit has not answered\n" in frames(job, r) for r in range(2)))
    check(frames(job, 0), "\n    gpu\t" not in frames(job, 0))


def slow(job):
    said = re.compile(r"    left\tgpu\t\d:\S+\tit took [3-9]\d\d ms to answer\n|    left\tgpu\t\d:\S+\tit took \d{4,} ms to answer\n")
    job.wait("what was slow", lambda: all(said.search(frames(job, r)) for r in range(2)))
    ran, taken = cost(job, 0), sampled(job, 0)
    job.wait("readings behind it", lambda: sampled(job, 0) >= taken + 40)
    ran, taken = cost(job, 0) - ran, sampled(job, 0) - taken
    check("%.1f ms for %d samples and the readings between" % (ran * 1e3, taken), 0 < ran < taken * 0.5e-3)  # 0.5 % of a core; usually a tenth
    for r in range(2):
        check(frames(job, r), len(said.findall(frames(job, r))) == 1 and "\n    gpu\t" not in frames(job, r))


play("hang\n", hangs)
play("hang 300\n", slow)
print("ok")
