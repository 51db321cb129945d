# SPDX-License-Identifier: Apache-2.0
"""Compares what capo said with the truth of a scene: right, undecided or wrong, and why."""
import re

import scene_page
from scene_oracle import Oracle

RIGHT, UNDECIDED, WRONG = "right", "undecided", "wrong"
ORDER = (RIGHT, UNDECIDED, WRONG)
CALM = ("healthy", "slow")
ABSURD = re.compile(r"\d(\.\d+)?e\+\d\d|\(0 ns\)|\bnan\b|\binf\b|-\d+(\.\d+)? (ns|us|ms|s|min|h)\b")
DEAD = {"host", "call", "group", "gpu", "waits", "stopped"}  # not of a rank that is gone


def describe(page):
    if not page or "verdict" not in page:
        return "no verdict"
    who = ", ".join("%s (%s)" % (c["rank"], c["why"]) for c in page.get("culprits", []))
    call = page.get("call") or {}
    return "%s %s%s%s" % (page["verdict"], page.get("certainty") or "",
                          ": rank " + who if who else "",
                          " in " + call["call"] if call.get("call") else "")


def named_late(page):
    return {late["job_rank"] for late in page.get("late", [])}


def judge_sanity(answer):
    """Figures that cannot be true, whatever the scene."""
    found = ABSURD.search(answer.text)
    if found:
        return "absurd: " + " ".join(answer.text[max(0, found.start() - 40):found.end()].split())
    still = (answer.page or {}).get("still_s")
    if still is not None and not 0 <= still < 1e6:
        return "stands still for %s s" % still
    return ""


def judge_named(scene, page):
    """Are the ranks that are named those of the truth?"""
    said = {c["rank"] for c in page["culprits"]}
    if not said:
        return "nobody is named"
    if scene.ranks & said if "wide" in scene.truth else said <= scene.ranks:
        return ""
    return "named %s, not %s" % (sorted(said), sorted(scene.ranks))


def judge_hang(scene, answer):
    page, truth = answer.page, scene.truth
    if page["verdict"] in CALM:
        return WRONG, "no hang"
    if answer.status != 1:
        return WRONG, "status %d" % answer.status
    if scene.verdicts and page["verdict"] not in scene.verdicts:
        return WRONG, "not %s" % " or ".join(sorted(scene.verdicts))
    bad = judge_named(scene, page)
    if bad:
        return WRONG, bad
    if "uncertain" in truth and page.get("certainty") == "certain":
        return WRONG, "certain cannot be said"
    call = page.get("call") or {}
    if "call" in truth and call.get("call") not in (None, truth["call"]):
        return WRONG, "not in " + truth["call"]
    waiting = page.get("waiting")
    waiting = len(waiting) if isinstance(waiting, list) else waiting
    if "waiting" in truth and waiting is not None and waiting != int(truth["waiting"]):
        return WRONG, "%s wait, not %s" % (waiting, truth["waiting"])
    return RIGHT, ""


def judge_died(scene, answer):
    """Who ended first. How: where a page says so, it is checked."""
    page = answer.page
    if page["verdict"] in CALM:
        return WRONG, "the job has died"
    if answer.status != 1:
        return WRONG, "status %d" % answer.status
    bad = judge_named(scene, page)
    if bad:
        return WRONG, bad
    if any(c["why"] in DEAD for c in page["culprits"]):
        return WRONG, "that rank is gone"
    call = page.get("call") or {}
    if "call" in scene.truth and call.get("call") not in (None, scene.truth["call"]):
        return WRONG, "not in " + scene.truth["call"]
    kind, _, number = scene.truth["how"].partition(":")
    said = re.search(r"killed by (?:signal )?(\w+)|exit(?:ed with)? status (\d+)", answer.text)
    if said and said[2] and (kind != "exit" or said[2] != number):
        return WRONG, "not exit status " + said[2]
    return RIGHT, ""


def judge_slow(scene, answer, is_over):
    page = answer.page
    if answer.status:
        return WRONG, "nothing hangs"
    if page["verdict"] == "slow":
        return (WRONG, "a finished job") if is_over else judge_late_now(scene, page)
    late = named_late(page)
    if late - scene.ranks:
        return WRONG, "late is %s, not %s" % (sorted(late), sorted(scene.ranks))
    return (RIGHT, "") if late else (UNDECIDED, "nobody stands out")


def judge_late_now(scene, page):
    """Another rank may be waited for at a moment; for a second it is not."""
    bad = judge_named(scene, page)
    if bad and (page.get("still_s") or 0) < 1:
        return UNDECIDED, bad
    return (WRONG, bad) if bad else (RIGHT, "")


def judge_pause(scene, answer, is_over):
    page = answer.page
    if answer.status:
        return WRONG, "nothing hangs"
    if is_over:
        return (WRONG, "a finished job") if page["verdict"] == "slow" else (RIGHT, "")
    if page["verdict"] == "slow":
        return judge_late_now(scene, page)
    return UNDECIDED, "ranks wait, and nobody is named"


