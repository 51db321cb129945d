#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that is late because its GPU is throttled: throttled.py CAPO BUILD. The driver's word on it is taken while the job stands,
and out of the logs when it is gone; where the GPU is as fast as the others, it is the host."""
import atexit
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile

from job import BUILD, CAPO, Job, check

NVML = os.path.join(BUILD, "tests/fragment/libnvidia-ml.so.1")
GPU = "gpu 00000000:%02X:00.0 GPU-%d\nclocks %s\n"
HOT, FINE = "345 1980 91 48", "1980 1980 60 0"
CALLS = 40
DRIVER = tempfile.mkdtemp(prefix="capo-driver-")
atexit.register(shutil.rmtree, DRIVER)
SAID = "; its GPU is throttled%s: 345 MHz, the others 1980, 91 C: slowed by the hardware%s, too hot (hardware)%s\n"


def driver(own, *whose):
    """GPUs of ranks 0 and 2 are fast, that of rank 1 is as @own says: to the job, or to who asks."""
    for who in whose:
        with open(DRIVER + "/new", "w") as f:
            f.write("".join(GPU % (r + 1, r, own if r == 1 else FINE) for r in range(3)))
        os.rename(DRIVER + "/new", DRIVER + "/" + who)


def script(late_ms):
    """Rank 1 comes late to every call, and then not at all."""
    lines = []
    for _ in range(CALLS):
        lines += ["1 sleep %d" % late_ms] + ["%d coll 0 allreduce 1000 7 0 0 0" % r for r in range(3)] + ["%d sync 0" % r for r in range(3)]
    lines += ["0 coll 0 allreduce 2000 7 0 0 0", "2 coll 0 allreduce 2000 7 0 0 0", "1 until ever", "1 coll 0 allreduce 2000 7 0 0 0"]
    return "\n".join(lines) + "\n"


def ask(words, here=True):
    """With the driver of the job, or without one."""
    env = {k: v for k, v in os.environ.items() if k != "CAPO_TEST_NVML"}
    if here:
        env.update(LD_LIBRARY_PATH=os.path.dirname(NVML), CAPO_TEST_NVML=DRIVER + "/asker")
    return subprocess.run([CAPO, *words], env=env, capture_output=True, text=True).stdout


def late(text):
    return [line for line in text.splitlines(True) if "rank 1 (" in line and " made the others wait " in line]


def cause(text, key):
    page = json.loads(text) if text.startswith("{") else {}
    return ([w["cause"] for w in page.get(key, []) if w["rank"] == 1] or [None])[0]


# how often the job looks is the machine's: a slow one takes the start of NCCL for a hang, too
SAID_THEN = re.compile(re.escape(SAID) % ("", r" in (\d+) of \1 samples", r" in \1 of \1 samples"))


def said_of_then(*words, here=True):
    return SAID_THEN.search("".join(late(ask(words, here))))


def jobs():
    """Until one is late by more than what a busy machine does to all of them; each stands when it is given."""
    for late_ms in 30, 300, 1000:
        job = Job(script(late_ms), 3, also=NVML, CAPO_HANG="2", CAPO_TRACE="all", CAPO_TEST_NVML=DRIVER + "/job")
        try:
            job.wait("hang", lambda: "RANK 1 IS MISSING from AllReduce #%d" % (CALLS + 1) in ask(["hang", str(job.ranks[0].pid)]))
            job.wait("look at the clocks", lambda: job.frames(0) and job.frames(1))
            yield job, str(job.ranks[0].pid)
        finally:
            job.end()


driver(HOT, "job", "asker")
found_late = False
with contextlib.closing(jobs()) as standing:
    for job, pid in standing:
        # of the living: what the driver says now goes before what it said then
        if not late(ask(["hang", pid])):
            continue
        found_late = True
        job.wait("page", lambda: SAID % (" now", "", "") in "".join(late(ask(["hang", pid]))))
        found = cause(ask(["hang", "--json", pid]), "late")
        check(found, found["by"] == "gpu" and found["throttled"] and found["clocks"]["now"] and found["clocks"]["mhz"] == 345 and
              found["clocks"]["reasons"] == {"hw_slowdown": 1, "hw_thermal": 1} and found["clocks"]["others_mhz"] == 1980)
        driver(FINE, "asker")
        job.wait("what the log has of then", lambda: said_of_then("hang", pid))
        job.wait("the same without a driver", lambda: said_of_then("hang", pid, here=False))
        for p in job.ranks:
            p.kill()
            p.wait()
        subprocess.run([CAPO, "recover", job.logs], capture_output=True)
        driver(HOT, "asker")  # the GPU of another job by now
        words = "report", "--wide", job.logs  # capo hang calls nobody late in a job that has ended
        check(ask(words), said_of_then(*words))
        check("no late rank", not late(ask(["hang", job.logs])))
        found = cause(ask(["report", "--json", job.logs]), "waits")
        check(found, found["by"] == "gpu" and found["throttled"] and not found["clocks"]["now"] and found["clocks"]["looks"] >= 1)
        break
check("a rank that is a second late is late", found_late)
print("throttled ok")

driver(FINE, "job", "asker")
with contextlib.closing(jobs()) as standing:
    for job, pid in standing:
        found = cause(ask(["hang", "--json", pid]), "late")
        check(found, not found or not found["throttled"] and found["clocks"]["mhz"] == 1980)
        check("page", "throttled" not in ask(["hang", pid]))
        if found and found["by"] == "host":
            break
check(found, found and found["by"] == "host")
print("host ok")
