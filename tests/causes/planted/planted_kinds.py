# SPDX-License-Identifier: Apache-2.0
"""The kinds: each function plans one job and its truth from a seed. Nothing here knows capo.

Names of causes, as truth and judge use them:
  cpu-limit cpu-contention one-cpu starved-thread files checkpoint gc stopped memory tcp-loss
  nic-errors nic-congestion nic-rate gpu-throttled pcie-width nvlink-errors host-code
host-code: what the host's own code did (sleep, compute), no fault of the machine."""
import glob
import os
import random
import signal
import sys

from planted_means import FAMILIES, Counter, MadeNvml, MadeSys, Missing, Nic, Text

KINDS = {}
RANKS = 4
MACHINE = ("cpu-limit", "cpu-contention", "one-cpu", "starved-thread", "files", "checkpoint", "gc",
           "stopped", "memory", "tcp-loss", "nic-errors", "nic-congestion", "nic-rate",
           "gpu-throttled", "pcie-width", "nvlink-errors")
FABRIC = ("nic-errors", "nic-congestion", "nic-rate", "tcp-loss")
GPU = ("gpu-throttled", "pcie-width", "nvlink-errors")


class Scenario:
    def __init__(self, kind, seed, half, seconds):
        self.kind, self.seed, self.seconds, self.half = kind, seed, seconds, half
        self.name = "%s-%d" % (kind, seed)
        self.rng = random.Random("%s %s %d" % (half["name"], kind, seed))
        self.scale = seconds / 10
        job = dict(self.rng.choice(half["jobs"]))
        self.lang, self.python = job.pop("lang"), None
        self.job = job
        self.nodes, self.group = [0] * RANKS, None
        self.env, self.env_of, self.prefix_of, self.cgroups_of = {}, {}, {}, {}
        self.plan, self.events, self.preparing = [], [], []
        self.stays = {}  # controller -> (rank, [folder]): the rank is there to the end
        self.late = None        # rank, via, expected ms a turn
        self.causes = []        # what is planted and costs time
        self.present = []       # what is planted and costs nothing (here)
        self.also, self.never, self.never_text = [], [], []
        self.says = ""
        low, high = half["begin"]
        self.begin = round(self.rng.uniform(low, high) * self.scale, 2)
        self.end = round(self.begin + self.rng.uniform(*half["length"]) * self.scale, 2)
        self.rank = self.rng.randrange(RANKS)

    def nth(self, options):
        """Structure is not left to chance: consecutive seeds go through the options."""
        return options[(self.seed + self.half["offset"]) % len(options)]

    @property
    def window(self):
        return "@ %g %g" % (self.begin, self.end)

    def say(self, rank, what, *args):
        self.plan.append("%s %s %s" % (rank, what, " ".join(str(a) for a in args)))

    def base(self, burn=None, sleep=None):
        """What every rank does each turn: half of its sleep before and half behind its work."""
        self.plan.insert(0, "* calls %d %d" % (self.job["count"], self.job["calls"]))
        if self.job.get("second"):
            self.plan.insert(0, "* second %g" % self.job["second"])
        self.say("*", "sleep", self.job["sleep"] if sleep is None else sleep)
        self.say("*", "burn", self.job["burn"] if burn is None else burn)

    def at(self, second, what, *args):
        self.events.append((second, what, *args))

    def prepare(self, means):
        for step in self.preparing:
            step(means)

    def cause(self, kind, rank=None, via="host", window=None, **more):
        """Plants count as: @rank is late because of @kind (rank None: calls are slow for all)."""
        self.causes.append(dict(kind=kind, rank=rank, node=None if rank is None else self.nodes[rank],
                                via=via, window_s=window or [self.begin, self.end], **more))

    def forbid(self, kinds, ranks="any", why=""):
        kinds = [kinds] if isinstance(kinds, str) else kinds
        self.never += [dict(kind=k, ranks=ranks, why=why) for k in kinds]

    def only_these(self):
        """Every cause that is not planted (or also right) would be false."""
        right = {c["kind"] for c in self.causes} | set(self.also)
        self.forbid([k for k in MACHINE if k not in right], "any", "not planted")
        if not right & {"network", "starved-thread", *FABRIC}:
            self.forbid("network", "any", "not planted")
        if not right & {"gpu", "starved-thread", *GPU}:
            self.forbid("gpu", "any", "not planted")

    def truth(self):
        return {"name": self.name, "kind": self.kind, "seed": self.seed, "half": self.half["name"],
                "says": self.says, "seconds": self.seconds, "lang": self.lang,
                "python": self.python or ("%d.%d" % sys.version_info[:2]), "job": self.job,
                "nodes": self.nodes, "group": self.group, "plan": self.plan, "causes": self.causes,
                "present": self.present, "late": self.late, "also": self.also, "never": self.never,
                "never_text": self.never_text}


def kind(name):
    def add(fn):
        KINDS[name] = fn
        return fn
    return add


def make(name, seed, half, seconds):
    s = Scenario(name, seed, half, seconds)
    KINDS[name](s)
    if not any(f["why"] == "not planted" for f in s.never):
        s.only_these()
    return s


def late(s, rank, via, least_s, window=None):
    """@rank is last in most turns of the window and costs at least @least_s seconds there."""
    s.late = dict(rank=rank, via=via, least_s=round(least_s * s.scale, 3),
                  window_s=window or [s.begin, s.end])


def other_than(s, *ranks):
    return s.rng.choice([r for r in range(RANKS) if r not in ranks])


