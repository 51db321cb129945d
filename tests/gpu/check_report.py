# SPDX-License-Identifier: Apache-2.0
"""What a report of a GPU run must have. Prints a line per finding; exit status 1 when something is missing.

usage: check_report.py REPORT.json event | kernel | captured N | ran ALGO PROTO BYTES | python
"""
import json
import sys

report = json.load(open(sys.argv[1]))
what, rest = sys.argv[2], sys.argv[3:]
rows = report["rows"]
FASTEST = 2000  # GB/s; no link of a GPU moves more (NVLink 5: 1,800 both ways)


def timed_by(clock):
    """Rows timed by this clock, printed; times and bandwidths must be ones a machine can have."""
    found = [r for r in rows if r["clock"] == clock and r["timed"]]
    for r in found:
        bandwidth = r["busbw_gbs"]
        print(f"  {r['call']:>13} {r['bytes']:>11,} B  count {r['count']:>6}  timed {r['timed']:>6}  p50 {r['p50_us']:>9.1f} us"
              f"  busbw {bandwidth or 0:>8.3f} GB/s  {r['algo'] or '-'} {r['proto'] or '-'} ch {r['channels'] or '-'}  clock {clock}")
        assert 0 < r["p50_us"] <= r["max_us"] * 1.07, "p50 beyond the maximum"
        assert bandwidth is None or 0 < bandwidth < FASTEST, f"bandwidth {bandwidth} GB/s"
    assert found, f"no row has times by clock={clock}"
    # of calls that were not all timed the page says how sure it is; a loaded machine has it time a third of them
    assert report["gpu_share"] is None or report["gpu_share"] - report["gpu_share_pm"] <= 1.05, "more time on the GPU than there was"


try:
    if what in ("event", "kernel"):
        timed_by(what)
    elif what == "captured":
        calls = sum(r["count"] for r in rows if r["captured"])
        print(f"  {calls} calls marked as captured")
        assert calls == int(rest[0]), f"expected {rest[0]}"
        assert all(r["clock"] == "none" for r in rows if r["captured"]), "a captured call with a time"
    elif what == "ran":
        algo, proto, size = rest[0], rest[1], int(rest[2])
        mine = [r for r in rows if r["call"] == "AllReduce" and r["bytes"] == size]
        for r in mine:
            print(f"  AllReduce {size:,} B: {r['algo']} {r['proto']} on {r['channels']} channels, {r['calls']} calls")
        assert any(r["algo"] == algo and r["proto"] == proto for r in mine), f"nothing ran as {algo} {proto}"
        assert all((r["algo"], r["proto"]) in ((algo, proto), (None, None)) for r in mine), "some calls ran otherwise"
    elif what == "python":
        sites = [s for s in report["sites"] if any(".py:" in f for f in s["frames"])]
        print(f"  {len(sites)} of {len(report['sites'])} call sites have Python frames"
              + (": " + " <- ".join([f for f in sites[0]["frames"] if ".py:" in f][:4]) if sites else ""))
        assert sites, "no call site has a Python frame"
    else:
        sys.exit(__doc__)
except AssertionError as wrong:
    print("check_report:", what, wrong)
    sys.exit(1)
