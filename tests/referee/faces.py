# SPDX-License-Identifier: Apache-2.0
"""Text, JSON, CSV, HTML and trace of one job say the same: counts, bytes, times, who waits for whom, what went wrong, what next."""
import collections
import re

from job import text_table

UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "%": 0.01, None: 1}


def agrees(shown, value):
    """What a page shows is @value (of six digits), rounded to the digits that it shows; '-' is one that is not known."""
    if value is None or shown == "-":
        return value is None and shown == "-"
    if shown == "<0.001":  # GB/s
        return 0 < value < 0.001
    found = re.fullmatch(r"(?:<= )?([\d,]+)(\.\d+)? ?(B|KiB|MiB|GiB|%|ns|us|ms|s)?", shown)
    if not found:
        return False
    unit = UNITS[found[3]]
    step = unit * 10 ** (1 - len(found[2])) if found[2] else unit
    return abs(float(found[1].replace(",", "") + (found[2] or "")) * unit - value) <= 0.501 * step + 1e-5 * abs(value)


def call_name(row):
    return row["call"] + (f" of {row['group_of']}" if row.get("group_of") else "") + (" in group" if row["in_group"] else "") + (" captured" if row["captured"] else "")


def rows(job):
    """The same rows in the same order; each number as many digits as it has."""
    lines = job.sections["TIME BY CALL"][1]
    shown = text_table(lines, lines[0].split("  ")[0])
    assert len(shown) == len(job.csv) == len(job.json["rows"]), f"rows: text {len(shown)}, CSV {len(job.csv)}, JSON {len(job.json['rows'])}"
    for text, line, row in zip(shown, job.csv, job.json["rows"]):
        who = f"{job.comm_name(row['comm'])} {call_name(row)} {row['bytes']}"
        comm = text.get("comm", job.sections["TIME BY CALL"][0])
        assert text["call"] == call_name(row) and comm.split(" (")[0] == job.comm_name(row["comm"]), f"{who}: text {text}"
        assert text["algorithm"] == " ".join(filter(None, (row["algo"], row["proto"]))) or (text["algorithm"], row["algo"]) == ("-", None), f"{who}: text {text}"
        for column, key in {"size": "bytes", "calls": "count", "time": "share", "p50": "p50_us", "p95": "p95_us", "p99": "p99_us",
                            "max": "max_us", "algbw": "algbw_gbs", "busbw": "busbw_gbs"}.items():
            assert agrees(text[column], row[key]), f"{who}: {column} is {text[column]} in the text, {row[key]} in JSON"
        for column, key in {"ch": "channels", "clock": "clock"}.items():
            assert text[column] == str(row[key] or "-"), f"{who}: {column} is {text[column]} in the text, {row[key]} in JSON"
        assert line["comm"] == job.comm_name(row["comm"]) and line["call"] == row["call"], f"{who}: CSV {line}"
        for column, cell in line.items():
            key = {"size_B": "bytes", "algbw_GBs": "algbw_gbs", "busbw_GBs": "busbw_gbs"}.get(column, column)
            if column in ("comm", "call", "ranks"):
                continue
            same = cell in ("", "-") if row[key] is None else cell == row[key] if isinstance(row[key], str) else float(cell) == row[key]
            assert same, f"{who}: {column} is {cell} in CSV, {row[key]} in JSON"


def tables(job):
    """Every table of the text is one of HTML, cell by cell."""
    for title in "TIME BY CALL", "COMMUNICATORS", "NETWORK", "NETWORK BY CALL":
        lines = job.sections.get(title, ("", []))[1]
        if not lines:
            continue
        first = lines[0].split("  ")[0]
        shown = [list(row.values()) for row in text_table(lines, first)]
        names = list(text_table(lines, first)[0])
        found = [t for t in job.html.tables if t[0] == names]
        assert found, f"HTML has no table for {title}: {names}"
        body = [row for row in found[0][1:] if row[0]]
        assert body == shown, f"{title}: HTML {body}, text {shown}"