# ---------------------------------------------------------------- without a seam

@kind("cpu-limit")
def cpu_limit(s):
    percent = s.rng.choice([4, 5, 6])
    burn = s.rng.choice([5, 6, 7])
    whole = s.nth([False, True, False])
    s.base(burn=burn)
    if whole:
        s.begin, s.end = 0, s.seconds
    s.says = "rank %d has a CPU limit of %d %%%s" % (s.rank, percent,
                                                    " all the time" if whole else " for a while")
    folder = []

    def prepare(means):
        folder.append(means.cgroup("cpu", "limit"))
        means.quota(folder[0], percent if whole else None)
        s.cgroups_of[s.rank] = list(folder)
        s.at(0, lambda: means.note("cpu.stat at t0", folder[0] + "/cpu.stat"))
        if not whole:
            s.at(s.begin, lambda: means.quota(folder[0], percent))
            s.at(s.end, lambda: means.quota(folder[0], None))
        s.at(s.seconds - 0.1, lambda: means.note("cpu.stat", folder[0] + "/cpu.stat"))
    s.preparing.append(prepare)
    s.stays["cpu"] = (s.rank, folder)
    s.cause("cpu-limit", s.rank, percent=percent)
    late(s, s.rank, "host", 0.6)
    s.also = ["host-code"]


@kind("cpu-contention")
def cpu_contention(s):
    cpu, n = s.rng.randrange(os.cpu_count()), s.rng.choice([5, 6, 7])
    s.end = min(s.end, s.begin + 4)
    s.base(burn=s.rng.choice([5, 6, 8]))
    s.say(s.rank, "pin", cpu)
    s.says = "%d busy processes on the CPU of rank %d" % (n, s.rank)

    def prepare(means):
        s.at(s.begin, lambda: means.occupy(cpu, n))
        s.at(s.end, means.release)
    s.preparing.append(prepare)
    s.cause("cpu-contention", s.rank, cpu=cpu, processes=n)
    late(s, s.rank, "host", 0.4)
    s.also = ["host-code", "starved-thread", "one-cpu"]  # the rank is on one CPU, with others


@kind("one-cpu")
def one_cpu(s):
    cpu = s.rng.randrange(os.cpu_count())
    n = s.nth([10, 14, 12])
    s.end = min(s.end, s.begin + 4)
    s.base(burn=s.rng.choice([4, 5, 6]))
    for r in range(RANKS):
        s.say(r, "workers", n, *([6, 0.5, s.window] if r == s.rank else [0.1, 80, s.window]))
    s.prefix_of[s.rank] = ["taskset", "-c", str(cpu)]
    s.says = "all threads of rank %d are on CPU %d, where %d of its own are busy for a while" % (
        s.rank, cpu, n)
    s.cause("one-cpu", s.rank, cpu=cpu)
    late(s, s.rank, "host", 0.25)
    s.also = ["host-code", "cpu-contention", "starved-thread"]


@kind("starved-thread")
def starved_thread(s):
    cpu, n = s.rng.randrange(os.cpu_count()), s.rng.choice([6, 7, 8])
    s.end = min(s.end, s.begin + 4)
    moves_data = s.nth([False, True])
    s.base()
    if moves_data:
        s.say(s.rank, "namestream", cpu)
        s.job["count"], s.job["calls"] = 1048576, 1
        s.plan = ["* calls %d %d" % (s.job["count"], s.job["calls"]) if " calls " in p else p
                  for p in s.plan]
    else:
        s.say("*", "network", 7)
        s.say(s.rank, "pinnet", cpu)
    s.says = "the thread NCCL Progress of rank %d waits for a CPU with %d busy processes%s" % (
        s.rank, n, "; it moves the data" if moves_data else "")

    def prepare(means):
        s.at(s.begin, lambda: means.occupy(cpu, n))
        s.at(s.end, means.release)
    s.preparing.append(prepare)
    via = "call" if moves_data else "stream"
    s.cause("starved-thread", s.rank, via=via, cpu=cpu, thread="NCCL Progress")
    late(s, None if moves_data else s.rank, via, 0.3)
    s.also = ["cpu-contention"]


@kind("files")
def files(s):
    ms, reads = s.rng.choice([(25, 3), (40, 2), (90, 1), (15, 5)])
    s.base()
    s.says = "rank %d reads slow files between calls, %d ms a turn" % (s.rank, ms * reads)

    def prepare(means):
        folder = means.slow_files()
        s.say("*", "read", "%s/d0-shard" % folder, 65536 * reads)
        s.say(s.rank, "read", "%s/d%d-shard" % (folder, ms), 65536 * reads, s.window)
    s.preparing.append(prepare)
    s.cause("files", s.rank, ms_a_turn=ms * reads)
    late(s, s.rank, "host", 0.4)
    s.also = ["host-code"]


@kind("checkpoint")
def checkpoint(s):
    every = s.nth([1, 12, 20])
    ms = 15 if every == 1 else s.rng.choice([40, 60])
    writes = 4 if every == 1 else s.rng.choice([10, 14])
    s.base()
    s.begin, s.end = (s.begin, s.end) if every == 1 else (1.5 * s.scale, s.seconds)
    s.says = "rank %d writes a checkpoint %s, %d ms each" % (
        s.rank, "each turn" if every == 1 else "every %d turns" % every, (writes + 1) * ms)

    def prepare(means):
        folder = means.slow_files()
        s.say(s.rank, "write", "%s/d%d-checkpoint.pt" % (folder, ms), 262144 * writes,
              s.window, every)
    s.preparing.append(prepare)
    s.cause("checkpoint", s.rank, every=every, ms_each=(writes + 1) * ms)
    late(s, s.rank, "host", 0.6)
    s.also = ["host-code", "files"]


