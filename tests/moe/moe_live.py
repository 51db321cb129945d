#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages beside report and hang of a job of NCCL EP: moe_live.py CAPO BUILD CASE

pages  top and the metrics while it runs, trace and diff after it: each has the calls of the EP group
trap   a rank does not come, and after NCCL_EP_TIMEOUT_MS the kernels end the processes: hang.txt is there before
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

capo, build, case = sys.argv[1:]
RANKS, LIMIT_S = 4, 150


def start(folder, name, way, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAPO_")}
    env.update(LD_LIBRARY_PATH=os.path.join(build, "tests", "standin"), SHARED=folder, IPATH_NO_BACKTRACE="1", **more)
    return subprocess.Popen([capo, "run", "--quiet", "--sample", "1", "--dir", os.path.join(folder, name), "--", os.path.join(build, "tests", "jobs", "launch"),
                             "-n", str(RANKS), "--", os.path.join(build, "tests", "moe", "app_moe"), way],
                            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")


def ask(*words):
    return subprocess.run([capo, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=LIMIT_S, check=False).stdout


def check(what, true):
    if not true:
        sys.exit("%s: %s" % (case, what))


def wait_for(what, asked):
    """Until @asked returns something, and then that."""
    end = time.monotonic() + LIMIT_S
    while True:
        found = asked()
        if found:
            return found
        check("no %s within %d s" % (what, LIMIT_S), time.monotonic() < end)
        time.sleep(0.2)


def has(pattern, *words):
    def asked():
        text = ask(*words)
        return text if re.search(pattern, text, re.S) else ""
    return asked


def pages(folder):
    job, logs = start(folder, "first", "live"), os.path.join(folder, "first")
    try:
        for call in "EpDispatch", "EpCombine":
            wait_for(call + " of the group in capo top", has(r"ep-ll\s+" + call, "top", "--once", "--dir", logs))
        wait_for("EpDispatch in the metrics", has(r'\ncapo_calls_total\{[^\n]*ep-ll[^\n]*EpDispatch[^\n]*\} [1-9]', "watch", "--once", "--hang", "0", "--dir", logs))
    finally:
        open(os.path.join(folder, "end"), "w").close()
        job.communicate(timeout=LIMIT_S)
    check("status %d" % job.returncode, job.returncode == 0)
    events = json.loads(ask("trace", logs))["traceEvents"]
    ranks = {e["pid"] for e in events if e["ph"] == "X" and e["name"].startswith("EpDispatch")}
    check("trace: ranks %s" % ranks, len(ranks) == RANKS)
    check("trace: no group", any("ep-ll" in str(e.get("args", {}).get("name")) for e in events if e["ph"] == "M"))
    job = start(folder, "second", "live")
    job.communicate(timeout=LIMIT_S)
    page = json.loads(ask("diff", "--json", logs, os.path.join(folder, "second")))
    check("diff: %s" % page, "EpDispatch" in json.dumps(page) and "EpCombine" in json.dumps(page))


def trap(folder):
    job, logs = start(folder, "logs", "trap", NCCL_EP_TIMEOUT_MS="20000"), os.path.join(folder, "logs")
    ended = None
    while ended is None and not glob.glob(os.path.join(logs, "**", "hang.txt"), recursive=True):
        time.sleep(0.1)
        ended = job.poll()
    check("the processes ended before hang.txt was there", ended is None)
    said = job.communicate(timeout=LIMIT_S)[0]
    check("no trap: %s" % said, "timeout, rank 3 did not come" in said and job.returncode != 0)
    with open(glob.glob(os.path.join(logs, "**", "hang.txt"), recursive=True)[0], encoding="utf-8") as f:
        text = f.read()
    check("hang.txt: %s" % text, "RANK 3 IS MISSING from EpDispatch" in text)
    report = ask("report", logs)
    check("report: %s" % report, "ranks 0-3: killed" in report or "exit status" in report)


with tempfile.TemporaryDirectory() as temporary:
    {"pages": pages, "trap": trap}[case](temporary)
