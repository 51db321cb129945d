# SPDX-License-Identifier: Apache-2.0
"""What the fabric tests share: counting checks, running under capo, a pair of network namespaces."""
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import time

failures = skipped = passed = 0


def check(what, good, text=""):
    global failures, passed
    if good:
        passed += 1
    else:
        failures += 1
        print("FAIL", what, text)


def skip(what, why):
    global skipped
    skipped += 1
    print("skipped:", what + ":", why)


def done():
    print("%d checks, %d failed, %d skipped" % (passed + failures, failures, skipped))
    # nothing could be tried: the runner learns it from the exit status (77), and a person by the last line
    sys.exit(1 if failures else 77 if skipped and not passed else 0)


def report(capo, logs):
    r = subprocess.run([capo, "report", "--json", logs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return json.loads(r.stdout) if r.returncode == 0 else {"fabric": [], "problems": [r.stderr.decode()]}


def count(fabric, *kinds):
    return tuple(sum(fabric["ops"].get(k, {}).get(what, 0) for k in kinds) for what in ("count", "bytes"))


def forget_shm(pid):
    """The shm provider's segment goes only when its process closes it: that of a killed one stays."""
    for left in glob.glob("/dev/shm/%d:*" % pid):
        os.unlink(left)


def ip(*args):
    return subprocess.run(["ip", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def ip_says(*args):
    return subprocess.run(["ip", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()


class Pair:
    """Two network namespaces joined by a veth pair: enter[0], enter[1] run a command in them."""
    address = ("10.199.7.1", "10.199.7.2")

    def __init__(self, tag):
        self.names = (tag + "a", tag + "b")
        self.interface = (tag[-8:] + "a", tag[-8:] + "b")
        self.enter = tuple(("ip", "netns", "exec", name) for name in self.names)


@contextlib.contextmanager
def two_namespaces(what):
    """A Pair, removed afterwards; None, and a line that says why @what is skipped, where there can be none."""
    pair = Pair("capo%d" % os.getpid())
    a, b = pair.names
    if not shutil.which("ip") or not ip("netns", "add", a):
        skip(what + " in two network namespaces", "not permitted")
        yield None
        return
    try:
        made = (ip("netns", "add", b) and
                ip("link", "add", pair.interface[0], "netns", a, "type", "veth", "peer", "name", pair.interface[1], "netns", b))
        for name, interface, address in zip(pair.names, pair.interface, pair.address):
            made = made and ip("-n", name, "addr", "add", address + "/24", "dev", interface)
            # no IPv6 address of its own, which would be tentative for a second and refuse to be bound
            made = made and ip("-n", name, "link", "set", interface, "addrgenmode", "none")
            made = made and ip("-n", name, "link", "set", interface, "up") and ip("-n", name, "link", "set", "lo", "up")
        for _ in range(60):  # the kernel looks at changed links once a second
            if not made or all(" state UP " in ip_says("-n", name, "-o", "link", "show", "dev", interface)
                               for name, interface in zip(pair.names, pair.interface)):
                break
            time.sleep(0.05)
        if not made:
            skip(what + " in two network namespaces", "no veth here")
        yield pair if made else None
    finally:
        ip("netns", "del", a)
        ip("netns", "del", b)