@kind("gc")
def garbage(s):
    s.lang = "python"
    newest = sorted(glob.glob("/root/.pyenv/versions/3.13*/bin/python3")
                    + glob.glob("/usr/bin/python3.13") + glob.glob("/usr/local/bin/python3.13"))
    if s.nth([True, True, False, False]) and newest:
        s.python = newest[0]
    calls_it = s.nth([True, False])
    n = s.rng.choice([60000, 100000]) if calls_it else s.rng.choice([12000, 20000])
    s.base()
    if calls_it:
        s.say(s.rank, "gc", n, s.window, 4)
    else:
        s.say(s.rank, "litter", n, s.window, 1)
    s.says = "rank %d %s" % (s.rank, "calls gc.collect()" if calls_it else
                             "makes objects that Python's collector has to free")
    s.cause("gc", s.rank, calls_gc_collect=calls_it)
    late(s, s.rank, "host", 0.3)
    s.also = ["host-code"]


@kind("sigstop")
def sigstop(s):
    times = s.nth([1, 2, 5])
    length = s.rng.uniform(*{1: (1.2, 2.0), 2: (0.8, 1.1), 5: (0.25, 0.4)}[times]) * s.scale
    s.base()
    gap = (s.end - s.begin) / times
    s.says = "rank %d is stopped (SIGSTOP) %d times for %.2f s" % (s.rank, times, length)

    def prepare(means):
        for i in range(times):
            s.at(s.begin + i * gap, lambda: means.signal(s.rank, signal.SIGSTOP))
            s.at(s.begin + i * gap + length, lambda: means.signal(s.rank, signal.SIGCONT))
    s.preparing.append(prepare)
    s.end = s.begin + (times - 1) * gap + length + 0.3
    s.cause("stopped", s.rank, times=times, seconds=round(length, 2))
    late(s, s.rank, "host", 0.7)


@kind("memory")
def memory(s):
    mb = s.rng.choice([40, 48])
    limit = 16 + mb // 3  # the process itself takes 14
    s.base()
    s.says = "rank %d has a memory limit of %d MB and reads %d MB again and again from disk" % (
        s.rank, limit, mb)
    folder = []

    def prepare(means):
        folder.append(means.cgroup("memory", "limit"))
        means.write_cgroup(folder[0], "memory.limit_in_bytes", limit << 20)
        s.cgroups_of[s.rank] = list(folder)
        path = means.disk_file("dataset.bin", mb)
        for r in range(RANKS):  # each rank has its own pages
            own = path if r == s.rank else means.disk_file("dataset-%d.bin" % r, mb)
            s.say(r, "touch", own, mb, s.window)
        for when, at in ((" at t0", 0), ("", s.seconds - 0.1)):
            s.at(at, lambda when=when: means.note("memory.failcnt" + when,
                                                  folder[0] + "/memory.failcnt"))
            s.at(at, lambda when=when: means.note("memory.stat" + when,
                                                  folder[0] + "/memory.stat"))
            s.at(at, lambda when=when: means.note("stat of the rank" + when,
                                                  "/proc/%d/stat" % means.pids[s.rank]))
    s.preparing.append(prepare)
    s.stays["memory"] = (s.rank, folder)
    s.cause("memory", s.rank, limit_mb=limit)
    late(s, s.rank, "host", 0.5)
    s.also = ["host-code", "files"]


@kind("tcp-loss")
def tcp_loss(s):
    """Its own node sends through a queue that is too small: retransmissions there."""
    s.nodes = [0, 0, 0, 1]
    s.rank = 3
    uploads = s.nth([True, False])
    rate, limit = s.rng.choice([("40mbit", 20000), ("60mbit", 24000), ("30mbit", 16000)])
    s.base()
    if not uploads:
        s.job["count"], s.job["calls"] = 32768, 1
        s.plan = ["* calls 32768 1" if " calls " in p else p for p in s.plan]
    s.says = "packets of rank 3's node are lost%s" % (
        ", in what it uploads between calls" if uploads else ", in the calls themselves")

    def prepare(means):
        enter, addresses = means.namespaces(2)
        for r in range(RANKS):
            s.prefix_of[r] = enter[s.nodes[r]]
            s.env_of[r] = {"CAPO_STANDIN_ADDR": addresses[s.nodes[r]]}
        if uploads:
            s.env_of[3]["PLANTED_SERVER"] = "%s:%d" % (addresses[0], means.sink(0))
            s.say("3", "upload", 100000, "@ 0 1e9")
        s.at(0, means.tcp, 1, "tcp of node 1 at t0")
        s.at(0, means.tcp, 0, "tcp of node 0 at t0")
        s.at(s.begin, means.shape, 1, "eth0", rate, limit)
        s.at(s.end, means.shape, 1, "eth0", None, 0)
        s.at(s.seconds - 0.1, means.tcp, 1, "tcp of node 1")
        s.at(s.seconds - 0.1, means.tcp, 0, "tcp of node 0")
    s.preparing.append(prepare)
    s.cause("tcp-loss", 3, via="host" if uploads else "call", rate=rate, limit=limit)
    if uploads:
        late(s, 3, "host", 0.5)
        s.also = ["host-code"]
    else:
        late(s, None, "call", 0.5)


