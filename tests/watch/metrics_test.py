#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `capo watch --once` writes of a job that stands still where the test wants it: metrics_test.py CAPO BUILD. Nothing here waits for time."""
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from exposition import of, read
from job import BUILD, CAPO, Job, check

CALLS = 20
SCRIPT = "".join("%d coll 0 allreduce %d 7 0 0 0\n" % (r, 4000 + k % 4) + "%d sync 0\n" % r * (k % 4 == 3) for k in range(CALLS) for r in range(2))
SCRIPT += "0 sync 0\n1 sync 0\n0 mark\n1 mark\n0 until end\n1 until end\n"


def watch(job, *words, status=0):
    out = subprocess.run([CAPO, "watch", "--once", "--dir", job.logs, *words], capture_output=True, text=True)
    check("status %d of %s: %s" % (out.returncode, words, out.stderr), out.returncode == status)
    return out.stdout if status == 0 else out.stderr


def names():
    """Of the families, and which are counters, from the list that the program is made of."""
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cli/watch/metrics.def")).read()
    return {m[1] + ("_total" if m[2] == "COUNTER" else "") for m in re.finditer(r'^METRIC\(\w+, "(\w+)", (\w+),', text, re.M)}


def same_as_json(job):
    """Another series may have come between the two, such as one of what is read of the machine."""
    lines = [json.loads(line) for line in watch(job, "--json").splitlines()]
    check("not below zero", lines and all(o["value"] >= 0 for o in lines))
    return {(o["metric"], tuple(o["tags"].items())) for o in lines} == set(read(watch(job)))


def check_files(job):
    folder = job.path("metrics")
    os.mkdir(folder)
    open(os.path.join(folder, "capo-%d-killed-%s.prom" % (os.geteuid(), os.uname().nodename)), "w").write("left by a killed watch\n")
    watch(job, "--metrics", folder)
    found = os.listdir(folder)
    check("one file, and what a killed watch left is gone: %s" % found, found == ["capo-%d-logs-%s.prom" % (os.geteuid(), os.uname().nodename)])
    path = os.path.join(folder, found[0])
    read(open(path).read())
    check("the exporter may read it", stat.S_IMODE(os.stat(path).st_mode) == 0o644)


def check_expected(job):
    """The share of what the links allow is there as soon as the machine is recorded beside the logs, and not before."""
    name = "capo_bus_bandwidth_expected_ratio"
    check("no machine", not of(read(watch(job)), name))
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fragment/data/standin-dgx1v.xml"), os.path.join(job.logs, "topology-one.xml"))
    text = watch(job)
    shares, bandwidths = of(read(text), name, call="AllReduce"), of(read(text), "capo_bus_bandwidth_bytes_per_second", call="AllReduce")
    # two GPUs of a DGX-1V with the stand-in's bus ids: 2 links of 25 GB/s
    check("share of the links: " + text, bandwidths and len(shares) == len(bandwidths))
    ceilings = {round(b / s / 1e9, 1) for s, b in zip(shares, bandwidths)}
    check("one ceiling: %s" % ceilings, len(ceilings) == 1 and 10 < ceilings.pop() < 60)
    top = subprocess.run([CAPO, "top", "--json", "--dir", job.logs], capture_output=True, text=True)
    check("capo top: " + top.stdout + top.stderr, '"reached"' in top.stdout)


def check_root():
    """Root sees the job of another user, with that user's rights."""
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if os.geteuid() or not shutil.which("setpriv") or subprocess.run([*other, "sh", "-c", 'exec "$0" --version', CAPO], capture_output=True).returncode:
        print("not root, or nobody else can run this build: root's watch is not tried")
        return
    theirs = Job("0 mark\n0 until end\n", 1, command=["sh", "-c", "chmod 755 FOLDER; chown -R 65534:65534 FOLDER; exec %s %s FOLDER/script" % (" ".join(other), os.path.join(BUILD, "tests/hang/player"))],
                 CAPO_HANG="0")
    try:
        theirs.wait("place", lambda: os.path.exists(theirs.path("script.place.0")))
        theirs.wait("a job of user 65534", lambda: of(read(watch(theirs)), "capo_ranks", state="alive") == [1])
        check("whose", {dict(l)["user"] for _, l in read(watch(theirs))} == {pwd.getpwuid(65534).pw_name})
        theirs.go("end")
        check("it ends well", theirs.ranks[0].wait() == 0)
    finally:
        theirs.end()


