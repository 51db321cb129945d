# SPDX-License-Identifier: Apache-2.0
"""What the program itself measured, and what a page says beside the truth. No code of capo is
used: the page and its JSON are read as text."""
import json
import os
import re
import statistics


class Failed(Exception):
    """The job did not come to its end; capo is not to blame for that."""


def read_times(folder, ranks):
    turns = []
    for r in range(ranks):
        rows = {}
        with open(os.path.join(folder, "times.%d" % r)) as f:
            for line in f:
                words = line.split()
                if len(words) == 8:
                    rows[int(words[0])] = [float(w) for w in words[1:]]
        turns.append(rows)
    return turns


def measure(folder, ranks, t0, truth):
    """Seconds lost, by the program's clock. In each turn the last rank at the calls (by its host or
    by its stream) is charged with the time from the median of the others to its own arrival.
    `lost` is one rank's wall time; `caused` is summed over the ranks that waited for it."""
    rows = read_times(folder, ranks)
    turns = sorted(set.intersection(*[set(r) for r in rows]))
    begin, end = (truth["late"] or {}).get("window_s", [0, truth["seconds"]])
    of = {r: dict(lost_in_window_s=0.0, lost_outside_s=0.0, caused_s=0.0, last_in_window=0, last=0,
                  act_s=0.0, act_in_window_s=0.0, cpu_wait_s=0.0, cpu_wait_in_window_s=0.0,
                  host_lost_s=0.0) for r in range(ranks)}
    n_window, call_in, call_out = 0, [], []
    for t in turns:
        came = [max(rows[r][t][1], rows[r][t][2]) for r in range(ranks)]
        last = max(range(ranks), key=lambda r: came[r])
        others = [came[r] for r in range(ranks) if r != last]
        lost = came[last] - statistics.median(others)
        at = came[last] - t0
        turn_begin = rows[last][t][0] - t0
        within = turn_begin < end and at > begin
        n_window += within
        (call_in if within else call_out).append(max(rows[r][t][3] for r in range(ranks)) - max(came))
        of[last]["lost_in_window_s" if within else "lost_outside_s"] += lost
        of[last]["caused_s"] += sum(came[last] - o for o in others)
        of[last]["last"] += 1
        of[last]["last_in_window"] += within
        host = [rows[r][t][1] for r in range(ranks)]
        of[last]["host_lost_s"] += max(0.0, host[last] - statistics.median(
            [host[r] for r in range(ranks) if r != last]))
        for r in range(ranks):
            of[r]["act_s"] += rows[r][t][5] / 1e3
            of[r]["cpu_wait_s"] += rows[r][t][6] / 1e3
            if within:
                of[r]["act_in_window_s"] += rows[r][t][5] / 1e3
                of[r]["cpu_wait_in_window_s"] += rows[r][t][6] / 1e3
    for r in of:
        of[r] = {k: round(v, 3) for k, v in of[r].items()}
    median = [round(statistics.median(c) * 1e3, 2) if c else None for c in (call_in, call_out)]
    late = truth["late"] or {}
    lost = of[late["rank"]]["lost_in_window_s"] if late.get("rank") is not None else 0.0
    if late.get("via") == "call":
        lost = sum(call_in) - (median[1] or 0) / 1e3 * len(call_in)
    return {"t0_monotonic_s": t0, "turns": len(turns), "turns_in_window": n_window,
            "ranks": {str(r): of[r] for r in of}, "call_ms_in_window": median[0],
            "call_ms_outside": median[1], "call_s_in_window": round(sum(call_in), 3),
            "call_s_outside": round(sum(call_out), 3), "lost_s": round(lost, 3),
            "job_s": round(max(rows[r][turns[-1]][4] for r in range(ranks)) - t0, 3),
            "turn_ms": {str(r): [round((rows[r][t][4] - rows[r][t][0]) * 1e3, 1) for t in turns]
                        for r in range(ranks)},
            "turn_cpu_wait_ms": {str(r): [rows[r][t][6] for t in turns] for r in range(ranks)}}


def holds(truth, measured):
    """Did the program do what its truth says? On a busy machine it may not have."""
    late = truth["late"]
    ranks = measured["ranks"]
    if late is None:
        worst = max(ranks, key=lambda r: ranks[r]["lost_in_window_s"] + ranks[r]["lost_outside_s"])
        lost = {r: ranks[r]["lost_in_window_s"] + ranks[r]["lost_outside_s"] for r in ranks}
        rest = sum(lost.values()) - lost[worst]
        if lost[worst] > 0.1 * measured["job_s"] and lost[worst] > 1.5 * rest:
            return False, "rank %s was late by %.2f s, by chance" % (worst, lost[worst])
        return True, ""
    if measured["lost_s"] < late["least_s"]:
        return False, "only %.2f s were lost, not %.2f" % (measured["lost_s"], late["least_s"])
    if late["rank"] is None:
        return True, ""
    mine = ranks[str(late["rank"])]["lost_in_window_s"]
    for r in ranks:
        if int(r) != late["rank"] and int(r) not in late.get("also_late", []) and \
                ranks[r]["lost_in_window_s"] + ranks[r]["lost_outside_s"] > mine:
            return False, "rank %s was later still, by chance" % r
    return True, ""