# ---------------------------------------------------------------- a made /sys

NIC_ERRORS = {  # what grows, a second; on Ethernet and on InfiniBand
    "loss": {"packet_seq_err": 12, "local_ack_timeout_err": 4, "roce_adp_retrans": 9,
             "roce_slow_restart": 2},
    "receiver-sees": {"out_of_sequence": 400, "packet_seq_err": 60, "implied_nak_seq_err": 8},
    "link": {"symbol_error": 900, "port_rcv_errors": 40, "link_error_recovery": 0.7,
             "local_ack_timeout_err": 3},
    "not-ready": {"rnr_nak_retry_err": 90, "local_ack_timeout_err": 2},
    "efa": {"retrans_pkts": 700, "retrans_bytes": 6e6, "retrans_timeout_events": 9,
            "impaired_remote_conn_events": 1},
    "bnxt": {"to_retransmits": 30, "seq_err_naks_rcvd": 25, "missing_resp": 3},
    "damaged": {"rx_icrc_encapsulated": 50, "local_ack_timeout_err": 6, "packet_seq_err": 10}}


def two_nodes(s, names=None, layer="Ethernet", grows=None, node=None, nic=None,
              before=None, family="mlx5", **nic_more):
    """Two nodes of two ranks with a made /sys each; @grows: counter -> rates of the chosen NIC.
    Returns (node, name of the NIC, the lists of NICs)."""
    s.nodes = [0, 0, 1, 1]
    names = names or [FAMILIES[family][0] % i for i in range(2)]
    node = s.nodes[s.rank] if node is None else node
    nic = s.rng.choice(names) if nic is None else nic
    nics = []
    for n in range(2):
        row = []
        for i, name in enumerate(names):
            counters = {k: Counter(v) for k, v in (before or {}).items()}
            if n == node and name == nic:
                for k, rates in (grows or {}).items():
                    counters[k] = Counter(counters[k].base if k in counters else 0, rates)
            row.append(Nic(name, layer, counters=counters, net="ens%df0np0" % (i + 1),
                           traffic=s.rng.uniform(1e8, 3e8), family=family,
                           **(nic_more if n == node and name == nic else {})))
        nics.append(row)
    use_sys(s, nics)
    return node, nic, nics


def use_sys(s, nics):
    """One root for each node."""
    def prepare(means):
        for n, row in enumerate(nics):
            top = os.path.join(means.folder, "node%d" % n)
            means.made_sys(MadeSys(top, row))
            for r in range(RANKS):
                if s.nodes[r] == n:
                    s.env_of.setdefault(r, {}).update(CAPO_MACHINE_ROOT=top,
                                                      CAPO_SYSFS=os.path.join(top, "sys"))
    s.preparing.append(prepare)


def slow_stream(s, rank=None, ms=None, window=None):
    """The rank's stream comes late, as behind a slow transfer or a slow kernel."""
    s.base()
    ms = ms or s.rng.choice([50, 70, 90])
    s.say(s.rank if rank is None else rank, "gpudelay", ms, window or s.window)
    return ms


def slow_network(s, rate=None):
    """Calls are slow for all, really: node 1's packets go through a slow queue that drops none."""
    rate = rate or s.rng.choice(["60mbit", "80mbit"])
    s.base()
    s.plan = ["* calls 131072 1" if " calls " in p else p for p in s.plan]

    def prepare(means):
        enter, addresses = means.namespaces(2)
        for r in range(RANKS):
            s.prefix_of[r] = enter[s.nodes[r]]
            s.env_of.setdefault(r, {})["CAPO_STANDIN_ADDR"] = addresses[s.nodes[r]]
        s.at(s.begin, means.shape, 1, "eth0", rate, 40000000, "32kb")
        s.at(s.end, means.shape, 1, "eth0", None, 0)
        s.at(s.seconds - 0.1, means.tcp, 1, "tcp of node 1")
    s.preparing.append(prepare)


def nic_kind(s, what, cause_kind, grows, layer="Ethernet", **nic_more):
    calls_slow = s.nth([False, True])
    if calls_slow:
        s.rank = s.rng.choice([2, 3])
    node, nic, nics = two_nodes(s, grows=grows, layer=layer, **nic_more)
    if calls_slow:
        slow_network(s)
        s.cause(cause_kind, None, via="call", nic=nic, counters=sorted(grows or {}))
        s.causes[-1]["node"] = node
        late(s, None, "call", 0.5)
    else:
        slow_stream(s)
        s.cause(cause_kind, s.rank, via="stream", nic=nic, counters=sorted(grows or {}))
        late(s, s.rank, "stream", 0.5)
    s.causes[-1]["other_nics"] = [n.name for n in nics[node] if n.name != nic]
    s.says = "%s: %s of node %d, %s" % (what, nic, node, "calls are slow" if calls_slow
                                        else "rank %d is late" % s.rank)
    s.also = ["network", "gpu"] if not calls_slow else ["network"]


@kind("nic-errors")
def nic_errors(s):
    what = s.nth(s.half["errors"])
    layer = "InfiniBand" if what == "link" else "Ethernet"
    factor = s.rng.choice([1, 3, 10])
    nic_kind(s, "errors of a NIC grow (%s)" % what, "nic-errors",
             {k: [(s.begin, s.end, v * factor / s.scale)] for k, v in NIC_ERRORS[what].items()}, layer,
             family=what if what in FAMILIES else "mlx5")