def communicators(job):
    shown = {r["name (ranks)"]: r for r in text_table(job.sections["COMMUNICATORS"][1], "name (ranks)")} if "COMMUNICATORS" in job.sections else {}
    for c in job.json["comms"] if shown else []:
        row = shown[f"{c['name']} ({c['ranks']})"]
        assert (int(row["nodes"]), row["layout"], int(row["collectives"].replace(",", "")), int(row["logs"])) == (
            c["nodes"], c["layout"], c["calls"], len(c["ranks_logged"])), f"{c['name']}: text {row}, JSON {c}"


def network(job):
    """A row per rank and NIC; what was carried for whom."""
    def total(link, key, *kinds):
        return sum(n[key] for kind, n in link["ops"].items() if not kinds or kind in kinds)

    shown = text_table(job.sections["NETWORK"][1], "rank") if "NETWORK" in job.sections else []
    assert len(shown) == len(job.json["fabric"]), "rows of NETWORK"
    left = list(job.json["fabric"])
    for row in shown:
        link = next(f for f in left if (str(f["rank"]), f["provider"]) == (row["rank"], row["provider"]))
        left.remove(link)
        numbers = {"sent": link["sent_bytes"], "recv": link["recv_bytes"], "ops": total(link, "count"), "retries": link["eagain"],
                   "empty": link["empty_polls"]}
        for column, value in numbers.items():
            assert agrees(row[column], value), f"NETWORK, rank {row['rank']}: {column} is {row[column]} in the text, {value} in JSON"
    carried = text_table(job.sections["NETWORK BY CALL"][1], "comm") if "NETWORK BY CALL" in job.sections else []
    assert len(carried) == len(job.json["fabric_calls"]), "rows of NETWORK BY CALL"
    for row, call in zip(carried, job.json["fabric_calls"]):
        assert row["comm"] == job.comm_name(call["comm"]) and row["call"] == (call["call"] or "outside recorded calls"), f"{row} {call}"
        for column, key in ("sent", "sent_by_time"), ("recv", "recv_by_time"), ("ops", "ops_by_time"):
            assert agrees(row[column], call[key]), f"{row['call']}: {column} is {row[column]} in the text, {call[key]} in JSON"
    guess = re.search(r"([\d,]+) of ([\d,]+) calls: GPU time is a guess(?: \(([\d.]+ %) of the bytes)?", job.html.text)
    if guess:
        guessed, calls, by_guess, sent, into = (sum(c[k] for c in job.json["fabric_calls"]) for k in ("calls_guessed", "calls", "bytes_by_guess", "sent_by_time", "recv_by_time"))
        assert any(note.startswith(guess[0]) for note in job.notes), f"HTML and text differ in what is a guess: {guess[0]}, {job.notes}"
        assert agrees(guess[1], guessed) and agrees(guess[2], calls), f"{guess[0]}: JSON {guessed} of {calls}"
        assert agrees(guess[3], by_guess / (sent + into)) if guess[3] else by_guess == 0, f"{guess[0]}: JSON {by_guess}"


def sentences(job):
    """Who waits for whom, what went wrong, what next: the same sentences, in the same order."""
    problems = [line[2:] for line in job.sections[""][1] if line.startswith("! ")]
    assert problems == job.json["problems"] == [p["text"] for p in job.json["problem_list"]], f"problems: text {problems}, JSON {job.json['problems']}"
    following = [line.split("  ", 1)[1] for line in job.sections.get("NEXT", ("", []))[1]]
    assert following == [n["text"] for n in job.json["next"]][:4], f"NEXT: text {following}, JSON {job.json['next']}"
    waits = [line.split("; all waiting here")[0] for line in job.sections.get("WAITING", ("", []))[1]]
    expected = [w["text"] for w in job.json["waits"]] + [f"{job.comm_name(u['comm'])}: not known: {u['why']}" for u in job.json["waits_unknown"]]
    assert waits == expected, f"who waits: text {waits}, JSON {expected}"
    for line in problems + following + waits:
        assert line in job.html.text, f"HTML lacks: {line}"
    for w in job.json["waits"]:
        if w["rank"] is not None:
            assert w["text"].startswith(f"{job.comm_name(w['comm'])}: rank {w['job_rank']} "), f"{w}"
            measured = next(r for r in job.comms[w["comm"]]["skew"]["per_rank"] if r["rank"] == w["rank"])
            assert measured["caused_s"] == w["caused_s"], f"{w['text']}: {measured}"
            assert w["caused_s"] == max(r["caused_s"] for r in job.comms[w["comm"]]["skew"]["per_rank"]), "another rank caused more"
    places = [re.split(r"  +", line.strip(), maxsplit=2) for line in job.sections["CALLED FROM"][1]]
    stacks = {p["frames"]: p for p in job.json["places"]}
    for share, calls, frames in (p for p in places if len(p) == 3 and p[2] in stacks):
        p = stacks.pop(frames)
        assert agrees(share, p["share"]) and agrees(calls.split(" ")[0], p["calls"]), f"{frames}: text {share} {calls}, JSON {p}"


