#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of a collective's time the network was, against a program that knows (share.c), and what a kill leaves.

usage: share.py CAPO LIBCAPO.SO SHARE
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, done, forget_shm, report, skip

capo, libcapo, share = (os.path.abspath(p) for p in sys.argv[1:4])


def preloaded(logs):
    return {**os.environ, "LD_PRELOAD": libcapo, "CAPO_DIR": logs, "CAPO_QUIET": "1"}


# ---- killed: all but the last moments is left ------------------------------------------------------------------------

with tempfile.TemporaryDirectory() as logs:
    p = subprocess.Popen([share, "shm", "100"], env=preloaded(logs), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = []
    for line in p.stdout:
        said.append(line.decode().split())
        if float(said[-1][3]) > 1.5:
            p.kill()
    status = p.wait()
    forget_shm(p.pid)
    if status == 77:
        skip("killed", "no shm provider")
    else:
        page = report(capo, logs)
        known = [int(word[1]) for word in said if float(word[3]) < float(said[-1][3]) - 0.8]
        check("killed: counted until shortly before", page["fabric"] and known and
              sum(o["count"] for k, o in page["fabric"][0]["ops"].items() if k in ("tsend", "inject")) >= known[-1], (page["fabric"], said))
        check("killed: so are the looks", sum(c["looks"] for c in page["fabric_calls"]) > 10, page["fabric_calls"])

# ---- how much of a call was network ----------------------------------------------------------------------------------
# share.c knows by its own clock. What of the 95 % interval is chance is doubled, to 4 standard deviations, so that chance
# alone fails one run in ten thousand; 2 points more for the ends of stretches, which a look sees 50 us wide. One look may
# belong to the moment after: between its clock and its reading it lost its core.


def look(provider, seconds, *queues, stopped=False):
    """Everything that does not fit, or None when the provider is not there."""
    with tempfile.TemporaryDirectory() as logs:
        p = subprocess.Popen([share, provider, str(seconds), *queues],
                             env={**preloaded(logs), "CAPO_TRACE": "all", "CAPO_FABRIC_LOOK": "5"},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while stopped and p.poll() is None:  # neither it nor the looks get on
            time.sleep(0.1)
            p.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            p.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=60)
        if p.returncode == 77:
            return None
        calls = {c["call"]: c for c in report(capo, logs)["fabric_calls"] if c["comm"] is not None}
    truths = [line.split()[1:] for line in out.splitlines() if line.startswith("truth")]
    known = queues != ("context",)  # nothing tells sends' completions from receives' there
    bad = [] if p.returncode == 0 and len(truths) == 4 else [err]
    for name, n, call_ns, network_ns in truths:
        call, true = calls[name], int(network_ns) / int(call_ns)
        network, wait = call["network"], call["wait"]
        unseen = call["looks_unseen"]
        more = (network["high"] - network["low"] - unseen) / 2 + 0.02
        one = max(0.03, 1.5 / call["looks"])
        fits = {
            "calls": call["calls"] == int(n),
            "looks": call["looks"] >= (1 - unseen) * call["calls_us"] / 5000 / 4,
            "is it all": network["sure"] == known and (wait is not None) == known,
            "interval": network["low"] <= network["share"] <= network["high"],
            "no more than the truth": network["low"] - more <= true,
            "no less": not known or true <= network["high"] + more,
            "none at all": name != "Broadcast" or (network["share"] < one and (not known or wait["share"] < one)),
            "all of it": name != "AllGather" or not known or network["share"] > true - 0.1,
            "injects are never outstanding": name != "ReduceScatter" or not known or wait["share"] < one,
        }
        bad += [(name, what, true, call) for what, fit in fits.items() if not fit]
        print("%s: true %.3f, looks say %.3f (%.3f to %.3f), %.3f unseen" %
              (" ".join((provider, *queues, name)), true, network["share"], network["low"], network["high"], unseen))
    return bad


# Where other work keeps the program or the looks off the cores for long, a run may say less than it should: three tries.
for case, stopped in ((("shm", 4), False), (("tcp;ofi_rxm", 2, "one"), False), (("shm", 2, "writes"), False),
                      (("shm", 1, "context"), False), (("shm", 3), True)):
    for attempt in range(3):
        bad = look(*case, stopped=stopped)
        if not bad:
            break
    if bad is None:
        skip("share of the network, " + case[0], "no such provider here")
    else:
        check("share of the network, %s%s" % (case, ", stopped now and then" if stopped else ""), not bad, bad)

done()