# What a page can say of each cause. In sentences about a rank; case does not matter.
WORDS = {
    "cpu-limit": r"cpu (limit|quota)|cgroup.{0,40}(thrott|limit)|(container|cgroup)'?s? (cpu )?(limit|quota)"
                 r"|nr_throttled|cfs|throttled by (its|the) (container|cgroup)|limit of (its|the) container",
    "cpu-contention": r"wait(s|ed|ing)? (.{0,30} )?for (a |the )?(cpu|processor|core)|cpu contention"
                      r"|runnable|run queue|busy processes|cpu is shared|shares its cpu",
    "one-cpu": r"one (cpu|core|processor)\b|single (cpu|core|processor)|(1|only) cpus? (allowed|for)"
               r"|pinned to|may run on (one|1|cpu)",
    "starved-thread": r"nccl progress|nccl service|proxy thread|progress thread|network thread",
    "files": r"read(s|ing)? (of |from )?(a )?(slow )?files?|file ?system|fuse|request_wait_answer|"
             r"storage|load_batch|in read\b|reads? (a )?file|\bi/?o wait|disk|vfs_read",
    "checkpoint": r"checkpoint|writ(es|ing|e) (of |to )?(a )?files?|fsync|save_",
    "gc": r"garbage|collector|gc\.collect|collect_garbage|\bgc\b",
    "stopped": r"sigstop|was stopped|is stopped|process (was |is )?stopped|stopped by a signal|signal stop",
    "memory": r"memory limit|reclaim|major (page )?faults?|page faults|swap|memory pressure|"
              r"memory\.(events|pressure|failcnt|high|max)",
    "tcp-loss": r"retrans|tcp loss|tcptimeout|lost (tcp )?(packets|segments)|packet loss",
    "nic-errors": r"packet_seq_err|local_ack_timeout|out_of_sequence|retransmi|symbol_error|"
                  r"link_error_recovery|link_downed|rcv_errors|roce_adp_retrans|rnr_nak|icrc|"
                  r"transport_retries|packets? (were |was )?(lost|missing)|lost packets|retrans_",
    "nic-congestion": r"congest|ecn|cnp|xmit_wait",
    "nic-rate": r"half (its |the )?(rate|speed)|\d+ gb/s(ec)? (instead|where|, its|while)|slower than its|"
                r"link (rate|speed)|rate (of|is) \d+|runs at \d+ ?gb",
    "gpu-throttled": r"gpu is throttled|thermal|power brake|slowdown|throttled by (heat|its)|clocks? (is |are )?low",
    "pcie-width": r"pcie.{0,30}(x\d+|width|lanes?)|x4\b",
    "nvlink-errors": r"nvlink",
    "network": r"(^|\| )network\b|its network is slow|network is slow",
    "gpu": r"(^|\| )gpu\b|its gpu:|its gpu is (slow|late)|stream takes longer",
    "host-code": r"(^|\| )host\b|its host|host code|in host|python|between (its |the )?calls|nanosleep|sleep",
}
NO_CAUSE = r"not known|unknown|nothing (that was|of what was) (read|measured)|no cause"


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for k, v in value.items():
            if isinstance(v, bool) or v is None:
                continue
            if isinstance(v, (dict, list)):
                yield from strings_of(v)
            else:
                yield str(v)
    elif isinstance(value, list):
        for v in value:
            yield from strings_of(v)


def blames(page_text, page):
    """(rank or None, text) of each place that gives a cause. From JSON: everything in `waits[]`
    and `causes` (if there is one). From the text: sentences with `cause`, `because` or `late`."""
    found = []
    for w in (page or {}).get("waits", []):
        if w.get("job_rank") is None:
            continue
        said = [x for k in w if "cause" in k and not k.startswith("caused") for x in strings_of(w[k])]
        said.append(w.get("text") or "")
        found.append((w["job_rank"], " | ".join(said)))
    for c in (page or {}).get("causes", []) or []:
        rank = c.get("job_rank", c.get("rank")) if isinstance(c, dict) else None
        found.append((rank, " | ".join(strings_of(c))))
    return found


def kinds_in(text):
    return [k for k in WORDS if re.search(WORDS[k], text, re.I | re.S)]


