#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of a collective's time the network was, against a program that knows (share.c), and what a kill leaves.

usage: share.py CAPO LIBCAPO.SO SHARE
"""
import json
import os
import subprocess
import sys
import tempfile
import time

capo, libcapo, share = (os.path.abspath(p) for p in sys.argv[1:4])
failures = passed = skipped = 0


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
    r = subprocess.run([capo, "report", "--json", logs], stdout=subprocess.PIPE, timeout=30)
    return json.loads(r.stdout)


# ---- killed: all but the last moments is left ------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    p = subprocess.Popen([share, "shm", "100"], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(2)
    p.kill()
    said = [line.split() for line in p.communicate()[0].decode().splitlines()]
    if p.returncode == 77:
        skip("killed", "no shm provider")
    else:
        page = report(logs)
        known = [int(word[1]) for word in said if float(word[3]) < float(said[-1][3]) - 0.8]
        check("killed: counted until shortly before", page["fabric"] and known and
              sum(o["count"] for k, o in page["fabric"][0]["ops"].items() if k in ("tsend", "inject")) >= known[-1], (page["fabric"], said))
        check("killed: so are the looks", sum(c["looks"] for c in page["fabric_calls"]) > 10, page["fabric_calls"])

# ---- how much of a call was network ----------------------------------------------------------------------------------
# share.c knows by its own clock. The 95 % interval is doubled, to 4 standard deviations, so that chance alone fails one
# run in ten thousand; 2 points more for the ends of stretches, which a look sees 50 us wide.

for provider, seconds in (("shm", "5"), ("tcp;ofi_rxm", "3")):
    with tempfile.TemporaryDirectory() as logs:
        r = subprocess.run([share, provider, seconds], env={**preloaded(logs), "CAPO_TRACE": "all"}, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=60)
        if r.returncode == 77:
            skip("share of the network, " + provider, r.stderr.decode().strip())
            continue
        calls = {c["call"]: c for c in report(logs)["fabric_calls"] if c["comm"] is not None}
        truths = [line.split()[1:] for line in r.stdout.decode().splitlines() if line.startswith("truth")]
        check("share of the network: runs", r.returncode == 0 and len(truths) == 4, r.stderr)
        for name, n, call_ns, network_ns in truths:
            what = "share of the network, %s, %s" % (provider, name)
            call, true = calls[name], int(network_ns) / int(call_ns)
            network, wait = call["network"], call["wait"]
            check(what + ": calls", (call["calls"], network["sure"]) == (int(n), True), call)
            check(what + ": looks", call["looks"] >= 10 * int(seconds), call)
            check(what + ": true part", network["low"] - (network["high"] - network["low"]) / 2 - 0.02 <= true <=
                  network["high"] + (network["high"] - network["low"]) / 2 + 0.02, (true, network))
            check(what + ": interval", network["low"] <= network["share"] <= network["high"], network)
            if name == "Broadcast":
                check(what + ": none at all", network["share"] < 0.03 and wait["share"] < 0.03, call)
            if name == "AllGather":
                check(what + ": all of it", network["share"] > 0.9 and network["high"] > 0.97, call)
            if name == "ReduceScatter":
                check(what + ": injects are never outstanding", wait["share"] < 0.03, call)
            print("%s: true %.3f, looks say %.3f (%.3f to %.3f)" % (what, true, network["share"], network["low"], network["high"]))

print("%d checks, %d failed, %d skipped" % (passed + failures, failures, skipped))
sys.exit(1 if failures else 0)