@kind("nic-congestion")
def nic_congestion(s):
    ib = s.nth(["roce", s.half["congestion"], "ib"])
    family = "bnxt" if ib == "bnxt" else "mlx5"
    if ib == "bnxt":
        grows = {"rx_ecn_marked_pkts": [(s.begin, s.end, 9000)], "rx_cnp_pkts": [(s.begin, s.end, 4000)],
                 "tx_cnp_pkts": [(s.begin, s.end, 5000)]}
    elif ib == "ib":
        grows = {"port_xmit_wait": [(s.begin, s.end, s.rng.choice([4e8, 9e8]))]}
    else:
        n = s.rng.choice([3000, 20000])
        grows = {"np_ecn_marked_roce_packets": [(s.begin, s.end, n)],
                 "np_cnp_sent": [(s.begin, s.end, n / 3)], "rp_cnp_handled": [(s.begin, s.end, n / 4)]}
    nic_kind(s, "congestion marks grow (%s)" % ib, "nic-congestion", grows,
             "InfiniBand" if ib == "ib" else "Ethernet", family=family)


@kind("nic-rate")
def nic_rate(s):
    whole = s.nth([True, True, False])
    low = s.rng.choice(["100 Gb/sec (2X HDR)", "100 Gb/sec (4X EDR)"])
    if whole:
        s.begin, s.end = 0, s.seconds
    rate = low if whole else Text((0, "200 Gb/sec (4X HDR)"), (s.begin, low), (s.end, "200 Gb/sec (4X HDR)"))
    nic_kind(s, "a link at half rate", "nic-rate", {}, s.nth(["InfiniBand", "Ethernet"]), rate=rate)


# ---------------------------------------------------------------- NVML

def use_nvml(s, gpus_of_node):
    """@gpus_of_node: for each node a list of dicts (planted_nvml.c: answer_of)."""
    def prepare(means):
        for n, gpus in enumerate(gpus_of_node):
            path = os.path.join(means.folder, "nvml.%d" % n)
            means.made_nvml(MadeNvml(path, gpus))
            for r in range(RANKS):
                if s.nodes[r] == n:
                    s.env_of.setdefault(r, {})["PLANTED_NVML"] = path
    s.preparing.append(prepare)


def gpu_kind(s, cause_kind, says, bad, jitter=True):
    gpus = [{"power_mw": s.rng.randrange(380000, 520000), "temperature": s.rng.randrange(52, 66)}
            for _ in range(RANKS)]
    gpus[s.rank].update(bad)
    use_nvml(s, [gpus])
    slow_stream(s)
    s.cause(cause_kind, s.rank, via="stream", gpu=s.rank)
    late(s, s.rank, "stream", 0.5)
    s.says = "GPU %d (rank %d) %s" % (s.rank, s.rank, says)
    s.also = ["gpu"]


@kind("gpu-throttled")
def gpu_throttled(s):
    reason, ns = s.nth([(0x40, "hw_thermal_ns"), (0x20, "sw_thermal_ns"), (0x80, "power_brake_ns"),
                        (0x4, "power_ns")])
    if s.nth([True, False]):
        s.begin, s.end = 0, s.seconds
    clock = s.rng.choice([700, 900, 1100])
    gpu_kind(s, "gpu-throttled", "runs at %d MHz for reason 0x%x" % (clock, reason),
             {"sm_clock": Text((0, 1980), (s.begin or 1e-9, clock), (s.end, 1980)),
              "reasons": Text((0, 0), (s.begin or 1e-9, reason), (s.end, 0)),
              ns: Counter(5e9, [(s.begin, s.end, 0.9e9)]), "temperature": 86 if reason < 0x80 else 60})


@kind("pcie-width")
def pcie_width(s):
    s.begin, s.end = 0, s.seconds
    width, gen = s.nth([(4, 5), (4, 4), (8, 5)])
    gpu_kind(s, "pcie-width", "has PCIe x%d, not x16" % width, {"pcie_width": width, "pcie_gen": gen})


@kind("nvlink-errors")
def nvlink_errors(s):
    replay, crc = s.rng.choice([(40, 90), (300, 20), (8, 3)])
    link = s.nth([3, 0, 11])
    gpu_kind(s, "nvlink-errors", "counts NVLink errors of link %d" % link,
             {"nvlink_bad": link, "nvlink_replay": Counter(2, [(s.begin, s.end, replay)]),
              "nvlink_crc": Counter(0, [(s.begin, s.end, crc)]),
              "nvlink_recovery": Counter(0, [(s.begin, s.end, 0.8)])})
    s.causes[-1]["link"] = link


# ---------------------------------------------------------------- no cause, or not that one

def sleeper(s, rank=None, ms=None):
    """A rank that is late by its own code: it sleeps."""
    s.base()
    s.say(s.rank if rank is None else rank, "sleep", ms or s.rng.choice([60, 80]), s.window)
    s.also += ["host-code"]
    late(s, s.rank if rank is None else rank, "host", 0.4)


def someone_late_or_not(s):
    """Half of these jobs are healthy; in the other half somebody is late by his own code."""
    if s.nth([False, True]):
        sleeper(s)
        return "; rank %d sleeps" % s.rank
    s.base()
    return "; nobody is late"