def check_setting():
    """CAPO_METRICS is --metrics of capo run."""
    run = "mkdir FOLDER/metrics; CAPO_METRICS=FOLDER/metrics exec %s run --quiet --dir FOLDER/logs -- %s FOLDER/script" % (CAPO, os.path.join(BUILD, "tests/hang/player"))
    job = Job("0 mark\n0 until end\n", 1, command=["sh", "-c", run])
    try:
        job.wait("metrics", lambda: os.path.isdir(job.path("metrics")) and os.listdir(job.path("metrics")))
        job.go("end")
        check("it ends well", job.ranks[0].wait() == 0)
    finally:
        job.end()


def check_refused(job):
    check("no folder", "expected a folder for metrics: No such file" in watch(job, "--metrics", job.path("none"), status=1))
    check("a file", "expected a folder, found a file" in watch(job, "--metrics", job.path("script"), status=1))
    check("no address", "expected HOST:PORT" in subprocess.run([CAPO, "watch", "--listen", "nowhere:x"], capture_output=True, text=True).stderr)
    nothing = job.path("nothing")
    os.mkdir(nothing)
    out = subprocess.run([CAPO, "watch", "--once", "--dir", nothing], capture_output=True, text=True)
    check("no job: %s" % out.stderr, out.returncode == 1 and "no process of yours here runs under capo" in out.stderr)


job = Job(SCRIPT, 2, CAPO_HANG="0")
try:
    job.wait("place", lambda: all(os.path.exists(job.path("script.place.%d" % r)) for r in range(2)))
    # the times of the last calls come when the GPU has been asked for them
    job.wait("times", lambda: of(read(watch(job)), "capo_call_seconds_count", call="AllReduce", clock="gpu") == [2 * CALLS])
    text = watch(job)
    series = read(text)
    check("calls: " + text, sum(of(series, "capo_calls_total", comm="world", call="AllReduce")) == 2 * CALLS)
    check("bytes", sum(of(series, "capo_message_bytes_total", call="AllReduce")) == 2 * 4 * sum(4000 + k % 4 for k in range(CALLS)))
    check("help: steps left out", "# HELP capo_step_seconds " in text and "such as an evaluation, are left out" in text)
    check("steps: " + text, of(series, "capo_failed_calls_total") == [0] and of(series, "capo_steps_total") == [CALLS // 4] and len(of(series, "capo_step_seconds")) == 2)
    check("ranks", of(series, "capo_ranks", state="alive") == [2] and len(of(series, "capo_oldest_call_age_seconds")) == 2)
    check("one verdict holds", sum(of(series, "capo_hang_verdict")) == 1 and
          [1] in (of(series, "capo_hang_verdict", verdict=v) for v in ("healthy", "undecided")))  # undecided: no call for a while
    check("labels", all([n for n, _ in l][:3] == ["job_id", "user", "node"] for _, l in series))
    of_list = names()
    used = {n for n, _ in series}
    check("all are in the list: %s" % (used - of_list), all(n in of_list or re.sub("_(bucket|sum|count)$", "", n) in of_list for n in used))
    job.wait("the same as JSON", lambda: same_as_json(job))
    inspected = read(watch(job, "--style", "inspector"))
    check("as Inspector: %s" % inspected, of(inspected, "nccl_collective_exec_time_microseconds", collective="AllReduce", nranks=2, gpu="all"))
    check_files(job)
    check_expected(job)
    check_refused(job)
    job.go("end")
    check("it ends well", all(p.wait() == 0 for p in job.ranks))
    check("gone", "no process of yours here runs under capo" in watch(job, status=1))
finally:
    job.end()
check_setting()
check_root()
print("ok")
