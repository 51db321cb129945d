# SPDX-License-Identifier: Apache-2.0
"""The means by which causes are planted: cgroups, busy processes, a slow file system, network
namespaces, a made /sys, NVML answers. Each raises Missing with a reason where this machine or this
user may not. close() undoes all."""
import ctypes
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

PERIOD_US = 100000


class Missing(Exception):
    """This kind cannot be planted here."""


def read_text(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def cgroup_folder(controller):
    """Where this process is in the tree of a v1 controller, or Missing."""
    where = None
    for line in read_text("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            where = path
    for line in read_text("/proc/self/mounts").splitlines():
        words = line.split()
        if where is not None and words[2] == "cgroup" and controller in words[3].split(","):
            folder = words[1] + where.rstrip("/")
            return folder if os.path.isdir(folder) else words[1]
    raise Missing("no cgroup v1 controller %s" % controller)


class Means:
    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        self.cgroups, self.processes, self.pids = [], [], []
        self.facts = {}
        self.sys_roots, self.nvml_files = [], []
        self.server = None
        self.ticking = False
        self.ticker = None

    # ------------------------------------------------------------ cgroups

    def cgroup(self, controller, name):
        folder = os.path.join(cgroup_folder(controller), "planted-%d-%s" % (os.getpid(), name))
        try:
            os.mkdir(folder)
        except OSError as e:
            raise Missing("no cgroup %s: %s" % (folder, e.strerror))
        self.cgroups.append(folder)
        return folder

    def write_cgroup(self, folder, name, value):
        try:
            with open(os.path.join(folder, name), "w") as f:
                f.write(str(value))
        except OSError as e:
            raise Missing("%s/%s: %s" % (folder, name, e.strerror))

    def quota(self, folder, percent):
        self.write_cgroup(folder, "cpu.cfs_period_us", PERIOD_US)
        self.write_cgroup(folder, "cpu.cfs_quota_us",
                          -1 if percent is None else int(PERIOD_US * percent / 100))

    def is_in(self, rank, controller, folder):
        text = read_text("/proc/%d/cgroup" % self.pids[rank])
        self.facts["cgroups of rank %d" % rank] = text.split()
        return any(controller in line.split(":")[1].split(",") and
                   line.endswith("/" + os.path.basename(folder)) for line in text.splitlines())

    def note(self, what, path):
        """A file of the kernel, into the facts of the run."""
        self.facts[what] = " ".join(read_text(path).split())

    # ------------------------------------------------------------ processors

    def occupy(self, cpu, n):
        """@n processes that are busy on one CPU; release() ends them."""
        for _ in range(n):
            self.processes.append(subprocess.Popen(
                ["timeout", "30", "taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
        self.busy = self.processes[-n:]

    def release(self):
        for p in getattr(self, "busy", []):
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
        self.busy = []

    def signal(self, rank, number):
        os.kill(self.pids[rank], number)

    # ------------------------------------------------------------ files

    def slow_files(self):
        """A folder whose files d30-NAME take 30 ms a read, write or fsync."""
        folder = os.path.join(self.folder, "files")
        os.makedirs(folder, exist_ok=True)
        p = subprocess.Popen([os.path.join(self.programs, "planted_slowfs"), folder],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(p)
        if p.stdout.readline() != "mounted\n":
            raise Missing("no FUSE: " + p.stderr.read().strip())
        self.mounted = folder
        return folder

    def disk_file(self, name, mb):
        """A file with content on the disk of the folder, not in the page cache."""
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            block = os.urandom(1 << 20)
            for _ in range(mb):
                f.write(block)
            f.flush()
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    # ------------------------------------------------------------ network

    def run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise Missing("%s: %s" % (" ".join(words[:9]), done.stderr.strip()[-200:]))
        return done.stdout

    def namespaces(self, n):
        """@n network namespaces on one bridge-less star: a pair of veth from the first to each of
        the others. Returns prefixes of commands and addresses."""
        holders = []
        for _ in range(n):
            p = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo in && exec sleep 300"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.processes.append(p)
            if p.stdout.readline() != "in\n":
                raise Missing("no network namespace: " + p.stderr.read().strip())
            holders.append(p.pid)
        self.enter = [["nsenter", "-n", "-t", str(pid), "--"] for pid in holders]
        for e in self.enter:
            self.run(*e, "ip", "link", "set", "lo", "up")
        addresses = ["10.99.0.1"]
        self.run(*self.enter[0], "ip", "addr", "add", "10.99.0.1/32", "dev", "lo")
        for i in range(1, n):
            self.run(*self.enter[0], "ip", "link", "add", "up%d" % i, "type", "veth", "peer", "name",
                     "eth0", "netns", str(holders[i]))
            self.run(*self.enter[0], "ip", "addr", "add", "10.99.%d.1/24" % i, "dev", "up%d" % i)
            self.run(*self.enter[0], "ip", "link", "set", "up%d" % i, "up")
            self.run(*self.enter[i], "ip", "addr", "add", "10.99.%d.2/24" % i, "dev", "eth0")
            self.run(*self.enter[i], "ip", "link", "set", "eth0", "up")
            self.run(*self.enter[i], "ip", "route", "add", "default", "via", "10.99.%d.1" % i)
            addresses.append("10.99.%d.2" % i)
        return self.enter, addresses

    def shape(self, i, device, rate, limit, burst="16kb"):
        """tbf on what leaves namespace @i by @device; rate None: takes it away."""
        self.run(*self.enter[i], "tc", "qdisc", "del" if rate is None else "add", "dev", device,
                 "root", *([] if rate is None else
                           ["tbf", "rate", rate, "burst", burst, "limit", str(limit)]))

    def tcp(self, i, what):
        """RetransSegs of a namespace and the like, into the facts."""
        lines = self.run(*self.enter[i], "cat", "/proc/net/snmp", "/proc/net/netstat").splitlines()
        found = {}
        for names, values in zip(lines, lines[1:]):
            if names.split()[:1] == values.split()[:1]:
                found.update(zip(names.split()[1:], values.split()[1:]))
        self.facts[what] = {k: int(found.get(k, 0)) for k in
                            ("RetransSegs", "TCPTimeouts", "TCPLostRetransmit", "OutSegs")}

    def sink(self, i):
        """A server in namespace @i that takes uploads. Returns ADDR:PORT's port."""
        code = ("import socket,struct\n"
                "s=socket.socket(); s.bind(('0.0.0.0',0)); s.listen(4)\n"
                "print(s.getsockname()[1],flush=True)\n"
                "c=s.accept()[0]\n"
                "def take(n):\n"
                "    got=b''\n"
                "    while n:\n"
                "        d=c.recv(min(n,1<<16))\n"
                "        if not d: raise SystemExit\n"
                "        n-=len(d); got=d if len(d)==8 else b''\n"
                "    return got\n"
                "while True: take(struct.unpack('q',take(8))[0]); c.send(b'x')\n")
        p = subprocess.Popen(self.enter[i] + [sys.executable, "-c", code], stdout=subprocess.PIPE,
                             text=True)
        self.processes.append(p)
        return int(p.stdout.readline())

    # ------------------------------------------------------------ a made /sys and NVML

    def made_sys(self, root):
        self.sys_roots.append(root)
        root.make()

    def made_nvml(self, answers):
        self.nvml_files.append(answers)
        answers.write(0)

    def before(self, scenario):
        for root in self.sys_roots:
            root.write(0)

    def begin_clock(self, t0):
        """From now on counters grow as they are told."""
        self.t0 = t0
        self.ticking = bool(self.sys_roots or self.nvml_files)
        if self.ticking:
            self.ticker = threading.Thread(target=self.tick, daemon=True)
            self.ticker.start()

    def tick(self):
        while self.ticking:
            t = time.monotonic() - self.t0
            for made in self.sys_roots + self.nvml_files:
                made.write(max(t, 0))
            time.sleep(0.1 if len(self.sys_roots) < 2 or len(self.sys_roots[0].nics) < 9 else 0.4)

    def end_clock(self):
        self.ticking = False
        if self.ticker:
            self.ticker.join()
        for made in self.sys_roots + self.nvml_files:
            self.facts.setdefault("made", []).append(made.facts())

    def close(self):
        self.end_clock()
        for root in self.sys_roots:
            root.close()
        self.sys_roots = []
        self.release()
        for p in reversed(self.processes):
            if p.poll() is None:
                p.kill()
            p.wait()
        if getattr(self, "mounted", None):
            subprocess.run(["umount", "-l", self.mounted], capture_output=True)
        for folder in self.cgroups:
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)
        self.cgroups, self.processes = [], []


class Counter:
    """A number that grows as told: base, then @rates (begin, end, per second); wraps at @bits;
    @jumps (at, to) set it."""

    def __init__(self, base=0, rates=(), bits=64, jumps=(), step=1):
        self.base, self.rates, self.bits, self.jumps = int(base), list(rates), bits, list(jumps)

    def at(self, t):
        value, since = float(self.base), 0.0
        for at, to in self.jumps:
            if t >= at:
                value, since = float(to), at
        for begin, end, rate in self.rates:
            begin = max(begin, since)
            value += max(0.0, min(t, end) - begin) * rate
        return int(value) % (1 << self.bits)


class Text:
    """A file whose text changes: (from second, text)..."""

    def __init__(self, *changes):
        self.changes = changes

    def at(self, t):
        return [text for begin, text in self.changes if t >= begin or begin == 0][-1]


COUNTERS = ("excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
            "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets",
            "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors", "port_rcv_packets",
            "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
            "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
            "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets",
            "unicast_xmit_packets", "VL15_dropped")
HW_COUNTERS = ("duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err",
               "np_cnp_sent", "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence",
               "packet_seq_err", "req_cqe_error", "req_cqe_flush_error", "req_remote_access_errors",
               "req_remote_invalid_request", "req_transport_retries_exceeded", "resp_cqe_error",
               "resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_errors",
               "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
               "roce_slow_restart_cnps", "roce_slow_restart_trans", "rp_cnp_handled",
               "rp_cnp_ignored", "rx_atomic_requests", "rx_icrc_encapsulated", "rx_read_requests",
               "rx_write_requests")


FAMILIES = {  # names of devices, hw_counters, has counters/, board
    "mlx5": ("mlx5_%d", HW_COUNTERS, True, "0x15b3"),
    "efa": ("rdmap%ds0", ("impaired_remote_conn_events", "lifespan", "rdma_read_bytes",
                          "rdma_read_resp_bytes", "rdma_read_wr_err", "rdma_read_wrs",
                          "rdma_write_bytes", "rdma_write_recv_bytes", "rdma_write_wr_err",
                          "rdma_write_wrs", "recv_bytes", "recv_wrs", "retrans_bytes", "retrans_pkts",
                          "retrans_timeout_events", "rx_bytes", "rx_drops", "rx_pkts", "send_bytes",
                          "send_wrs", "tx_bytes", "tx_pkts", "unresponsive_remote_events"), False,
            "0x1d0f"),
    "bnxt": ("bnxt_re%d", ("active_qps", "lifespan", "local_qp_op_err", "max_retry_exceeded",
                           "missing_resp", "rnr_naks_rcvd", "rx_bytes", "rx_cnp_pkts",
                           "rx_ecn_marked_pkts", "rx_pkts", "rx_roce_discard_pkts",
                           "rx_roce_error_pkts", "seq_err_naks_rcvd", "to_retransmits", "tx_bytes",
                           "tx_cnp_pkts", "tx_pkts", "tx_roce_discard_pkts"), True, "0x14e4")}


class Nic:
    """One port of a made /sys. @counters: name -> Counter; all others are as on a clean port."""

    def __init__(self, name, layer="Ethernet", rate="200 Gb/sec (4X HDR)", state="4: ACTIVE",
                 traffic=2.5e8, counters=None, gone_at=None, comes_at=None, net=None,
                 family="mlx5"):
        self.name, self.layer, self.rate, self.state = name, layer, rate, state
        self.gone_at, self.comes_at = gone_at, comes_at
        self.net = net
        _, self.hw, has_counters, self.vendor = FAMILIES[family]
        self.counters = {n: Counter() for n in (COUNTERS if has_counters else ()) + self.hw}
        if layer == "InfiniBand":
            for n in [n for n in self.hw if n.startswith(("np_", "rp_", "roce_"))]:
                del self.counters[n]
        self.counters["lifespan"] = Counter(10)
        for n, share in (("port_xmit_data", 1), ("port_rcv_data", 1), ("port_xmit_packets", 1 / 1024),
                         ("port_rcv_packets", 1 / 1024), ("unicast_xmit_packets", 1 / 1024),
                         ("unicast_rcv_packets", 1 / 1024), ("rx_write_requests", 1 / 65536), ("rx_bytes", 4), ("tx_bytes", 4),
                         ("rx_pkts", 1 / 1024), ("tx_pkts", 1 / 1024), ("rdma_write_bytes", 4),
                         ("rdma_write_wrs", 1 / 65536)):
            if n in self.counters:
                self.counters[n] = Counter(9e12 * share, [(0, 1e9, traffic * share)])
        self.counters.update(counters or {})


class MadeSys:
    """A /sys with RDMA NICs under @top/sys, in the layout of the kernel."""

    def __init__(self, top, nics):
        self.top, self.nics = top, nics
        self.fds, self.last, self.there, self.still = {}, {}, {}, set()

    def folder(self, nic):
        number = self.nics.index(nic)
        return os.path.join("devices", "pci0000:%02x" % (0x10 + number % 8 * 0x10),
                            "0000:%02x:%02x.%d" % (0x11 + number % 8 * 0x10, number // 8, 0),
                            "infiniband", nic.name)

    def put(self, path, text):
        """In place, as in sysfs a file that is open shows what is new."""
        if self.last.get(path) == text:
            return
        first = path not in self.last
        self.last[path] = text
        full = os.path.join(self.top, "sys", path)
        if first:  # most never change
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text + "\n")
            return
        fd = self.fds.get(path)
        if fd is None:
            fd = self.fds[path] = os.open(full, os.O_RDWR | os.O_CLOEXEC)
        data = (text + "\n").encode()
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))

    def make(self):
        for name in ("infiniband", "net"):
            os.makedirs(os.path.join(self.top, "sys", "class", name), exist_ok=True)

    def add(self, nic):
        folder = self.folder(nic)
        device = os.path.dirname(os.path.dirname(folder))
        self.put(device + "/vendor", nic.vendor)
        self.put(device + "/device", "0x101b")
        self.put(device + "/numa_node", str(self.nics.index(nic) // 4 % 2))
        self.put(device + "/current_link_width", "16")
        self.put(device + "/max_link_width", "16")
        self.put(device + "/current_link_speed", "16.0 GT/s PCIe")
        self.put(device + "/max_link_speed", "16.0 GT/s PCIe")
        self.put(folder + "/node_type", "1: CA")
        self.put(folder + "/fw_ver", "20.35.1012")
        self.put(folder + "/board_id", "MT_0000000223")
        self.put(folder + "/hca_type", "MT4123")
        self.put(folder + "/ports/1/lid", "0x0" if nic.layer == "Ethernet" else "0x1f")
        link = os.path.join(self.top, "sys", "class", "infiniband", nic.name)
        os.symlink(os.path.join("..", "..", folder), link)
        os.symlink(os.path.join("..", "..", "..", os.path.basename(device)),
                   os.path.join(self.top, "sys", folder, "device"))
        if nic.net:
            where = os.path.join(device, "net", nic.net)
            self.put(where + "/operstate", "up")
            self.put(where + "/speed", "200000")
            self.put(where + "/carrier_down_count", "1")
            for n in ("rx_dropped", "rx_errors", "tx_dropped", "tx_errors"):
                self.put(where + "/statistics/" + n, "0")
            os.symlink(os.path.join("..", "..", where),
                       os.path.join(self.top, "sys", "class", "net", nic.net))
        self.there[nic.name] = True
        self.still = {s for s in self.still if s[0] != nic.name}

    def remove(self, nic):
        """The device is gone, as after a driver's unbind."""
        folder = self.folder(nic)
        os.unlink(os.path.join(self.top, "sys", "class", "infiniband", nic.name))
        shutil.rmtree(os.path.join(self.top, "sys", folder))
        for path in [p for p in self.last if p.startswith(folder + "/")]:
            self.last.pop(path)
            if path in self.fds:
                os.close(self.fds.pop(path))
        self.there[nic.name] = False

    def write(self, t):
        for nic in self.nics:
            wanted = t >= (nic.comes_at or 0) and not (nic.gone_at is not None and t >= nic.gone_at)
            if wanted and not self.there.get(nic.name):
                self.add(nic)
            if not wanted:
                if self.there.get(nic.name):
                    self.remove(nic)
                continue
            port = self.folder(nic) + "/ports/1/"
            for name, what in (("state", nic.state), ("phys_state", "5: LinkUp"),
                               ("link_layer", nic.layer), ("rate", nic.rate)):
                self.put(port + name, what.at(t) if isinstance(what, Text) else what)
            for name, counter in nic.counters.items():
                if not counter.rates and not counter.jumps and (nic.name, name) in self.still:
                    continue
                self.still.add((nic.name, name))
                kind = "hw_counters/" if name in nic.hw else "counters/"
                self.put(port + kind + name, str(counter.at(t)))

    def close(self):
        for fd in self.fds.values():
            os.close(fd)
        self.fds = {}

    def facts(self):
        """What grew, beyond traffic, from the beginning to the end."""
        found = {}
        for path in self.last:
            m = re.search(r"infiniband/([^/]+)/ports/1/(?:hw_)?counters/(\w+)$", path)
            if m and not re.search("data|_packets$|_requests|bytes|x_pkts|_wrs", m.group(2).replace("retrans_bytes", ""))  and \
                    self.last[path] not in ("0", "10"):
                found["%s %s" % m.groups()] = self.last[path]
        return found


class MadeNvml:
    """What planted_nvml.c answers: a file of lines `gpu0.name value`, written anew."""

    def __init__(self, path, gpus):
        self.path, self.gpus = path, gpus  # list of name -> value, Counter or Text
        self.last = None

    def write(self, t):
        lines = []
        for i, gpu in enumerate(self.gpus):
            for name, what in sorted(gpu.items()):
                value = what.at(t) if isinstance(what, (Counter, Text)) else what
                lines.append("gpu%d.%s %s" % (i, name, value))
        text = "\n".join(lines) + "\n"
        if text != self.last:
            with open(self.path + ".part", "w") as f:
                f.write(text)
            os.rename(self.path + ".part", self.path)
            self.last = text

    def facts(self):
        return {"nvml at the end": self.last.split("\n")}