@kind("healthy")
def healthy(s):
    """Nothing is planted: even and uneven work that all ranks share, pauses of all, C and Python."""
    form, sleep = s.nth(["even", "pauses", "roams", "second", "burns"]), s.rng.choice([10, 20, 30])
    s.lang = s.rng.choice(["c", "c", "python"])
    s.job["count"], s.job["calls"] = s.rng.choice([1024, 4096, 65536]), s.rng.choice([1, 2, 3])
    if form == "second":
        s.job["second"] = 5
    s.base(burn=s.rng.choice([10, 15] if form == "burns" else [1, 2, 4]), sleep=sleep)
    if form == "pauses":
        s.say("*", "sleep", s.rng.choice([100, 200]), "@ 0 %g %d" % (10 * s.seconds, s.rng.choice([10, 20])))
    for r in range(RANKS if form == "roams" else 0):
        s.say(r, "sleep", sleep, "@ 0 %g %d" % (10 * s.seconds, [3, 5, 7, 11][r]))
    if s.nth([False, False, True]):
        s.nodes = [0, 0, 1, 1]
    s.says = "nothing is planted: " + form


@kind("h-still")
def h_still(s):
    _, nic, _ = two_nodes(s, before={"packet_seq_err": 4830, "symbol_error": 17, "np_cnp_sent": 991234,
                                     "out_of_sequence": 5057, "roce_adp_retrans": 498})
    s.says = "counters of errors are high and stand still" + someone_late_or_not(s)


@kind("h-grew-before")
def h_grew_before(s):
    """Errors that grew before the time in which somebody is late, and stand still then."""
    end = max(0.6, s.begin - 0.5)
    _, nic, _ = two_nodes(s, before={"packet_seq_err": 120000, "local_ack_timeout_err": 40000},
                          grows={k: [(0, end, v)] for k, v in
                                 {"packet_seq_err": 150, "local_ack_timeout_err": 30}.items()})
    s.begin += 0.5
    sleeper(s)
    s.present.append({"kind": "nic-errors", "nic": nic, "node": s.nodes[s.rank], "window_s": [0, end]})
    s.says = "the errors of %s grew until %.1f s; rank %d sleeps from %.1f s on" % (
        nic, end, s.rank, s.begin)


@kind("h-same-everywhere")
def h_same(s):
    """Counters that grow on all NICs of all nodes alike, all the time: background."""
    s.nodes = [0, 0, 1, 1]
    what = s.nth([{"out_of_sequence": 300, "np_cnp_sent": 80}, {"port_xmit_wait": 3e7},
                  {"packet_seq_err": 3, "roce_adp_retrans": 2}])
    layer = "InfiniBand" if "port_xmit_wait" in what else "Ethernet"
    use_sys(s, [[Nic("mlx5_%d" % i, layer, counters={
        k: Counter(s.rng.randrange(10**6), [(-60, 1e9, v)]) for k, v in what.items()})
        for i in range(2)] for _ in range(2)])
    s.says = "%s grow alike everywhere, also when all is well" % ", ".join(what) + someone_late_or_not(s)


@kind("h-wrap32")
def h_wrap(s):
    """A 32-bit counter of traffic wraps; one of errors stands just below its end."""
    s.nodes = [0, 0, 1, 1]
    top = 2 ** 32
    rate = 2.0e8
    use_sys(s, [[Nic("mlx5_%d" % i, traffic=rate, counters={
        "port_xmit_data": Counter(top - rate * s.begin, [(0, 1e9, rate)], bits=32),
        "port_rcv_data": Counter(top - rate * (s.begin + 1), [(0, 1e9, rate)], bits=32),
        "port_xmit_packets": Counter(top - rate / 1024 * s.begin, [(0, 1e9, rate / 1024)], bits=32),
        "rx_write_requests": Counter(top - 3000, [(0, 1e9, 1000)], bits=32),
        "np_cnp_sent": Counter(top - 1)}) for i in range(2)] for _ in range(2)])
    s.says = "32-bit counters wrap" + someone_late_or_not(s)
    s.never_text = [r"4294\d{6}|1844674407370955\d{4}|\b4\.29 ?(G|billion|e9)"]


@kind("h-jump-back")
def h_jump_back(s):
    """Counters are set back (a driver was reloaded), as in 900000 -> 12."""
    _, nic, nics = two_nodes(s)
    for n in nics[s.nodes[s.rank]]:
        if n.name == nic:
            for k in ("packet_seq_err", "out_of_sequence", "symbol_error"):
                n.counters[k] = Counter(900000, jumps=[(s.begin, 12)])
            n.counters["port_xmit_data"] = Counter(9e12, [(0, 1e9, 2e8)], jumps=[(s.begin, 0)])
    s.says = "counters of %s jump back" % nic + someone_late_or_not(s)
    s.never_text = [r"(?<!\w)-\d{4,}|1844674407\d+|4294\d{6}"]


@kind("h-nic-vanishes")
def h_vanishes(s):
    """A NIC that this job does not use goes away; the rest of the job is well."""
    comes_back = s.nth([False, True])
    _, nic, nics = two_nodes(s, names=("mlx5_0", "mlx5_1", "mlx5_2"))
    for n in nics[s.nodes[s.rank]]:
        if n.name == nic:
            n.gone_at = s.begin
    if comes_back:  # a driver that was reloaded
        nics[s.nodes[s.rank]].append(Nic("mlx5_9", comes_at=s.begin + 1))
    s.says = "%s vanishes%s" % (nic, ", mlx5_9 comes" if comes_back else "") + someone_late_or_not(s)


