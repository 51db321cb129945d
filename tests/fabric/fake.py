#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fake provider in all its moods: under capo the program's output must be what it is without, and the counts right.

usage: fake.py CAPO LIBCAPO.SO CLIENT DLSYM LIBFABRIC.SO POSTS MEET
       fake.py CAPO LIBCAPO.SO CLIENT FOLDER    as a provider in FOLDER that a real libfabric loads; the client for one
                                                before 2.0 is fake_old_client
"""
import json
import os
import re
import subprocess
import sys
import tempfile

capo, libcapo, client = (os.path.abspath(p) for p in sys.argv[1:4])

MOODS = ["", "compare", "compare,enable", "compare,inplace", "inplace,poison", "reenter", "reenter,compare", "swapcq", "softcq", "forward", "forward,swapcq",
         "truncated", "truncated,compare", "short", "size0", "big", "busy", "busy,compare", "poison", "same", "again",
         "nested", "constant", "constant,compare"] + ["fail=" + w for w in ("fabric", "domain", "endpoint", "cq", "cntr", "eq", "pep", "mr", "bind",
                                            "enable", "send", "read", "close")] + ["fail=close,poison"]

# What the client does in its three rounds, by kind: operations and bytes. fake_client.c, post_and_read().
WHOLE = {"send": (3 * 8 + 1, 3 * 4 * (64 + 300) + 1), "recv": (12, 12 * 4096), "inject": (12, 12 * 8),
         "tsend": (8, 8 * 128), "write": (4, 4000), "read": (4, 4000), "atomic": (4, 128)}
TWO_ROUNDS = {"send": (2 * 8, 2 * 4 * (64 + 300)), "recv": (8, 8 * 4096), "inject": (8, 8 * 8), "tsend": (4, 4 * 128)}
EXPECT = {m: WHOLE for m in ("", "compare", "compare,enable", "compare,inplace", "inplace,poison", "reenter",
                             "reenter,compare", "swapcq", "softcq", "forward", "forward,swapcq", "busy", "busy,compare", "poison", "same", "nested", "fail=close",
                             "fail=close,poison", "fail=eq", "fail=pep", "fail=cntr", "fail=mr", "fail=enable",
                             "fail=read")}
EXPECT.update({"truncated": TWO_ROUNDS, "truncated,compare": TWO_ROUNDS})

VERSIONS = ["1.0", "1.1", "2"]
plugin = len(sys.argv) == 5
if plugin:
    os.environ["FI_PROVIDER_PATH"] = os.path.abspath(sys.argv[4])
    said = subprocess.run(["fi_info", "--version"], stdout=subprocess.PIPE, timeout=100).stdout.decode()
    version = re.search(r"libfabric: (\d+)\.(\d+)", said)
    if os.environ.get("EXPECT_LIBFABRIC", ".".join(version.groups())) != ".".join(version.groups()):
        sys.exit("this is libfabric %s" % said)
    if os.path.basename(client) == "fake_old_client":
        VERSIONS.remove("2")
    print(said.splitlines()[1] if len(said.splitlines()) > 1 else said)

failures = 0


def fail(what, text=""):
    global failures
    failures += 1
    print("FAIL", what)
    if text:
        print(text)


def run(mood, version, extra):
    env = {**os.environ, "FAKE": mood, **extra}
    env.pop("LD_PRELOAD", None) if not extra else None
    r = subprocess.run([client, version], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    return r.returncode, r.stdout.decode()


for mood in MOODS:
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as tmp:
            bare = run(mood, version, {})
            ours = run(mood, version, {"LD_PRELOAD": libcapo, "CAPO_DIR": tmp})
            if bare != ours:
                fail("%s %s: not as without capo" % (mood, version), "%s\n--- capo:\n%s" % (bare, ours))
                continue
            if bare[0] != 0:
                fail("%s %s: status %d" % (mood, version, bare[0]))
            if mood == "fail=fabric":
                continue
            report = subprocess.run([capo, "report", "--json", tmp], stdout=subprocess.PIPE, timeout=100)
            fabric = json.loads(report.stdout)["fabric"]
            if mood in ("fail=domain", "size0", "big", "constant", "constant,compare"):
                if any(d["ops"] or [n["kind"] for n in d["notes"]] != ["unseen"] for d in fabric):
                    fail("%s %s: counted what cannot be" % (mood, version), fabric)
                continue
            if len(fabric) != 1:
                fail("%s %s: %d domains" % (mood, version, len(fabric)))
                continue
            got = {k: (v["count"], v["bytes"]) for k, v in fabric[0]["ops"].items()}
            if mood in EXPECT and got != EXPECT[mood]:
                fail("%s %s: counts" % (mood, version), "%s\nexpected %s" % (got, EXPECT[mood]))
            reads = [int(line.split()[1]) for line in ours[1].splitlines() if line.startswith("cq ") and "after" not in line]
            reads = [n for n in reads if n > 0]
            opened = 1 + (mood == "")
            if mood in EXPECT and fabric[0]["completions"] != sum(reads):
                fail("%s %s: %d completions, the program saw %d" % (mood, version, fabric[0]["completions"], sum(reads)))
            if mood in EXPECT and mood != "fail=read" and fabric[0]["received"] != {"count": sum(reads), "bytes": 100 * sum(reads)}:
                fail("%s %s: received %s" % (mood, version, fabric[0]["received"]))
            refused = ours[1].count(" -11\n") - sum(line in ("cq -11", "eq_read -11", "cq after ep -11") for line in ours[1].splitlines())
            if mood == "again" and fabric[0]["eagain"] != refused:
                fail("%s %s: %d EAGAIN, the program saw %d" % (mood, version, fabric[0]["eagain"], refused))
            if mood == "fail=send" and not any(e["text"] == "Required key not available" for e in fabric[0]["error_list"]):
                fail("%s %s: errors" % (mood, version), fabric[0]["error_list"])
            if mood == "fail=read" and not fabric[0]["overruns"]:
                fail("%s %s: overruns" % (mood, version), fabric[0])
            if fabric[0]["domain"] != "fake0" or fabric[0]["provider"] != "fake":
                fail("%s %s: names" % (mood, version), fabric[0])

print("%d moods, %d versions each, %d failures" % (len(MOODS), len(VERSIONS), failures))
if plugin:
    sys.exit(1 if failures else 0)

# found by dlsym or dlvsym on a handle
dlsym, library = (os.path.abspath(p) for p in sys.argv[4:6])
for version in ((), ("FABRIC_1.1",), ("FABRIC_1.0",)):
    with tempfile.TemporaryDirectory() as tmp:
        r = subprocess.run([dlsym, library, *version], env={**os.environ, "LD_PRELOAD": libcapo, "CAPO_DIR": tmp, "CAPO_QUIET": "1"},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
        if r.returncode or b"absent 1" not in r.stdout:
            fail("dlsym %s: runs" % (version,), r)
        report = subprocess.run([capo, "report", "--json", tmp], stdout=subprocess.PIPE, timeout=100)
        if r.returncode == 0 and [d["domain"] for d in json.loads(report.stdout)["fabric"]] != ["fake0"]:
            fail("dlsym %s: seen" % (version,), report.stdout)

# Two threads at work on one domain. The provider says whether its tables are in place; the first endpoint sends once, the
# second, opened while the first is being opened or enabled, twice.
for where in ("open", "enable"):
    with tempfile.TemporaryDirectory() as tmp:
        command = [os.path.abspath(sys.argv[7]), where]
        env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, "FAKE": "compare,meet"}
        bare, ours = (subprocess.run(command, env={**env, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
                      for more in ({}, {"LD_PRELOAD": libcapo, "CAPO_DIR": tmp, "CAPO_QUIET": "1"}))
        if bare.returncode or b": domain 0" in bare.stdout or (bare.returncode, bare.stdout) != (ours.returncode, ours.stdout):
            fail("meet %s: not as without capo" % where, "%s\n--- capo:\n%s" % (bare, ours))
            continue
        page = json.loads(subprocess.run([capo, "report", "--json", tmp], stdout=subprocess.PIPE, timeout=100).stdout)
        d = page["fabric"][0]
        if (d["ops"]["send"]["count"], d["completions"]) != (3, 3):
            fail("meet %s: counts" % where, d)

# posted by NCCL itself on the caller's thread; across fork()
posts = os.path.abspath(sys.argv[6])


def posted(mode, mood="", **settings):
    """The report of a run that printed what a bare one prints; None, and a failure, where it did not."""
    env = {**{k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, "FAKE": mood}
    with tempfile.TemporaryDirectory() as tmp:
        ours = {**env, "LD_PRELOAD": libcapo, "CAPO_DIR": tmp, "CAPO_QUIET": "1", **settings}
        bare, under = (subprocess.run([posts, mode], env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
                       for e in (env, ours))
        if bare.returncode or (bare.returncode, bare.stdout) != (under.returncode, under.stdout):
            fail("posts %s: not as without capo" % mode, "%s\n--- capo:\n%s" % (bare, under))
            return None
        page = json.loads(subprocess.run([capo, "report", "--json", tmp], stdout=subprocess.PIPE, timeout=100).stdout)
        page["dumps"] = [subprocess.run([capo, "dump", os.path.join(tmp, log)], stdout=subprocess.PIPE, timeout=100).stdout.decode()
                         for log in os.listdir(tmp)]
        return page


page = posted("own")
if page:
    got = {c["call"]: (c["own_ops"], c["own_bytes"]) for c in page["fabric_calls"] if c["own_ops"]}
    if got != {"AllReduce": (12, 12 * 64), "Broadcast": (2, 2 * 64)}:
        fail("posts own: what the calls posted", page["fabric_calls"])
    if [d["ops"].get("send", {}).get("count") for d in page["fabric"]] != [12 + 2 + 5]:
        fail("posts own: all posts", page["fabric"])
    # each post is followed by reads until nothing comes
    if [d["empty_polls"] for d in page["fabric"]] != [12 + 2 + 5]:
        fail("posts own: empty reads", page["fabric"])
page = posted("comms")
if page:
    own = [(c["comm"] is None, c["own_ops"], c["own_bytes"]) for c in page["fabric_calls"] if c["own_ops"]]
    # 64 kinds of calls have a row; what the others posted is together
    if len(own) != 65 or sum(ops for _, ops, _ in own) != 70 * 3 or sum(size for _, _, size in own) != 70 * 3 * 64 or (True, 6 * 3, 6 * 3 * 64) not in own:
        fail("posts comms: what calls of many communicators posted", own)
page = posted("above")
if page:
    d = page["fabric"][0]
    if (d["ops"]["send"]["count"], d["completions"], d["empty_polls"]) != (7, 7, 7):
        fail("posts above: counts below another's tables", page["fabric"])
for every, samples in ("0", 0), ("1", 12 + 2 + 5):
    page = posted("own", CAPO_FABRIC_SAMPLE=every)
    latency = page and page["fabric"][0]["latency_us"]
    if page and (latency["samples"] if latency else 0) != samples:
        fail("posts own: CAPO_FABRIC_SAMPLE=%s times %d of 19 posts" % (every, samples), latency)
page = posted("odd")
if page:
    d = page["fabric"][0]
    ops = {k: (v["count"], v["bytes"]) for k, v in d["ops"].items()}
    if (ops, d["mr"]["bytes"]) != ({"peek": (1, 0), "trecv": (2, 10), "atomic": (2, 2 * 3 * 8)}, 4096):
        fail("posts odd: counts of what points nowhere", (ops, d["mr"]))
page = posted("peek")
if page:
    d = page["fabric"][0]
    ops = {k: (v["count"], v["bytes"]) for k, v in d["ops"].items()}
    # one of the six is refused at once
    if (ops, d["received"], d["errors"], d["recv_wait_us"] and d["recv_wait_us"]["samples"] > 4) != (
            {"peek": (5, 0), "trecv": (4, 4 * 4096)}, {"count": 4, "bytes": 400}, 0, False):
        fail("posts peek: a message that is looked at and then received has come once", d)
page = posted("blind")
if page:
    d = page["fabric"][0]
    if (d["recv_bytes"], d["recv_exact"], d["received"]) != (2 * 100 + 5 * 300, False, {"count": 2, "bytes": 200}):
        fail("posts blind: what came where lengths are known, and buffers where not", d)
page = posted("left", "leave")
if page:
    sends = sorted((d["ops"]["send"]["count"], d["mr"]["count"], d["mr"]["bytes"]) for d in page["fabric"])
    if sends != [(2, 1, 4096), (3, 0, 0)]:
        fail("posts left: behind a call that was left all is seen", sends)
page = posted("fork")
if page:
    by_pid = {}
    for d in page["fabric"]:
        by_pid.setdefault(d["pid"], []).append(d["ops"].get("send", {}).get("count", 0))
    # the child starts from nothing: what its parent had counted before the fork is not counted twice
    if sorted(sorted(v) for v in by_pid.values()) != [[2, 7], [5 + 3]]:
        fail("posts fork: counts of parent and child", page["fabric"])
    looks = sorted([int(re.findall(pattern, dump)[-1]) for pattern in (r"\bcntr\t.*reads=(\d+)", r"\beq\t.*empty=(\d+)")] for dump in page["dumps"])
    if looks != [[1, 1], [3, 2]]:
        fail("posts fork: what parent and child read of counters and event queues", looks)

# killed: a program of one thread keeps its counts in passing, also where no post is ever timed; the busier the machine, the later
for seconds in 1, 4, 16, 40:
    with tempfile.TemporaryDirectory() as tmp:
        env = {k: v for k, v in os.environ.items() if k != "FAKE"}
        subprocess.run([posts, "inject", str(seconds)], env={**env, "LD_PRELOAD": libcapo, "CAPO_DIR": tmp, "CAPO_QUIET": "1"},
                       stdout=subprocess.DEVNULL, timeout=100)
        report = subprocess.run([capo, "report", "--json", tmp], stdout=subprocess.PIPE, timeout=100)
        if [d["ops"].get("inject", {}).get("count", 0) > 100 for d in json.loads(report.stdout or '{"fabric": []}')["fabric"]] == [True]:
            break
else:
    fail("posts inject: counted until the last snapshot", report.stdout)

sys.exit(1 if failures else 0)
