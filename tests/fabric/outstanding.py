#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the log says is outstanding on a queue, for queues of each sort, and what a killed process leaves.

usage: outstanding.py CAPO LIBCAPO.SO POSTS
"""
import os
import re
import subprocess
import sys
import tempfile

from checks import check, done, forget_shm, report, skip

capo, libcapo, posts = (os.path.abspath(p) for p in sys.argv[1:4])


def preloaded(logs):
    return {**os.environ, "LD_PRELOAD": libcapo, "CAPO_DIR": logs, "CAPO_QUIET": "1"}


# ---- killed: all but the last moments is left ------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    p = subprocess.Popen([posts, "shm", "100"], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = []
    for line in p.stdout:
        said.append(line.decode().split())
        if float(said[-1][3]) > 1.5:
            p.kill()
    status = p.wait()
    forget_shm(p.pid)
    if status == 77:
        skip("killed", "no shm provider")
    else:
        page = report(capo, logs)
        known = [int(word[1]) for word in said if float(word[3]) < float(said[-1][3]) - 0.8]
        check("killed: counted until shortly before", page["fabric"] and known and
              sum(o["count"] for k, o in page["fabric"][0]["ops"].items() if k in ("tsend", "inject")) >= known[-1], (page["fabric"], said))

# ---- outstanding: known, except where nothing tells sends' completions from receives' --------------------------------

for provider, *queues in (("shm",), ("tcp;ofi_rxm", "one"), ("shm", "writes"), ("shm", "context")):
    case = " ".join((provider, *queues))
    with tempfile.TemporaryDirectory() as logs:
        p = subprocess.run([posts, provider, "1", *queues], env=preloaded(logs), capture_output=True, text=True, timeout=60)
        if p.returncode == 77:
            skip(case, "no such provider here")
            continue
        log = [name for name in os.listdir(logs) if name.endswith(".capo")]
        dump = subprocess.run([capo, "dump", os.path.join(logs, log[0])], capture_output=True, text=True, timeout=60).stdout
    last = dump[dump.rfind("snapshot\t"):]
    sends = re.findall(r"\bep\t.*\btx_cq=(\d+)", last)
    lines = [line for line in re.findall(r"\bcq\t(.*)", last) if sends and line.startswith("id=" + sends[0])]
    check("%s: when it was counted" % case, re.search(r"\blooked\tat=\d+", last), last)
    check("%s: %s" % (case, "not known" if queues == ["context"] else "known"),
          len(lines) == 1 and ("unsure=1" in lines[0]) == (queues == ["context"]), last)

done()
