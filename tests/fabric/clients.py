#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs over real providers, unmodified: what capo counted must be what they say they did.

usage: clients.py CAPO LIBCAPO.SO THREADS MANY [LAUNCH COLL_PERF]
"""
import errno
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

capo, libcapo, threads, many = (os.path.abspath(p) for p in sys.argv[1:5])
here = os.path.dirname(os.path.abspath(__file__))
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


def preloaded(logs):
    return {**os.environ, "LD_PRELOAD": libcapo, "CAPO_DIR": logs, "CAPO_QUIET": "1"}


def report(logs):
    r = subprocess.run([capo, "report", "--json", logs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    return json.loads(r.stdout) if r.returncode == 0 else {"fabric": [], "problems": [r.stderr.decode()]}


def count(fabric, *kinds):
    return tuple(sum(fabric["ops"].get(k, {}).get(what, 0) for k in kinds) for what in ("count", "bytes"))


# ---- fi_pingpong -----------------------------------------------------------------------------------------------------

def pingpong(*args, **how):
    """Both ends, up to three times when they did not find each other: (server status, client status, output, report)."""
    for wait in (0.3, 1, 3):
        r = pingpong_once(wait, *args, **how)
        if r[0] != errno.EADDRINUSE and r[1] != errno.ECONNREFUSED:
            break
    return r


def pingpong_once(wait, provider, endpoint, n, size, address="127.0.0.1", server_in=(), client_in=(), extra_env=None,
                  through_run=False, bare=False):
    with tempfile.TemporaryDirectory() as logs:
        port = str(random.randint(10000, 30000))
        base = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", str(n), "-S", str(size)]
        env = {**preloaded(logs), **(extra_env or {})}
        if bare:
            env = {**os.environ, **(extra_env or {})}
        prefix = []
        if through_run:
            env = {**os.environ, "CAPO_QUIET": "1"}
            prefix = [capo, "run", "--dir", logs, "--"]
        server = subprocess.Popen([*server_in, *prefix, *base, "-B", port], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        time.sleep(wait)
        client = subprocess.Popen([*client_in, *prefix, *base, "-P", port, address], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        try:
            out = client.communicate(timeout=30)[0].decode()
            if client.returncode == errno.ECONNREFUSED:
                server.kill()
            server.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            out = "timeout"
            client.kill()
            server.kill()
            client.wait()
            server.wait()
        status = server.poll(), client.poll()
        return status[0], status[1], out, {"fabric": []} if bare else report(logs)


def pingpong_case(provider, endpoint, n=500, size=1024, **how):
    what = "fi_pingpong %s %s" % (provider, endpoint)
    if how.pop("name", None):
        what += " in two network namespaces"
    known = subprocess.run(["fi_info", "-p", provider, "-t", "FI_EP_" + endpoint.upper()], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=20)
    if known.returncode:
        return skip(what, "this libfabric does not have it")
    a, b, out, page = pingpong(provider, endpoint, n, size, **how)
    check(what + ": runs", a == 0 and b == 0, (a, b, out))
    if a or b or a is None:
        return None
    check(what + ": two processes", len(page["fabric"]) == 2, len(page["fabric"]))
    for f in page["fabric"]:
        # n messages of `size`, and one of 4 bytes at the end (pingpong.c, pp_finalize)
        check(what + ": sent", count(f, "send", "inject") == (n + 1, n * size + 4), f["ops"])
        posted, bytes_ = count(f, "recv")
        check(what + ": received", posted in (n + 1, n + 2) and bytes_ >= n * size, f["ops"])
        check(what + ": completions", f["completions"] == n + 1 + count(f, "send")[0], f["completions"])
        check(what + ": provider", f["provider"] == provider, f["provider"])
        check(what + ": no errors", f["errors"] == 0, f["error_list"])
        if provider != "shm":
            check(what + ": names the interface", f["domain"], f)
    return page


pingpong_case("tcp", "msg")
pingpong_case("tcp;ofi_rxm", "rdm")
pingpong_case("tcp;ofi_rxm", "rdm", through_run=True)
pingpong_case("udp", "dgram")
pingpong_case("shm", "rdm")
# Debian's sockets provider needs milliseconds per message when two processes spin on two cores, with and without capo
pingpong_case("sockets", "rdm", n=20)
pingpong_case("sockets", "msg", n=20)
pingpong_case("sockets", "dgram", n=20)

# FI_HOOK providers below us keep working, and see what they saw
for hook in ("noop", "perf"):
    r = subprocess.run(["fi_info", "-l"], stdout=subprocess.PIPE, timeout=20)
    if b"ofi_hook_" + hook.encode() in r.stdout:
        if pingpong("tcp;ofi_rxm", "rdm", 100, 64, extra_env={"FI_HOOK": hook}, bare=True)[:2] == (0, 0):
            pingpong_case("tcp;ofi_rxm", "rdm", extra_env={"FI_HOOK": hook})
        else:
            skip("FI_HOOK=" + hook, "fails without capo, too")

# ---- a machine with InfiniBand whose job runs over tcp ---------------------------------------------------------------

with tempfile.TemporaryDirectory() as sys_:
    os.makedirs(sys_ + "/class/infiniband/mlx5_7")
    page = pingpong_case("tcp", "msg", extra_env={"CAPO_SYSFS": sys_})
    if page:
        check("warns of tcp beside InfiniBand", any("mlx5_7" in p and "tcp" in p for p in page["problems"]), page["problems"])

# ---- two network namespaces ------------------------------------------------------------------------------------------

tag = "capo%d" % os.getpid()


def ip(*args):
    return subprocess.run(["ip", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


if shutil.which("ip") and ip("netns", "add", tag + "a"):
    try:
        made = (ip("netns", "add", tag + "b") and
                ip("link", "add", tag[-8:] + "a", "netns", tag + "a", "type", "veth", "peer", "name", tag[-8:] + "b", "netns", tag + "b"))
        for end, address in (("a", "10.199.7.1/24"), ("b", "10.199.7.2/24")):
            made = made and ip("-n", tag + end, "addr", "add", address, "dev", tag[-8:] + end)
            made = made and ip("-n", tag + end, "link", "set", tag[-8:] + end, "up")
            made = made and ip("-n", tag + end, "link", "set", "lo", "up")
        if made:
            page = pingpong_case("tcp", "msg", name=True, address="10.199.7.1",
                                 server_in=("ip", "netns", "exec", tag + "a"), client_in=("ip", "netns", "exec", tag + "b"))
            if page:
                # (the end that listens has a domain "tcp" in libfabric 1.2x and 2.x)
                check("the ends name their own interface",
                      {tag[-8:] + "b"} <= {f["domain"] for f in page["fabric"]} | {f["domain"][:-1] + "b" for f in page["fabric"]},
                      [f["domain"] for f in page["fabric"]])
        else:
            skip("two network namespaces", "no veth here")
    finally:
        ip("netns", "del", tag + "a")
        ip("netns", "del", tag + "b")
else:
    skip("two network namespaces", "not permitted")

# ---- many threads on one endpoint ------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    r = subprocess.run([threads, "6", "3000"], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if r.returncode == 77:
        skip("threads", r.stderr.decode().strip())
    else:
        words = r.stdout.decode().split()
        said = dict(zip(words[::2], map(int, words[1::2])))
        check("threads: runs", r.returncode == 0, (r.returncode, r.stderr))
        f = report(logs)["fabric"][0]
        check("threads: sends", count(f, "tsend") == (said["sends"], 32 * said["sends"]), (f["ops"], said))
        check("threads: receives", count(f, "trecv")[0] == said["recvs"], (f["ops"], said))
        check("threads: completions", f["completions"] == said["completions"], (f["completions"], said))
        check("threads: retries", f["eagain"] == said["retries"], (f["eagain"], said))
        check("threads: messages as they arrived", f["received"] == {"count": said["recvs"], "bytes": 32 * said["recvs"]}, f["received"])

# ---- more objects than have lines of their own, and memory used again ----------------------------------------------

for how in (["1000"], ["400", "keep"]):
    with tempfile.TemporaryDirectory() as logs:
        r = subprocess.run([many, *how], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if r.returncode == 77:
            skip("many " + " ".join(how), r.stderr.decode().strip())
        else:
            n = int(r.stdout)
            page = report(logs)
            check("many %s: all are counted" % how, count(page["fabric"][0], "send", "inject") == (n, 64 * n), (n, page["fabric"][0]["ops"]))

# ---- killed: what the snapshots of the first seconds have is left --------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    p = subprocess.Popen([threads, "2", "1000000000"], env=preloaded(logs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2.5)
    if p.poll() == 77:
        skip("killed", "no shm provider")
    else:
        p.kill()
        p.wait()
        for left in glob.glob("/dev/shm/%d:*" % p.pid):  # the shm provider's segment goes only when its process closes it
            os.unlink(left)
        page = report(logs)
        check("killed: counted until the last snapshot", page["fabric"] and count(page["fabric"][0], "tsend")[0] > 100, page)

# ---- both layers: the stand-in NCCL on libfabric -------------------------------------------------------------------

if len(sys.argv) > 6:
    launch, coll_perf = (os.path.abspath(p) for p in sys.argv[5:7])
    with tempfile.TemporaryDirectory() as logs:
        r = subprocess.run([capo, "run", "--trace", "all", "--quiet", "--dir", logs, "--", launch, "--layout", "1+1", "--timeout", "60",
                            "--", coll_perf, "allreduce", "-b", "256K", "-e", "1M", "-n", "20"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90)
        check("both layers: runs", r.returncode == 0, r.stdout.decode()[-500:])
        page = report(logs)
        sent = sum(f["sent_bytes"] for f in page["fabric"])
        calls = page.get("fabric_calls", [])
        divided = sum(c["sent_by_time"] for c in calls)
        check("both layers: nothing lost or doubled by dividing", sent > 0 and abs(sent - divided) <= 0.001 * sent + 100, (sent, divided))
        best = max(calls, key=lambda c: c["sent_by_time"], default={})
        check("both layers: most of it was AllReduce", best.get("call") == "AllReduce" and best["sent_by_time"] > 0.5 * sent, calls)

# ---- MPI -------------------------------------------------------------------------------------------------------------


def mpi(name, wrapper, launch, n, size):
    """An all-reduce loop on two ranks; both must have moved n * size bytes each way: with two ranks recursive doubling
    sends the whole vector once (the algorithm both choose at this size)."""
    if not shutil.which(wrapper):
        return skip(name, "no " + wrapper)
    with tempfile.TemporaryDirectory() as tmp:
        program, logs = tmp + "/allreduce", tmp + "/logs"
        built = subprocess.run([wrapper, "-O1", here + "/allreduce.c", "-o", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if built.returncode:
            return skip(name, "does not compile: " + built.stdout.decode()[:200])
        try:
            r = subprocess.run([*launch(logs), program, str(n), str(size)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        except subprocess.TimeoutExpired:
            return check(name + ": ends", False)
        text = r.stdout.decode()
        check(name + ": results", r.returncode == 0 and ": 0 wrong" in text, text)
        if not os.path.isdir(logs):
            return skip(name, "this build does not use libfabric")
        page = report(logs)
        check(name + ": ranks", sorted(f["rank"] for f in page["fabric"]) == [0, 1], [f["rank"] for f in page["fabric"]])
        for f in page["fabric"]:
            sent, arrived = f["sent_bytes"], f["recv_bytes"]
            check(name + ": bytes", n * size <= sent <= 1.01 * n * size + 65536 and n * size <= arrived <= 1.01 * n * size + 65536,
                  (sent, arrived, n * size))
        print("%s: %s" % (name, ", ".join("rank %d %s %d ops" % (f["rank"], f["provider"], sum(o["count"] for o in f["ops"].values())) for f in page["fabric"])))


mpi("Open MPI, mtl ofi", "mpicc.openmpi",
    lambda logs: ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca", "pml", "cm", "--mca", "mtl",
                  "ofi", "--mca", "mtl_ofi_provider_include", "tcp", "-x", "CAPO_DIR=" + logs, "-x", "LD_PRELOAD=" + libcapo],
    200, 65536)
mpi("MPICH", "mpicc.mpich",
    lambda logs: ["mpirun.mpich", "-np", "2", "-env", "LD_PRELOAD", libcapo, "-env", "CAPO_DIR", logs], 20, 65536)

# fabtests, where somebody has installed them
if shutil.which("fi_rdm_pingpong"):
    skip("fabtests", "present, but run by hand")
else:
    skip("fabtests", "no package of this distribution has them")

print("%d checks, %d failed, %d skipped" % (passed + failures, failures, skipped))
sys.exit(1 if failures else 0)
