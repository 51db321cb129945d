#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What recording adds to a process: /dev/shm and resident memory, and what it is made of. usage: memory.sh BUILD [THREADS...]
exec python3 - "$@" <<'PYTHON'
import os
import re
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
counts = [int(n) for n in sys.argv[2:]] or [1, 8, 128]
TURNS = int(os.environ.get("CAPO_BENCH_TURNS", "3"))
JOB = """
import ctypes, sys, threading, time
nccl = ctypes.CDLL(sys.argv[1])
comms = (ctypes.c_void_p * 1)()
assert nccl.ncclCommInitAll(comms, 1, None) == 0
def call(n):
    for _ in range(n):
        assert nccl.ncclAllReduce(None, None, ctypes.c_size_t(64), 7, 0, ctypes.c_void_p(comms[0]), None) == 0
stay = threading.Event()
def run():
    call(20)
    stay.wait()
for _ in range(int(sys.argv[2]) - 1):
    threading.Thread(target=run, daemon=True).start()
call(20)
time.sleep(2)
print("ready", flush=True)
sys.stdin.readline()
"""


def kinds(pid):
    """Resident KB: of the segment, of memory that is this process's alone, of files that others share."""
    found, path = {"segment": 0, "own": 0, "files": 0}, ""
    for line in open("/proc/%d/smaps" % pid):
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \d+\s*(.*)", line)
        if head:
            path = head.group(2)
        elif line.startswith(("Rss:", "Private_Dirty:")):
            word, kb = line.split()[:2]
            if "/dev/shm/capo-" in path:
                found["segment"] += int(kb) if word == "Rss:" else 0
            else:
                found["files"] += int(kb) if word == "Rss:" else -int(kb)
                found["own"] += int(kb) if word == "Private_Dirty:" else 0
    return found


def measure(threads, record):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAPO_")}
    with tempfile.TemporaryDirectory(prefix="capo-bench-memory-") as folder:
        if record:
            env.update(LD_PRELOAD=build + "/shim/libcapo.so", CAPO_DIR=folder)
        job = subprocess.Popen([sys.executable, "-c", JOB, build + "/tests/preload/fake/libnccl.so.2", str(threads)], env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        assert job.stdout.readline() == "ready\n"
        found = kinds(job.pid)
        found["/dev/shm"] = sum(os.stat("/dev/shm/" + n).st_blocks // 2 for n in os.listdir("/dev/shm") if n.startswith("capo-%d-%d-" % (os.getuid(), job.pid)))
        job.communicate("")
        return found


print("%-8s %9s %9s   %s" % ("threads", "/dev/shm", "resident", "KB, medians of %d; resident: added to the same program without capo" % TURNS))
for n in counts:
    def middle(runs):
        return {k: sorted(r.get(k, 0) for r in runs)[TURNS // 2] for k in {k for r in runs for k in r}}

    def whole(run):
        return sum(v for k, v in run.items() if k != "/dev/shm")
    pairs = [(measure(n, False), measure(n, True)) for _ in range(TURNS)]
    bare, with_capo = middle([p[0] for p in pairs]), middle([p[1] for p in pairs])
    added = {k: with_capo.get(k, 0) - bare.get(k, 0) for k in with_capo if k != "/dev/shm"}
    each = sorted(whole(p[1]) - whole(bare) for p in pairs)
    print("%-8d %9d %+9d   %s; %+d to %+d" % (n, with_capo["/dev/shm"], sum(added.values()), ", ".join("%s %+d" % kv for kv in sorted(added.items())), each[0], each[-1]))
PYTHON
