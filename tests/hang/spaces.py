#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks in pid namespaces of their own that share /dev/shm, as containers with the host's IPC do: spaces.py CAPO BUILD.

Each is process 1 of its namespace, and what has that number here is another process: two processes of one number are two, and
nothing of the stranger is printed, neither of this process 1 nor of one that is stopped here.
"""
import json
import os
import shutil
import signal
import subprocess
import sys

sys.argv[1:3] = map(os.path.abspath, sys.argv[1:3])
from job import Job, check  # noqa: E402

CAPO = sys.argv[1]
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child"]
SCRIPT = "0 coll 0 allreduce 1000 7 0 0 0\n1 mark\n1 until ever\n1 coll 0 allreduce 1000 7 0 0 0\n0 mark\n0 sync 0\n1 sync 0\n"


if not shutil.which("unshare") or subprocess.run(UNSHARE + ["true"], capture_output=True).returncode:
    print("no pid namespace can be made here")
    sys.exit(77)
job = Job(SCRIPT, 2, UNSHARE + [os.path.join(sys.argv[2], "tests/hang/player"), "FOLDER/script"], CAPO_HANG="0", FI_PROVIDER="tcp;ofi_rxm")
try:
    job.wait("place", lambda: all(os.path.exists(job.path("script.place.%d" % r)) for r in range(2)))

    def page(*more):
        out = subprocess.run([CAPO, "hang", "--json", "--after", "0.1", *more, job.logs], capture_output=True, text=True)
        check((out.returncode, out.stdout, out.stderr), out.returncode in (0, 1, 3) and out.stdout.startswith("{"))
        return json.loads(out.stdout)

    job.wait("verdict", lambda: page()["verdict"] == "missing")
    who = page("--stacks")["culprits"]
    check(who, len(who) == 1 and who[0]["rank"] == 1 and who[0]["pid"] == 1 and who[0]["why"] == "host")
    check(who, not who[0]["threads"] and not who[0]["python"])
    text = subprocess.run([CAPO, "hang", "--stacks", "--after", "0.1", job.logs], capture_output=True, text=True).stdout
    check(text, "RANK 1 IS MISSING" in text and "    alive; last in a call at " in text and "thread" not in text)
finally:
    for p in job.ranks:  # what it has started, which it waits for: so nobody holds its recording memory when that is asked for
        with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
            for rank in f.read().split():
                os.kill(int(rank), signal.SIGKILL)
        p.wait()
    job.end()
print("ok")
