#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the recorder reads of the machine: readings.py BUILD. Two ranks on the stand-in, a made /sys and /proc, a made NVML. Checks that
what is there is in the log, that what is not there is not zero, and that each setting does what it says."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
JOB = [BUILD + "/tests/jobs/launch", "-n", "2", "--timeout", "600", "--", BUILD + "/tests/jobs/ddp_train", "--epochs"]
FILES = {
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err": "17\n",
    "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "not a number\n",
    "sys/class/net/eth9/statistics/rx_dropped": "18446744073709551615\n",
    "sys/class/net/eth9/speed": "-1\n",
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/job/cpu.stat": "usage_usec 9\nnr_periods 50\nnr_throttled 40\nthrottled_usec 123456\n",
    "sys/fs/cgroup/job/cpu.max": "15000 100000\n",
    "sys/fs/cgroup/job/memory.events": "low 0\nhigh 3\nmax 7\noom 0\noom_kill 1\n",
    "proc/self/stat": "1 (a ) b) S 1 2 3 4 5 6 7 8 101 11 102 103 14\n",
    "proc/net/snmp": "Tcp: RtoMin RetransSegs OutSegs\nTcp: 5 31 1000\n",
    "proc/net/netstat": "TcpExt: TW TCPTimeouts\nTcpExt: 1 6\n",
    "proc/pressure/cpu": "some avg10=1.00 avg60=2.00 avg300=3.00 total=777\nfull avg10=0 avg60=0 avg300=0 total=1\n",
    "proc/stat": "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 0 0 0 0 0 0 0 0 0 0\n",
}
FILES.update(("sys/class/infiniband/mlx5_%d/ports/1/hw_counters/packet_seq_err" % i, "%d\n" % i) for i in range(1, 64))
WANT = {
    "process -": "cpu.user=102 cpu.system=103 faults.major=101 cpu.limit=150 cpu.periods=50 cpu.throttled_periods=40 cpu.throttled=123456 "
                 "memory.max=7 memory.high=3 memory.oom_kill=1",
    "node -": "pressure.cpu=777 cpu.idle=4 cpu.steal=88 tcp.sent=1000 tcp.retransmitted=31 tcp.timeouts=6",
    "nic mlx5_0/1": "state=4 rate=400 packet_seq_err=17",
    "netif eth9": "rx_dropped=18446744073709551615",
}


def run(epochs=30, kind="MACHINE", trace=None, keep=None, **settings):
    with tempfile.TemporaryDirectory(prefix="capo-readings-") as logs:
        env = {**os.environ, "CAPO_DIR": logs, "LD_PRELOAD": BUILD + "/shim/libcapo.so", "CAPO_CONF": "none", **settings}
        subprocess.run([*JOB, str(epochs)], env=env, check=True, stdout=subprocess.DEVNULL)
        dumps = [subprocess.run([BUILD + "/cli/capo", "dump", os.path.join(logs, log)], capture_output=True, text=True, check=True).stdout
                 for log in sorted(os.listdir(logs)) if log.endswith(".capo")]
        if trace is not None:
            done = subprocess.run([BUILD + "/cli/capo", "trace", logs], capture_output=True, check=True)
            trace += [e for e in json.loads(done.stdout)["traceEvents"] if e["ph"] == "C"]
        if keep is not None:
            shutil.copytree(logs, keep)
    assert len(dumps) == 2, dumps
    return ["".join(re.findall(rf"^\d+ {kind} \d+\n((?:    .*\n)*)", dump, re.M)) for dump in dumps]


with tempfile.TemporaryDirectory(prefix="capo-root-") as root:
    for name, text in FILES.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    counters = []
    frames = run(CAPO_MACHINE_ROOT=root, trace=counters, keep=root + "/before")
    with open(root + "/sys/class/infiniband/mlx5_0/ports/1/rate", "w") as f:
        f.write("100 Gb/sec (1X NDR)\n")
    run(CAPO_MACHINE_ROOT=root, keep=root + "/after")
    diff = subprocess.run([BUILD + "/cli/capo", "diff", "--wide", root + "/before", root + "/after"], capture_output=True, text=True).stdout
    assert "nic mlx5_0/1 of" in diff and "rate 100 Gbit/s instead of 400" in diff, diff
    assert 400 in [e["args"]["value"] for e in counters if e["name"] == "nic mlx5_0/1 rate Gbit/s"], counters
    nodes = [text for text in frames if "\n    node\t-" in text]
    assert nodes, frames  # one process of the node reads what is the node's; another one when it has ended
    nics = set(re.findall(r"\n    nic\tmlx5_(\d+)/1\t#\d+\t.*\d+:packet_seq_err=", nodes[0]))
    assert len(nics) == 64, sorted(nics)
    for what, readings in WANT.items():
        lines = [line.split("\t") for line in (frames[0] if what.startswith("process") else nodes[0]).splitlines()]
        got = {re.sub(r"^\d+:", "", word) for line in lines if line[0].strip() + " " + line[1] == what for word in line[3:]}
        missing = set(readings.split()) - got
        assert not missing, (what, missing, got)
        assert not [word for word in got if word.startswith(("out_of_sequence", "speed", "memory.stall"))], got

with tempfile.TemporaryDirectory(prefix="capo-clocks-") as root:
    for name, mhz in (("before", 1980), ("after", 1410)):
        with open(root + "/nvml", "w") as f:
            f.writelines("gpu 00000000:%02X:00.0 GPU-%d\nclocks %d 1980 60 0\n" % (r + 1, r, mhz if r == 1 else 1980) for r in range(2))
        run(LD_PRELOAD=f"{BUILD}/shim/libcapo.so:{BUILD}/tests/fragment/libnvidia-ml.so.1", CAPO_TEST_NVML=root + "/nvml", keep=f"{root}/{name}")
    diff = [subprocess.run([BUILD + "/cli/capo", "diff", "--wide", root + "/before", root + "/" + name], capture_output=True, text=True).stdout
            for name in ("after", "before")]
    assert re.search(r"GPU 1:\S+ of \S+: sm 1410 MHz instead of 1980\n", diff[0]) and "MHz" not in diff[1] and "GPU 0:" not in diff[0], diff

epochs = 100
frames = run(epochs)
while not all("samples" in text for text in frames) and epochs < 100000:  # a process that lives shortly is not sampled
    epochs *= 4
    frames = run(epochs)
assert all(re.search(r"\n    thread\t\d+:calls:\S+\t#\d+\t\d+:run=\d+\t\d+:wait=\d+\t\d+:cpus=\d+", text) for text in frames), frames
assert all(re.search(r"\n    samples\t\d+\t\d+\t100000000\t\d+\n", text) for text in frames), frames
assert not any("samples" in text for text in run(epochs, CAPO_MACHINE_SAMPLES="0"))
assert run(epochs, CAPO_MACHINE="0") == ["", ""]
with tempfile.TemporaryDirectory(prefix="capo-beside-") as folder:  # a library that is loaded by this name, and of no other use
    library = os.path.join(folder, "libnvshmem_host.so.3")
    subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    infos = run(epochs, kind="INFO", LD_PRELOAD=f"{BUILD}/shim/libcapo.so:{library}")
    assert all("libraries.beside\tNVSHMEM" in text for text in infos), infos
    assert not any("libraries.beside" in text for text in run(epochs, kind="INFO"))
print("readings ok")
