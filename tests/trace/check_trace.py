#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo trace: strict JSON, the trace event format, and what a picture of time must not have.

usage: check_trace.py CAPO GEN_JOB SOURCE
Nothing of capo reads the traces: Python's json and gzip do, and jsonschema where it is installed.
"""
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

capo, gen_job, source = sys.argv[1:]
SCHEMA = json.load(open(os.path.join(source, "tests/trace/trace_schema.json")))


def run(*words, status=0):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == status, (words, done.returncode, done.stderr)
    return done


def no_constant(word):
    raise ValueError(f"{word} is not JSON")


def unique(pairs):
    made = dict(pairs)
    assert len(made) == len(pairs), f"a key twice: {pairs}"
    return made


def parse(text):
    return json.loads(text, parse_constant=no_constant, object_pairs_hook=unique)


def check_lines(events):
    """Every line has a name; bars on one line lie beside each other or one inside the other."""
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    lines = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            assert (e["pid"], e["tid"]) in named and e["pid"] in processes, e
            lines[e["pid"], e["tid"]].append((round(e["ts"] * 1000), -round(e["dur"] * 1000), e))
    for bars in lines.values():
        open_until = []
        for begin, less, e in sorted(bars, key=lambda b: b[:2]):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or begin - less <= open_until[-1], f"{e} overlaps the one before"
            open_until.append(begin - less)
    return lines


def check_arrows(events, lines, ordered):
    """One begin, one end, each point on a bar of its line, and in the order of time: Perfetto drops an arrow that ends before it begins."""
    arrows = collections.defaultdict(list)
    for e in events:
        if e["ph"] in "stf":
            arrows[e["id"]].append(e)
            at = round(e["ts"] * 1000)
            assert any(b <= at <= b - n for b, n, _ in lines[e["pid"], e["tid"]]), f"{e} is on no bar"
    for points in arrows.values():
        kinds = collections.Counter(p["ph"] for p in points)
        assert kinds["s"] == 1 and kinds["f"] == 1 and len({p["pid"] for p in points}) == len(points), points
        assert not ordered or [p["ph"] for p in sorted(points, key=lambda p: (p["ts"], "stf".index(p["ph"])))] == ["s"] + ["t"] * kinds["t"] + ["f"], points
    return len(arrows)


def check(text, ordered=True):
    trace = parse(text)
    events = trace["traceEvents"]
    if jsonschema:
        jsonschema.Draft202012Validator(SCHEMA).validate({"displayTimeUnit": trace["displayTimeUnit"], "traceEvents": events[:150] + events[-150:]})
    for e in events:
        assert e["ts"] >= 0 and e.get("dur", 0) >= 0, e
        assert e.get("cat") != "host" or "clock" not in e["args"], e
    lines = check_lines(events)
    return events, check_arrows(events, lines, ordered)


def bars(events, cat):
    return [e for e in events if e.get("cat") == cat and e["ph"] == "X"]


def check_whole(work):
    """Three ranks on two hosts, one of them late: all of it, and windows of it."""
    logs = os.path.join(work, "logs")
    os.mkdir(logs)
    made = int(run(gen_job, logs, "layout=2+1", "steps=60", "sizes=25M,1M", "gpu=1", "trace=1", "late_rank=1", "late_ns=300000").stdout)
    text = run(capo, "trace", logs).stdout
    events, arrows = check(text)
    host, gpu, waiting, steps = (bars(events, cat) for cat in ("host", "gpu", "waiting", "step"))
    kept = sum(re.match(r"    \d+ \+\d+ ", line) is not None
               for name in os.listdir(logs) for line in run(capo, "dump", "--records", os.path.join(logs, name)).stdout.splitlines())
    assert len(host) == kept == made, (len(host), kept, made)
    assert len(gpu) == 3 * 120 and arrows == 120, (len(gpu), arrows)
    late = [e for e in waiting if e["name"] == "waiting for rank 1" and e["dur"] > 200]
    assert len(late) > 100 and all(e["pid"] != 2 for e in late), len(late)
    assert [e["args"]["step"] for e in steps] == list(range(1, len(steps) + 1)) and len(steps) >= 58, len(steps)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert any(re.match(r"rank 2  node-b0 pid \d+$", n) for n in names), names
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} >= {"host thread 0", "GPU dp"}
    assert {"train_step <- main"} == {e["args"]["site"] for e in host}
    packed = os.path.join(work, "t.json.gz")
    said = run(capo, "trace", "-o", packed, logs).stderr
    assert f"wrote {packed}: {made} calls" in said, said
    assert gzip.open(packed, "rt").read() == text
    assert run(capo, "dump", "--chrome", logs).stdout == text, "the earlier name of it"
    check_windows(logs, events)


def check_windows(logs, events):
    some = bars(check(run(capo, "trace", "--ranks", "0,2-9", logs).stdout)[0], "host")
    assert {e["pid"] for e in some} == {1, 3}
    a, b = 1.010, 1.020
    some = bars(check_json(run(capo, "trace", "--from", str(a), "--to", f"{b}s", logs).stdout), "host")
    want = [e for e in bars(events, "host") if e["ts"] + e["dur"] > a * 1e6 and e["ts"] < b * 1e6]
    assert some == want and 0 < len(want) < 100, (len(some), len(want))
    some = bars(check_json(run(capo, "trace", "--steps", "10-12", logs).stdout), "step")
    assert [e["args"]["step"] for e in some] == [10, 11, 12], some
    total = json.loads(run(capo, "report", "--json", logs).stdout)["steps"]["total"]
    last = run(capo, "trace", "--steps", f"{total}-{total}", logs).stdout
    assert bars(check_json(last), "host"), "the last step that the report counts"
    for words in ["--steps", "x"], ["--steps", "0-3"], ["--steps", "3-2"], ["--ranks", "1,"], ["--ranks", "9"], ["--from", "2", "--to", "1"], ["--steps", "900"]:
        done = run(capo, "trace", *words, logs, status=2)
        assert "expected" in done.stderr or "--" in done.stderr, done.stderr
    assert "no calls" in run(capo, "trace", "--from", "1000", logs).stderr


def check_queued(work):
    """Calls that follow one another at once, with begins rounded to 100 ns: none is drawn shorter than it was."""
    logs = os.path.join(work, "queued")
    os.mkdir(logs)
    run(gen_job, logs, "layout=2", "steps=200", "sizes=1M", "gpu=1", "trace=1", "queued=1", "slow_ns=1500000")
    took = sorted(int(ns) for name in os.listdir(logs) for ns in re.findall(r"gpu_ns (\d+)$", run(capo, "dump", "--records", os.path.join(logs, name)).stdout, re.M))
    drawn = sorted(round(e["dur"] * 1000) for e in bars(check(run(capo, "trace", logs).stdout)[0], "gpu"))
    assert len(took) == 400 and drawn == took, [(a, b) for a, b in zip(drawn, took) if a != b][:5]


def check_json(text):
    return parse(text)["traceEvents"]


def check_others(work):
    """Something of everything; recorded patterns; host times alone; a log of the first version."""
    for name, words in {"mixed": ["mixed"], "host": ["layout=2", "steps=10", "trace=1"], "symk": ["layout=2", "steps=9", "sizes=1M,2M", "gpu=1", "symk=1", "trace=1"]}.items():
        logs = os.path.join(work, name)
        os.mkdir(logs)
        run(gen_job, logs, *words)
        check(run(capo, "trace", logs).stdout)
    for name in "pipeline", "groups", "collectives", "graph":
        logs = os.path.join(work, name)
        os.mkdir(logs)
        run(gen_job, logs, "pattern", os.path.join(source, f"tests/patterns/{name}.pattern"), "copies=2", "rounds=3")
        check(run(capo, "trace", logs).stdout)
    # calls of 0.2 ms whose places on the GPU are known to 0.04 ms
    check(run(capo, "trace", os.path.join(source, "tests/golden/sample-v1")).stdout, ordered=False)
    done = run(capo, "trace", os.path.join(work, "nothing"), status=1)
    assert "nothing" in done.stderr


with tempfile.TemporaryDirectory() as work:
    check_whole(work)
    check_queued(work)
    check_others(work)
print("traces are valid" + ("" if jsonschema else "; without python3-jsonschema the schema was not compared"))