def judge(truth, page_text, page):
    """verdict: right; generic (late rank named, no cause of the machine claimed); not-known; missed
    (nobody named where somebody was late); false (a cause that is not so, or a wrong rank);
    fine (nothing to name, nothing named). `invalid` where the program did not do as its truth says:
    then only false causes count."""
    if page is None:
        return {"verdict": "failed", "why": "no JSON: " + page_text[:200]}
    said = blames(page_text, page)
    false, right, generic, besides = [], [], [], []
    planted = {(c["kind"], c["rank"]) for c in truth["causes"]}
    kinds_planted = {k for k, _ in planted}
    named = {r for r, _ in said if r is not None}
    for rank, text in said:
        kinds = kinds_in(text)
        for f in truth["never"]:
            if f["kind"] in kinds and (f["ranks"] == "any" or rank is None or rank in f["ranks"]):
                if shares_words(f["kind"], kinds, kinds_planted | set(truth["also"])):
                    continue
                if f.get("in") and f["in"] + ":" not in text:
                    continue
                if is_so_by_chance(truth, f["kind"], rank) or (
                        rank is None and turns_waited_longer(truth, f["kind"], page)):
                    besides.append("%s for rank %s: %s" % (f["kind"], rank, text[:160]))
                    continue
                false.append("%s for rank %s: %s" % (f["kind"], rank, text[:160]))
        for k in kinds:
            if (k, rank) in planted or (rank is None and k in kinds_planted):
                right.append(k)
            elif k in kinds_planted and rank not in {r for _, r in planted} | {None}:
                false.append("%s for rank %s, which it was not: %s" % (k, rank, text[:160]))
        if "host-code" in kinds or not kinds or re.search(NO_CAUSE, text, re.I):
            generic.append(rank)
    whole = "%s\n%s" % (page_text, json.dumps(page))
    for regex in truth["never_text"]:
        m = re.search(regex, whole, re.I)
        if m:
            false.append("says: " + whole[max(0, m.start() - 40):m.end() + 60])
    measured = truth.get("measured") or {}
    late = truth["late"]
    out = {"right": sorted(set(right)), "named_ranks": sorted(named), "false_causes": false, "true_besides": besides,
           "said": [list(s) for s in said]}
    if false:
        out.update(verdict="false", why="; ".join(false)[:400])
    elif not measured.get("holds", True):
        out.update(verdict="invalid", why=measured.get("why_not", ""))
    elif late is None:
        out.update(verdict="fine" if not right else "right", why="")
    elif right:
        out.update(verdict="right", why=", ".join(sorted(set(right))))
    elif late["rank"] is None:
        out.update(verdict="not-known", why="the calls were slow, no cause is named")
    elif late["rank"] in named:
        text = " ".join(t for r, t in said if r == late["rank"])
        out.update(verdict="not-known" if late["rank"] in generic else "generic", why=text[:160])
    elif not named and page.get("waits_unknown") or re.search(r"WAITING.{0,60}not known", page_text):
        out.update(verdict="not-known", why="the page does not know who is late")
    else:
        out.update(verdict="missed", why="rank %d was late by %.2f s; named: %s" % (
            late["rank"], measured.get("lost_s", 0), sorted(named) or "nobody"))
    return out


def is_so_by_chance(truth, kind, rank):
    """On a busy machine other ranks are late as well, and really wait for a CPU. By the program's
    clock: such a rank lost 0.3 s or more and its threads waited at least as long."""
    measured = truth.get("measured") or {}
    late = truth["late"] or {}
    mine = measured.get("ranks", {}).get(str(rank))
    if not mine or (rank == late.get("rank") and measured["holds"]):
        return False
    lost = mine["lost_in_window_s"] + mine["lost_outside_s"]
    return kind in ("cpu-contention", "gpu", "network") and lost >= 0.3 and mine["cpu_wait_s"] >= lost


def turns_waited_longer(truth, kind, page):
    """The page says that steps take longer since one of them, because a rank waits for a CPU. By the
    program's clock: that rank's turns take longer since then, and half of that is its threads' wait."""
    for c in page.get("causes") or []:
        at, found = (page.get("steps") or {}).get("changed_at"), (c.get("found") or [{}])[0]
        took = (truth.get("measured") or {}).get("turn_ms", {}).get(str(found.get("rank")))
        if kind != "cpu-contention" or not c.get("longer") or not at or not took:
            continue
        waited = truth["measured"]["turn_cpu_wait_ms"][str(found["rank"])]
        if found.get("kind") == "cpu_contention" and 4 < at < len(took) - 4:
            longer, more = (statistics.mean(x[at:]) - statistics.mean(x[:at]) for x in (took, waited))
            return longer > 0 and more >= longer / 2
    return False


def shares_words(kind, kinds, right):
    """The words of two kinds overlap: TCP's retransmissions and a NIC's."""
    pairs = {("nic-errors", "tcp-loss"), ("tcp-loss", "nic-errors"), ("files", "checkpoint"),
             ("cpu-contention", "starved-thread"), ("cpu-contention", "one-cpu"),
             ("gpu-throttled", "cpu-limit")}
    return any(k in right and (kind, k) in pairs for k in kinds)