@kind("h-nic-renamed")
def h_renamed(s):
    """udev renames a NIC while the job runs; its counters are high and stand still."""
    _, nic, nics = two_nodes(s, before={"packet_seq_err": 7777, "out_of_sequence": 50000})
    row = nics[s.nodes[s.rank]]
    old = [n for n in row if n.name == nic][0]
    new = Nic("roce_" + nic, counters={"packet_seq_err": Counter(7777), "out_of_sequence": Counter(50000)},
              comes_at=s.begin)
    old.gone_at = s.begin
    row.append(new)
    s.says = "%s becomes roce_%s" % (nic, nic) + someone_late_or_not(s)


@kind("h-64-nics")
def h_64(s):
    """64 NICs on a node; one of them has an old error. With a cause in every other variant."""
    s.nodes = [0, 0, 1, 1]
    names = ["mlx5_%d" % i for i in range(64)]
    bad = s.rng.choice(names[2:])
    planted = s.nth([False, True])
    nics = [[Nic(n, counters={"symbol_error": Counter(s.rng.randrange(9))}) for n in names]
            for _ in range(2)]
    if planted:
        slow_stream(s)
        chosen = [n for n in nics[s.nodes[s.rank]] if n.name == bad][0]
        for k, v in NIC_ERRORS["loss"].items():
            chosen.counters[k] = Counter(0, [(s.begin, s.end, v * 5)])
        s.cause("nic-errors", s.rank, via="stream", nic=bad, counters=sorted(NIC_ERRORS["loss"]))
        late(s, s.rank, "stream", 0.5)
        s.also = ["network", "gpu"]
        s.says = "64 NICs, the errors of %s grow, rank %d is late" % (bad, s.rank)
    else:
        s.says = "64 NICs, all well" + someone_late_or_not(s)
    use_sys(s, nics)


def words_of(present):
    return ", ".join("%s %s" % (k, v) if k != "kind" else v for k, v in present.items())


@kind("h-elsewhere")
def h_elsewhere(s):
    """A cause is there, on a rank or node that was not late. The late rank sleeps."""
    what = s.nth(["nic", "gpu", "quota", "nic-rate"])
    if what == "nic":
        node = 1 - [0, 0, 1, 1][s.rank]
        _, nic, _ = two_nodes(s, node=node, grows={k: [(s.begin, s.end, v * 3)] for k, v in
                                                   NIC_ERRORS["loss"].items()})
        sleeper(s)
        s.present.append({"kind": "nic-errors", "node": node, "nic": nic})
    elif what == "nic-rate":
        node = 1 - [0, 0, 1, 1][s.rank]
        _, nic, _ = two_nodes(s, node=node, rate="100 Gb/sec (2X HDR)")
        sleeper(s)
        s.present.append({"kind": "nic-rate", "node": node, "nic": nic})
    elif what == "gpu":
        other = other_than(s, s.rank)
        gpus = [{} for _ in range(RANKS)]
        gpus[other] = {"sm_clock": Text((0, 1980), (s.begin, 1500), (s.end, 1980)),
                       "reasons": Text((0, 0), (s.begin, 0x4), (s.end, 0)), "pcie_replay": Counter(0, [(0, 99, 2)])}
        use_nvml(s, [gpus])
        sleeper(s)
        s.present.append({"kind": "gpu-throttled", "rank": other, "gpu": other})
    else:
        other = other_than(s, s.rank)
        sleeper(s)
        folder = []

        def prepare(means):
            folder.append(means.cgroup("cpu", "limit"))
            means.quota(folder[0], 30)
            s.cgroups_of[other] = list(folder)
            s.at(s.seconds - 0.1, lambda: means.note("cpu.stat", folder[0] + "/cpu.stat"))
        s.preparing.append(prepare)
        s.present.append({"kind": "cpu-limit", "rank": other})
    s.says = "rank %d sleeps; %s, which makes nobody late" % (s.rank, words_of(s.present[0]))


@kind("h-too-small")
def h_too_small(s):
    """The late rank has a cause, but one far too small for what it lost."""
    what = s.nth(["nic", "gpu-ns", "throttled-once", "one-retransmission"])
    if what == "nic":
        _, nic, _ = two_nodes(s, grows={"packet_seq_err": [(s.begin, s.begin + 1, 1)]})
        sleeper(s, ms=120)
        s.present.append({"kind": "nic-errors", "nic": nic, "times": 1})
    elif what == "gpu-ns":
        gpus = [{} for _ in range(RANKS)]
        gpus[s.rank] = {"hw_thermal_ns": Counter(0, [(s.begin, s.begin + 1, 3e6)]), "nvlink_replay": Counter(0, [(0, 99, 0.1)])}
        use_nvml(s, [gpus])
        sleeper(s, ms=120)
        s.present.append({"kind": "gpu-throttled", "rank": s.rank, "ms": 3})
    elif what == "throttled-once":
        folder = []
        sleeper(s, ms=120)

        def prepare(means):
            folder.append(means.cgroup("cpu", "limit"))
            means.quota(folder[0], 60)
            s.cgroups_of[s.rank] = list(folder)
            s.say(s.rank, "threads", 2, 40, "@ %g %g" % (s.begin, s.begin + 0.15))
            s.at(s.seconds - 0.1, lambda: means.note("cpu.stat", folder[0] + "/cpu.stat"))
        s.preparing.append(prepare)
        s.present.append({"kind": "cpu-limit", "rank": s.rank, "about": "one or two periods"})
    else:
        _, nic, _ = two_nodes(s, grows={"np_cnp_sent": [(s.begin, s.begin + 1, 3)],
                                        "roce_adp_retrans": [(s.begin, s.begin + 1, 2)]})
        sleeper(s, ms=120)
        s.present.append({"kind": "nic-congestion", "nic": nic, "times": 3})
    s.says = "rank %d sleeps 120 ms a turn; %s is far too small for that" % (
        s.rank, words_of(s.present[0]))


