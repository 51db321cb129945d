#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs over real providers, unmodified: what capo counted must be what they say they did.

usage: clients.py CAPO LIBCAPO.SO THREADS MANY MULTIPLEXED [LAUNCH COLL_PERF]
"""
import errno
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from checks import check, count, done, forget_shm, report, skip, two_namespaces

capo, libcapo, threads, many, multiplexed = (os.path.abspath(p) for p in sys.argv[1:6])


def preloaded(logs):
    return {**os.environ, "LD_PRELOAD": libcapo, "CAPO_DIR": logs, "CAPO_QUIET": "1"}


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
            out = client.communicate(timeout=120)[0].decode()
            if client.returncode == errno.ECONNREFUSED:
                server.kill()
            server.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            out = "timeout"
            client.kill()
            server.kill()
            client.wait()
            server.wait()
        status = server.poll(), client.poll()
        return status[0], status[1], out, {"fabric": []} if bare else report(capo, logs)


def pingpong_case(provider, endpoint, n=500, size=1024, **how):
    what = "fi_pingpong %s %s" % (provider, endpoint)
    if how.pop("name", None):
        what += " in two network namespaces"
    known = subprocess.run(["fi_info", "-p", provider, "-t", "FI_EP_" + endpoint.upper()], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=80)
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
        check(what + ": the libfabric it was to be", f["libfabric"] == os.environ.get("EXPECT_LIBFABRIC", f["libfabric"]), f["libfabric"])
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
    r = subprocess.run(["fi_info", "-l"], stdout=subprocess.PIPE, timeout=80)
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

with two_namespaces("fi_pingpong") as pair:
    if pair:
        page = pingpong_case("tcp", "msg", name=True, address=pair.address[0], server_in=pair.enter[0], client_in=pair.enter[1])
        if page:
            # (the end that listens has a domain "tcp" in libfabric 1.2x and 2.x)
            check("the ends name their own interface", pair.interface[1] in {f["domain"] for f in page["fabric"]},
                  [f["domain"] for f in page["fabric"]])

# ---- many threads on one endpoint ------------------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    r = subprocess.run([threads, "6", "3000"], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=150)
    if r.returncode == 77:
        skip("threads", r.stderr.decode().strip())
    else:
        words = r.stdout.decode().split()
        said = dict(zip(words[::2], map(int, words[1::2])))
        check("threads: runs", r.returncode == 0, (r.returncode, r.stderr))
        f = report(capo, logs)["fabric"][0]
        check("threads: sends", count(f, "tsend") == (said["sends"], 32 * said["sends"]), (f["ops"], said))
        check("threads: receives", count(f, "trecv")[0] == said["recvs"], (f["ops"], said))
        check("threads: completions", f["completions"] == said["completions"], (f["completions"], said))
        check("threads: retries", f["eagain"] == said["retries"], (f["eagain"], said))
        check("threads: messages as they arrived", f["received"] == {"count": said["recvs"], "bytes": 32 * said["recvs"]}, f["received"])

# ---- more objects than have lines of their own, and memory used again ----------------------------------------------

def many_sent(page):
    return sum(f["ops"][kind]["count"] for f in page["fabric"] for kind in ("send", "inject"))


for how in (["1000"], ["400", "keep"], ["300", "twice"], ["900", "apart"]):
    with tempfile.TemporaryDirectory() as logs:
        r = subprocess.run([many, *how], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=150)
        if r.returncode == 77:
            skip("many " + " ".join(how), r.stderr.decode().strip())
        else:
            page = report(capo, logs)
            check("many %s: all are counted" % how, many_sent(page) == int(r.stdout), (many_sent(page), r.stdout, page["problems"]))
            check("many %s: domains of one NIC share lines" % how, len(page["fabric"]) == {"twice": 2, "apart": 64}.get(how[-1], 1), len(page["fabric"]))

# ---- a provider that looks whether a domain's table is its own -------------------------------------------------------

def newest():
    """LD_LIBRARY_PATH of a libfabric 2.x that came with an MPI, where the one at hand is older; "" where there is none."""
    said = subprocess.run(["fi_info", "--version"], stdout=subprocess.PIPE, timeout=80).stdout
    deps = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.deps/mpi/mpich-5*")
    found = glob.glob(deps + "/**/libfabric.so.1", recursive=True)
    return os.path.dirname(found[0]) if found and b"libfabric: 1." in said else ""


with tempfile.TemporaryDirectory() as logs:
    env = preloaded(logs)
    if newest():
        # alone: what else lies there is not this program's
        os.symlink(newest() + "/libfabric.so.1", logs + "/libfabric.so.1")
        env["LD_LIBRARY_PATH"] = logs
    r = subprocess.run([multiplexed, "200"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=150)
    if r.returncode == 77:
        skip("multiplexed", "no libfabric 2.x: " + r.stderr.decode().strip())
    else:
        check("multiplexed: runs", r.returncode == 0 and r.stdout == b"400\n", r)
        f = report(capo, logs)["fabric"]
        check("multiplexed: sends", [count(d, "tsend", "inject") for d in f] == [(400, 400 * 64)], f)
        check("multiplexed: completions", [d["completions"] for d in f] == [800], f)

# ---- killed: what the snapshots of the first seconds have is left --------------------------------------------------

# Snapshots are taken about every second, later on a loaded machine: so a few tries, each with more time.
for wait in 2.5, 5, 10, 20, 40:
    with tempfile.TemporaryDirectory() as logs:
        p = subprocess.Popen([threads, "2", "1000000000"], env=preloaded(logs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        if p.poll() == 77:
            skip("killed", "no shm provider")
            break
        p.kill()
        p.wait()
        forget_shm(p.pid)
        page = report(capo, logs)
        counted = bool(page["fabric"]) and count(page["fabric"][0], "tsend")[0] > 100
        if counted or wait == 40:
            check("killed: counted until the last snapshot", counted, page)
            break

# ---- both layers: the stand-in NCCL on libfabric -------------------------------------------------------------------

if len(sys.argv) > 7:
    launch, coll_perf = (os.path.abspath(p) for p in sys.argv[6:8])
    with tempfile.TemporaryDirectory() as logs:
        r = subprocess.run([capo, "run", "--trace", "all", "--quiet", "--dir", logs, "--", launch, "--layout", "1+1", "--timeout", "60",
                            "--", coll_perf, "allreduce", "-b", "256K", "-e", "1M", "-n", "20"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90)
        check("both layers: runs", r.returncode == 0, r.stdout.decode()[-500:])
        page = report(capo, logs)
        sent = sum(f["sent_bytes"] for f in page["fabric"])
        calls = page.get("fabric_calls", [])
        divided = sum(c["sent_by_time"] for c in calls)
        check("both layers: nothing lost or doubled by dividing", sent > 0 and abs(sent - divided) <= 0.001 * sent + 100, (sent, divided))
        best = max(calls, key=lambda c: c["sent_by_time"], default={})
        check("both layers: most of it was AllReduce", best.get("call") == "AllReduce" and best["sent_by_time"] > 0.5 * sent, calls)

# fabtests, where somebody has installed them
if shutil.which("fi_rdm_pingpong"):
    skip("fabtests", "present, but run by hand")
else:
    skip("fabtests", "no package of this distribution has them")

done()
