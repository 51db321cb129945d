#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many bytes readings of the machine take in the log: frame_bytes.py CAPO BUILD. A node of 8 ranks and 8 NICs on which everything that
grows on a healthy node grows writes 2 KB with each reading at most. Two ranks are run: one that reads the node, and one of the seven others."""
import os
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from job import BUILD, CAPO, Job, check

NVML = os.path.join(BUILD, "tests/fragment/libnvidia-ml.so.1")
ZERO = ["counters/" + c for c in "symbol_error link_error_recovery link_downed port_rcv_errors port_xmit_discards".split()]
ZERO += ["hw_counters/" + c for c in "out_of_sequence packet_seq_err local_ack_timeout_err roce_adp_retrans rx_icrc_encapsulated".split()]
MARKS = ["hw_counters/" + c for c in "np_ecn_marked_roce_packets np_cnp_sent rp_cnp_handled".split()]


def files(k):
    """400 Gb/s in and out of each NIC for 10 s, after a year."""
    for i in range(8):
        port = "sys/class/infiniband/mlx5_%d/ports/1/" % i
        yield from ((port + "state", "4: ACTIVE"), (port + "rate", "400 Gb/sec (4X NDR)"))
        yield from ((port + c, 10**17 + k * 125 * 10**9) for c in ("counters/port_xmit_data", "counters/port_rcv_data"))
        yield from ((port + c, 10**10 + k * 12345) for c in MARKS + ["counters/port_xmit_wait"])
        yield from ((port + c, 0) for c in ZERO)
    for i in range(2):
        net = "sys/class/net/eth%d/" % i
        yield from ((net + c, 10**13 + k * 10**7) for c in ("statistics/rx_bytes", "statistics/tx_bytes"))
        yield from ((net + "carrier_down_count", 1), (net + "speed", 100000))
    yield "proc/net/snmp", "Tcp: RetransSegs OutSegs\nTcp: %d %d" % (31 + k, 10**9 + k * 10**5)
    yield "proc/stat", "cpu  1 2 3 %d 5 6 7 88 9 10" % (10**9 + k * 10**5)
    for what in "cpu", "memory", "io":
        yield "proc/pressure/" + what, "some avg10=1.00 avg60=2.00 avg300=3.00 total=%d" % (10**9 + k * 10**6)
    yield "driver", "".join("gpu 00000000:%02X:00.0 GPU-%d\nclocks %d 1980 %d 0\n" % (r + 1, r, 1900 + k % 50, 60 + k % 9) for r in range(8))


def write(root, k):
    for name, value in files(k):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            f.write("%s\n" % value)
        os.rename(path + ".new", path)


def sizes(job, rank):
    """Of each reading, without the text of stacks: that is written once."""
    text = subprocess.run([CAPO, "dump", job.log(rank)], capture_output=True, text=True).stdout if job.log(rank) else ""
    frames = re.findall(r"^\d+ MACHINE \d+\n((?:    .*\n)*)", text, re.M)
    lines = [[line[4:] for line in frame.splitlines() if not line.startswith("    stack\t")] for frame in frames]
    return [(any(line.startswith("#") for line in frame), sum(len(line) + 1 for line in frame)) for frame in lines]


with tempfile.TemporaryDirectory(prefix="capo-bytes-") as made:
    write(made, 0)
    os.symlink("/proc/self", made + "/proc/self")
    over = threading.Event()

    def tick():
        k = 0
        while not over.wait(0.2):
            k += 1
            write(made, k)

    ticks = threading.Thread(target=tick)
    ticks.start()
    job = Job("".join("%d coll 0 allreduce 1000 7 0 0 0\n%d sync 0\n%d until end\n" % (r, r, r) for r in range(2)), 2, also=NVML, CAPO_HANG="0",
              CAPO_MACHINE_ROOT=made, CAPO_TEST_NVML=made + "/driver")
    try:
        job.wait("logs", lambda: os.path.isdir(job.logs))
        job.wait("readings", lambda: all(sum(short for short, _ in sizes(job, r)) >= 4 for r in range(2)))
        seen = sorted(max(size for short, size in sizes(job, r)[2:] if short) for r in range(2))
        check("the reader of the node and another rank: %s" % seen, 200 < seen[1] and seen[1] + 7 * seen[0] <= 2048)
        job.go("end")
        check("it ends well", all(p.wait() == 0 for p in job.ranks))
    finally:
        over.set()
        ticks.join()
        job.end()
print("%d bytes of a node's reading" % (seen[1] + 7 * seen[0]))
