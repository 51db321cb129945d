#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causes while a job lives: alarm.py CAPO BUILD. Packets are lost while a rank stays away: hang.txt, the alarm of capo watch and JSON say it.
A rank comes late to each call, because it sleeps: capo top names the cause in a column. The steps of all ranks take longer since
their port is slower: capo hang and the metrics say by how much."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from job import CAPO, Job, check

PORT = "sys/class/infiniband/mlx5_1/ports/1/"
LOST = "packets are lost or damaged on "
PORTS = ": mlx5_1/1: packet_seq_err +4,830 "


def write(root, **counters):
    for name, value in counters.items():
        path = os.path.join(root, PORT, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            f.write(value + "\n")
        os.rename(path + ".new", path)


def frames(job, word):
    return all(job.log(r) for r in range(2)) and any(word in subprocess.run([CAPO, "dump", job.log(r)], capture_output=True, text=True).stdout
                                                      for r in range(2))


def stuck(root):
    """The packets are lost after the first reading; the stall is what asks for the next one."""
    write(root, state="4: ACTIVE", rate="400 Gb/sec", hw_counters__packet_seq_err="17")
    script = "".join("%d coll 0 allreduce 1000 7 0 0 0\n%d sync 0\n" % (r, r) for r in range(2))
    script += "0 mark\n1 mark\n0 until go\n1 until go\n0 coll 0 allreduce 1000 7 0 0 0\n1 until end\n1 coll 0 allreduce 1000 7 0 0 0\n0 sync 0\n1 sync 0\n"
    job = Job(script, 2, CAPO_HANG="2", CAPO_MACHINE_ROOT=root, CAPO_MACHINE_SAMPLES="0")
    try:
        job.wait("first reading", lambda: os.path.isdir(job.logs) and len(os.listdir(job.logs)) >= 2 and frames(job, "packet_seq_err=17"))
        write(root, hw_counters__packet_seq_err="4847")
        job.go("go")
        job.wait("second reading", lambda: frames(job, "+4830"))
        job.watch(2)
        job.wait("alarm", lambda: re.search("RANK 1 IS MISSING.*\n", job.read("watch.stderr")))  # behind hang.txt and hang.json
        text = job.read("logs/hang.txt")
        said = re.findall("\n  machine: .*", text)  # of a busy machine it may say three other things
        check(text, len(said) == 3 or any(LOST in line and PORTS in line for line in said))
        alarm = [line for line in job.read("watch.stderr").splitlines() if "RANK 1 IS MISSING" in line]
        check(job.read("watch.stderr"), len(alarm) == 1 and "; machine: " in alarm[0])  # on a busy machine it may have more to say
        seen = json.loads(job.read("logs/hang.json"))["machine"]
        check(seen, [s for s in seen if s["kind"] == "nic_errors" and PORTS in s["text"]])
        job.go("end")
        check("it ends well", all(p.wait() == 0 for p in job.ranks))
    finally:
        job.end()


def top(job, *words):
    return subprocess.run([CAPO, "top", "--dir", job.logs, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def steps(n, ms, *sleepers):
    return "".join("%d sleep %d\n" % (r, ms) for r in sleepers) + "".join("%d coll 0 allreduce 1000 7 0 0 0\n%d sync 0\n" % (r, r) for r in range(2)) \
        if n == 1 else steps(1, ms, *sleepers) * n


def late():
    """The steps go on until both pages have been seen: top knows the last seconds, and a loaded machine is slow to ask."""
    job = Job(steps(6000, 100, 1), 2, CAPO_HANG="0", CAPO_TRACE="all")
    try:
        job.wait("cause in the page", lambda: " rank 1: its program\n" in top(job, "--once", "--wide"))
        job.wait("cause for programs", lambda: [r["late"] for j in json.loads(top(job, "--json"))["jobs"] for r in j["rows"]
                                                if r["call"] == "AllReduce"] == ["rank 1: its program"])
        check("it runs on", all(p.poll() is None for p in job.ranks))
    finally:
        job.end()


def calls(job):
    return max(map(int, re.findall(r'"calls": *(\d+)', top(job, "--json"))), default=0)


def change(root):
    """All ranks are slower since their node's port is: steps are compared with those before."""
    write(root, state="4: ACTIVE", rate="400 Gb/sec")
    script = steps(120, 20, 0, 1) + "0 until go\n1 until go\n" + steps(50, 120, 0, 1) + "0 until end\n1 until end\n"
    job = Job(script, 2, CAPO_HANG="0", CAPO_TRACE="all", CAPO_MACHINE_ROOT=root)
    ratio = r'^capo_steps_longer_ratio\{.*cause="nic_rate"\} \d'
    line = r"  machine: steps take \d[.\d]* % longer since \d\d:\d\d:\d\d: a network port of \S+ runs at 100 Gb/s instead of 400 as before"
    try:
        job.wait("first rate", lambda: os.path.isdir(job.logs) and len(os.listdir(job.logs)) >= 2 and frames(job, "rate=400"))
        job.wait("first steps", lambda: calls(job) >= 240)
        job.go("go")
        job.wait("slower steps", lambda: calls(job) >= 260)  # no reading of the new rate before
        write(root, rate="100 Gb/sec")
        job.wait("metric", lambda: re.search(ratio, subprocess.run([CAPO, "watch", "--once", "--dir", job.logs], capture_output=True, text=True).stdout, re.M))
        job.wait("line of capo hang", lambda: re.search(line, subprocess.run([CAPO, "hang", job.logs], capture_output=True, text=True).stdout))
        job.go("end")
        check("it ends well", all(p.wait() == 0 for p in job.ranks))
    finally:
        job.end()


late()
for part in change, stuck:
    with tempfile.TemporaryDirectory(prefix="capo-alarm-") as made:
        part(made)
print("ok")