def judge_healthy(scene, answer, is_over):
    page = answer.page
    if answer.status:
        return WRONG, "nothing hangs"
    if page["verdict"] == "slow":
        said = {c["rank"] for c in page["culprits"]}
        if is_over:
            return WRONG, "a finished job"
        if len(said) >= scene.n or not said:
            return WRONG, "%d of %d ranks are late" % (len(said), scene.n)
    return RIGHT, ""


def judge_verdict(scene, answer, is_over):
    page = answer.page
    absurd = judge_sanity(answer)
    if absurd:
        return WRONG, absurd
    if page is None or "verdict" not in page:
        if answer.status == 3:
            return (RIGHT if "undecided" in scene.truth else UNDECIDED), ""
        return WRONG, "status %d: %s" % (answer.status, " ".join(answer.text.split())[:100])
    if page["verdict"] == "undecided":
        fits = "undecided" in scene.truth or scene.kind == "unknown"
        if answer.status != 3:
            return WRONG, "status %d" % answer.status
        return (RIGHT if fits else UNDECIDED), ""
    if scene.kind == "unknown":
        return WRONG, "too little is known"
    if scene.kind == "hang":
        return judge_hang(scene, answer)
    if scene.kind == "died":
        return judge_died(scene, answer)
    judge = {"slow": judge_slow, "pause": judge_pause, "healthy": judge_healthy}[scene.kind]
    return judge(scene, answer, is_over)


def find_shares(page, path=""):
    """Every number of a page that is a share, and the way to it."""
    if isinstance(page, dict):
        for key, value in page.items():
            where = path + "." + key
            if re.search(r"(^|_)share(_pm)?$|caused_pm_share$", key):
                if isinstance(value, (int, float)):
                    yield where, value
            else:
                yield from find_shares(value, where)
    elif isinstance(page, list):
        for value in page:
            yield from find_shares(value, path + "[]")


def judge_bounds(scene, page):
    for where, share in find_shares(page):
        if not 0 <= share <= 1.000001:
            return "%s is %g" % (where, share)
    total = max(page["ranks"] or 1, scene.n) * page["duration_s"] * 1.01 + 0.01
    for w in page["waits"]:
        for key in ("caused_s", "caused_pm_s"):
            if w[key] is not None and not 0 <= w[key] <= total:
                return "waits[].%s is %g of %g s" % (key, w[key], total)
        for key in ("behind_p50_us", "behind_max_us"):
            if w.get(key) is not None and w[key] > page["duration_s"] * 1.01e6 + 1e4:
                return "waits[].%s is %g s of %g" % (key, w[key] / 1e6, page["duration_s"])
    return ""


def judge_waits(scene, page, is_live):
    """Who most waiting is for; what costs less than a fifth of that is left out."""
    waits = [w for w in page["waits"] if w["rank"] is not None]
    most = max((w["caused_s"] or 0 for w in waits), default=0)
    named = {w.get("job_rank", w["rank"]) for w in waits if (w["caused_s"] or 0) >= most / 5}
    if not named:
        return UNDECIDED, "no rank stands out"
    if named - scene.ranks and is_live and most < 1:
        return UNDECIDED, "no rank has waited for a second yet"
    if named - scene.ranks:
        return WRONG, "waits are for %s, not %s" % (sorted(named), sorted(scene.ranks))
    return RIGHT, ""


def judge_endings(scene, page):
    named = {r for p in page["problem_list"] if p["kind"] in ("killed", "ended")
             for r in p["ranks"] or [p["rank"]]}
    if not named:
        return UNDECIDED, "nobody is said to have ended"
    if not scene.ranks & named:
        return WRONG, "ended are %s, not %s" % (sorted(named, key=str), sorted(scene.ranks))
    return RIGHT, ""


def judge_report(scene, answer, is_over):
    page, none = answer.page, scene.job.get("calls") == "none"
    spoilt = is_over and "logs" in scene.job
    if page is None:
        said = " ".join(answer.text.split())[:100]
        refused = answer.status == 1 and (spoilt or none)
        return (RIGHT, "") if refused else (WRONG, "status %d: %s" % (answer.status, said))
    absurd = judge_sanity(answer) or judge_bounds(scene, page)
    if absurd:
        return WRONG, absurd
    if spoilt or none:
        return RIGHT, ""
    if page["ranks"] not in (None, scene.n):
        return WRONG, "%s ranks, not %d" % (page["ranks"], scene.n)
    if page["nodes"] != 1:
        return WRONG, "%s nodes, not 1" % page["nodes"]
    if not page["collectives"] and not any("noinit" in line for line in scene.script):
        return WRONG, "no collective was called"
    graphs = any("launch" in line.split() for line in scene.script)
    if graphs and not re.search(r"captured|graph", answer.text):
        return WRONG, "replays are not counted, and that is not said"
    if scene.kind == "slow":
        return judge_waits(scene, page, not is_over)
    if scene.kind == "died":
        return judge_endings(scene, page)
    return RIGHT, ""


def describe_report(page):
    if not page:
        return "no page"
    waits = ", ".join("rank %s %.3g s" % (w["rank"], w["caused_s"] or 0) for w in page["waits"][:3])
    ended = "; ".join(p["text"] for p in page["problem_list"])[:160]
    return "%s ranks, %s collectives; waits: %s; %s" % (
        page["ranks"], page["collectives"], waits or "-", ended)


