#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the network last did of ranks whose GPU does not end a call: network.py CAPO BUILD STALLED PROVIDER. Rank 1's NIC completes nothing any more."""
import json
import os
import re
import subprocess
import sys

from job import CAPO, Job, check

AT = r"\d\d:\d\d:\d\d"


def hang(*words):
    return subprocess.run([CAPO, "hang", "--after", "1", *words], capture_output=True, text=True).stdout


def is_complete(page):
    """Of rank 1 what is outstanding, of rank 0 that nothing is, of both the stream; and who it is in one line."""
    parts = re.split(r"^  rank (\d): ", page, flags=re.M)  # in any order
    one, zero = (parts[parts.index(rank) + 1] if rank in parts else "" for rank in "10")
    return (re.search("NOT ENDED ON THE GPU of RANKS (0, 1|1, 0): AllReduce #2", page) and
            re.search(r"network fake0-rdm: 5 operations posted and not completed, the last completion %s, .* ago\n" % AT, one) and
            re.search(r"network fake0-rdm: nothing posted to leave is outstanding, the last completion %s, .* ago\n" % AT, zero) and
            re.search(r"on its GPU: AllReduce #2 of world, stream [0-9a-f]+, handed over %s\n" % AT, zero) and
            "the network does not complete what these have posted: rank 1 (fake0-rdm: 5); 2 ranks used it\n" in page)


def whole(text):
    page = json.loads(text)
    by_rank = {c["rank"]: c for c in page["culprits"]}
    nics = {r: [n for n in c["network"] if n["name"] == "fake0-rdm"] for r, c in by_rank.items()}
    return (page["verdict"] == "running" and sorted(by_rank) == [0, 1] and [len(n) for n in nics.values()] == [1, 1] and
            nics[1][0]["outstanding"] == 5 and nics[0][0]["outstanding"] == 0 and
            1e9 < nics[1][0]["completed"] <= by_rank[1]["network_at"] and nics[1][0]["receives"] == nics[1][0]["errors"] == 0 and
            [s["call"]["number"] for s in by_rank[1]["streams"]] == [2] and by_rank[1]["streams"][0]["since"] > 1e9)


def as_from_elsewhere():
    """The logs as they are now, and no process to look at."""
    return is_complete(hang(job.copy()))


job = Job("", 2, [os.path.abspath(sys.argv[3]), "FOLDER"], CAPO_HANG="2",
          FI_PROVIDER_PATH=os.path.dirname(os.path.abspath(sys.argv[4])))
job.watch(2)
pid = str(job.ranks[0].pid)
try:
    job.wait("verdict of the living", lambda: is_complete(hang(pid)))
    job.wait("the same for programs", lambda: whole(hang("--json", pid)))
    job.wait("the watch's", lambda: re.search("NOT ENDED ON THE GPU .*network fake0-rdm: .*NEXT", job.read("logs/hang.txt"), re.S))
    job.wait("the same of logs alone", as_from_elsewhere)
    os.close(os.open(job.path("free"), os.O_CREAT))
    check("it ends well: %s" % [job.read("stderr.%d" % r) for r in range(2)], all(p.wait() == 0 for p in job.ranks))
finally:
    job.end()
print("ok")