@kind("two-causes")
def two_causes(s):
    """Both are so; naming one of them is right, naming both is better."""
    what = s.nth(["files+nic", "throttled+sleep", "quota+stopped"])
    if what == "files+nic":
        node, nic, _ = two_nodes(s, grows={k: [(s.begin, s.end, v * 5)] for k, v in NIC_ERRORS["loss"].items()})
        second = s.rng.choice([r for r in range(RANKS) if s.nodes[r] != node])
        slow_stream(s, ms=60)

        def prepare(means):
            folder = means.slow_files()
            s.say(second, "read", folder + "/d45-shard", 65536, "@ %g %g 2" % (s.begin, s.end))
        s.preparing.append(prepare)
        s.cause("nic-errors", s.rank, via="stream", nic=nic)
        s.cause("files", second, via="host")
        s.also = ["network", "gpu", "host-code"]
        late(s, s.rank, "stream", 0.5)
        s.late["also_late"] = [second]
        s.says = "rank %d is late by %s's errors, rank %d by slow files, less" % (s.rank, nic, second)
    elif what == "throttled+sleep":
        other = other_than(s, s.rank)
        gpu_kind(s, "gpu-throttled", "runs at 800 MHz",
                 {"sm_clock": Text((0, 1980), (s.begin, 800), (s.end, 1980)),
                  "reasons": Text((0, 0), (s.begin, 0x40), (s.end, 0)),
                  "hw_thermal_ns": Counter(0, [(s.begin, s.end, 0.95e9)])})
        half_way = (s.begin + s.end) / 2
        s.plan = [p if " gpudelay " not in p else "%d gpudelay 70 @ %g %g" % (s.rank, s.begin, half_way)
                  for p in s.plan]
        s.say(other, "sleep", 50, "@ %g %g" % (half_way, s.end))
        s.also = ["gpu", "host-code"]
        late(s, s.rank, "stream", 0.4)
        s.late["also_late"] = [other]
        s.says += " in the first half of the window; rank %d sleeps in the second" % other
    else:
        s.base(burn=6)
        folder = []

        def prepare(means):
            folder.append(means.cgroup("cpu", "limit"))
            means.quota(folder[0], None)
            s.cgroups_of[s.rank] = list(folder)
            s.at(s.begin, lambda: means.quota(folder[0], 5))
            s.at(s.end, lambda: means.quota(folder[0], None))
            s.at(s.end + 0.5, lambda: means.signal(s.rank, signal.SIGSTOP))
            s.at(s.end + 1.5, lambda: means.signal(s.rank, signal.SIGCONT))
            s.at(s.seconds - 0.1, lambda: means.note("cpu.stat", folder[0] + "/cpu.stat"))
        s.preparing.append(prepare)
        s.begin, s.end = 1.5 * s.scale, 4.5 * s.scale
        s.stays["cpu"] = (s.rank, folder)
        s.cause("cpu-limit", s.rank)
        s.cause("stopped", s.rank, window=[s.end + 0.5, s.end + 1.5])
        s.also = ["host-code"]
        late(s, s.rank, "host", 1.2, [s.begin, s.end + 2])
        s.says = "rank %d has a CPU limit, and is stopped for 1 s later" % s.rank


@kind("h-chain")
def h_chain(s):
    """A pair of ranks meets before the world: the second is late because the first was."""
    a, b = s.rng.sample(range(RANKS), 2)
    what = s.nth(["files", "sleep", "stopped"])
    s.rank = a
    s.group = "%d,%d" % (min(a, b), max(a, b))
    s.nodes = [0, 0, 1, 1]
    s.base()
    if what == "files":
        def prepare(means):
            folder = means.slow_files()
            s.plan.append("%d read %s/d70-shard 65536 %s" % (a, folder, s.window))
            s.plan.append("* group 4096")
        s.preparing.append(prepare)
        s.cause("files", a)
    elif what == "sleep":
        s.say(a, "sleep", 80, s.window)
        s.plan.append("* group 4096")
    else:
        s.plan.append("* group 4096")

        def prepare(means):
            for i in range(4):
                s.at(s.begin + i, lambda: means.signal(a, signal.SIGSTOP))
                s.at(s.begin + i + 0.4, lambda: means.signal(a, signal.SIGCONT))
        s.preparing.append(prepare)
        s.cause("stopped", a)
        s.end = s.begin + 4
    node_b = s.nodes[b]
    nics = [[Nic("mlx5_0", counters={k: Counter(0, [(0, 1e9, v)]) for k, v in
                                     NIC_ERRORS["loss"].items()} if n == node_b else None)]
            for n in range(2)]
    if s.nodes[a] != node_b:  # a temptation, on the second rank's node, all the time
        use_sys(s, nics)
        s.present.append({"kind": "nic-errors", "node": node_b, "nic": "mlx5_0"})
    s.also = ["host-code"]
    late(s, a, "host", 0.5)
    s.late["also_late"] = [b]
    s.late["chained"] = [a, b]
    s.forbid("host-code", [b], "rank %d waited for rank %d in the pair's call" % (b, a))
    s.never[-1]["in"] = "world"  # in the pair it may be late itself, on a busy machine
    s.only_these()
    s.says = "rank %d is late (%s), and so rank %d, which waits for it in the pair's communicator" % (
        a, what, b)