def judge_watch(scene, answer):
    fired = answer.page["fired"]
    if scene.job.get("calls") in ("none", "end") or any("noinit" in line for line in scene.script):
        return RIGHT, ""
    return (RIGHT, "") if fired else (WRONG, "no line on standard error")


def judge_merged(scene, answer):
    """Two jobs are kept apart or refused; no page has the processes of both as one job."""
    page = answer.page
    if page and "jobs" not in page and len(page["processes"]) > scene.n:
        return WRONG, "one job of %d processes" % len(page["processes"])
    return RIGHT, ""


def judge_one(scene, way, answer):
    """(result, why, what was said)"""
    if way == "watch":
        return judge_watch(scene, answer) + ("fired" if answer.page["fired"] else "silent",)
    if way == "merged":
        return judge_merged(scene, answer) + (describe_report(answer.page),)
    is_over = way in ("end", "report")
    if way.endswith("report"):
        return judge_report(scene, answer, is_over) + (describe_report(answer.page),)
    return judge_verdict(scene, answer, is_over) + (describe(answer.page),)


def judge_line(answers):
    """The page of a hang shows the program's own line, not only those of packages."""
    shown = any("scene_train.py:" in a.text for way in ("dir", "pid") for a in answers.get(way, []))
    return (RIGHT, "", "") if shown else (UNDECIDED, "no line of the program", "")


def key_of(answer):
    page = answer.page or {}
    verdict = "undecided" if answer.status == 3 else page.get("verdict")
    return verdict, tuple(sorted(c["rank"] for c in page.get("culprits", [])))


def judge_same(scene, answers):
    """PID, DIR and no operand give one answer of a job that stands; so does DIR after the end."""
    keys = {way: key_of(answers[way][-1]) for way in ("dir", "pid", "none", "end")
            if way in answers and not (way == "end" and "logs" in scene.job)}
    live = [key for way, key in keys.items() if way != "end"]
    if "end" in keys and len(set(live)) == 1 and keys["end"] != live[0]:
        proved = re.search(r"while it lived, capo watch found: (RANKS?|PROCESS\w*) ([\d, ]+)",
                           answers["end"][-1].text)
        if proved and tuple(sorted(int(r) for r in re.findall(r"\d+", proved[2]))) == live[0][1]:
            del keys["end"]  # the page has both
    if len(set(keys.values())) <= 1:
        return RIGHT, "", ""
    said = "; ".join("%s: %s %s" % (way, v, list(r)) for way, (v, r) in keys.items())
    return WRONG, "more than one answer", said


def judge_recovered(answers):
    """What dead processes left is the same evidence in their logs as in memory."""
    end, recovered = key_of(answers["end"][-1]), key_of(answers["recovered"][-1])
    return (RIGHT if end == recovered else WRONG,
            "" if end == recovered else "another answer after capo recover", "%s, then %s" % (end, recovered))


def judge_sentences(scene, oracle, way, answer):
    """The first sentence of the page that is false."""
    if way in ("watch", "merged") or (scene.job.get("logs", "")[:3] == "cut" and way in ("end", "report")):
        return None
    if way.endswith("report"):
        found = scene_page.check_report(scene, oracle, answer, way == "live-report")
    else:
        found = scene_page.check_hang(scene, oracle, answer)
    return "; ".join(found)


def judge_beside(scene, oracle, played):
    """Standard error, hang.txt and the metrics."""
    answers = played.answers
    said = {"stderr": list(scene_page.check_stderr(scene, oracle, played.read_output()))}
    if played.hang_file:
        text, page = played.hang_file
        said["file"] = list(scene_page.check_hang_file(scene, oracle, text, page, answers))
    for text, answer in zip(played.metrics, answers.get("dir", [])):
        said.setdefault("metrics", []).extend(scene_page.check_metrics(scene, text, answer.page))
    return {way: (WRONG, "; ".join(found), "") if found else (RIGHT, "", "")
            for way, found in said.items()}


def judge(scene, played):
    """{way: (result, why, said)}; of several answers of a way the worst counts."""
    results, answers, oracle = {}, played.answers, Oracle(scene)
    for way, given in answers.items():
        if way == "recovered":
            continue
        each = []
        for answer in given:
            result, why, said = judge_one(scene, way, answer)
            false = judge_sentences(scene, oracle, way, answer)
            each.append((WRONG, "; ".join(filter(None, (why, false))), said) if false
                        else (result, why, said))
        results[way] = max(each, key=lambda r: ORDER.index(r[0]))
    results["recovered"] = judge_recovered(answers)
    results.update(judge_beside(scene, oracle, played))
    if scene.kind == "hang" and scene.lang == "torch":
        results["line"] = judge_line(answers)
    if scene.kind == "hang":
        results["same"] = judge_same(scene, answers)
        if "launcher" in answers and key_of(answers["launcher"][-1]) != key_of(answers["dir"][-1]):
            results["launcher"] = WRONG, "not what DIR says", results["launcher"][2]
    return results