def heading(job):
    first, last = job.sections[""][1][1], "   ".join(line for line in job.sections[""][1] if line.startswith(("collectives ", "NCCL busy")))
    facts = dict(re.findall(r"(collectives|data|NCCL busy on GPU|dropped) ([\d,.]+(?: [KMG]?i?B| %)?)", last))
    for word, key in ("collectives", "collectives"), ("data", "bytes"), ("NCCL busy on GPU", "gpu_share"), ("dropped", "dropped"):
        if job.json[key] is not None:
            assert agrees(facts[word], job.json[key]), f"{word}: {facts[word]} in the text, {job.json[key]} in JSON"
    sure = re.search(r"of the job \(([\d.]+)-([\d.]+)\)", last)
    low, pm = max(job.json["gpu_share"] - job.json["gpu_share_pm"], 0) if sure else 0, job.json["gpu_share_pm"]
    # the text rounds the lower end down, to a percent at most
    assert -1e-4 < low - float(sure[1]) / 100 < 0.0101 if sure else not pm, f"{last}: JSON {low}"
    assert (job.json["gpu_share"] is None) == ("NCCL busy on GPU" not in facts), last
    assert re.search(rf"^{job.json['ranks']} ranks? on {job.json['nodes']} nodes?\b", first), first
    for fact in re.split(r"   +", last):
        label, value = re.fullmatch(r"(.*?) ([<\d].*|at least .*|not known.*)", fact).groups()
        assert label in job.html.words and value in job.html.words, f"HTML lacks the fact {fact}"


def trace(job):
    """Every call of a traced job, and each time on the GPU, is in the trace as well; of one that is not traced, no more than the page has."""
    made, timed = collections.Counter(), collections.defaultdict(list)
    for e in job.host:
        made[e["name"].split()[0], e["args"]["bytes"]] += 1
    for e in job.gpu:
        timed[e["name"].split()[0], e["args"]["bytes"]].append(e["dur"])
    said, known = collections.Counter(), collections.defaultdict(list)
    for row in job.json["rows"]:
        said[row["call"], row["bytes"]] += row["calls"]
        if row["clock"] in ("event", "kernel"):
            known[row["call"], row["bytes"]].append(row)
    for key, n in said.items():
        assert made[key] == n if job.traced else made[key] <= n, f"{key}: {made[key]} calls in the trace, {n} on the page"
    for key, spans in timed.items():
        n, total = sum(r["timed"] for r in known[key]), sum(r["timed_us"] for r in known[key])
        assert len(spans) == n if job.traced else len(spans) <= n, f"{key}: {len(spans)} times on the GPU in the trace, {n} on the page"
        assert max(spans) <= max(r["max_us"] for r in known[key]) * 1.00001 + 0.001, f"{key}: longest {max(spans)} in the trace, {known[key]}"
        if job.traced:
            assert abs(sum(spans) - total) < 1e-5 * total + 1e-3 * n, f"{key}: {sum(spans)} us on the GPU in the trace, {total} on the page"
    if job.traced:
        assert {k for k, v in known.items() if v} == set(timed), "timed calls without a bar in the trace"


def check(job):
    for compare in heading, rows, tables, communicators, network, sentences, trace:
        compare(job)
