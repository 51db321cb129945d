# SPDX-License-Identifier: Apache-2.0
"""Sentences of a page that are false whatever the scene, or by the script of this one.

Each check yields what is false. It reads what people read: the text of hang, of report while the
job runs and afterwards, standard error, hang.txt, and the metrics of capo watch --once."""
import os
import re

from scene_oracle import CREATION, HOST, SYNC

NUMBER = r"#([\d,]+)"
CALL = re.compile(r"([A-Z]\w+) " + NUMBER + r" of ([\w-]+)(?:/\d+)?")
MISSING = re.compile(r"(?:RANKS?) ([\d, ]+)(?:IS|ARE) MISSING from ([A-Z]\w+) " + NUMBER +
                     r" of ([\w-]+)(?:/\d+)?")
WAIT = re.compile(r"(\d+) of (\d+) ranks? waits? in it")
WARNED = re.compile(r"capo: warning: rank (\d+): ([A-Z]\w+) " + NUMBER +
                    r" of ([\w-]+)(?:/\d+)? has not moved")
HEADER = re.compile(r"(\d+) ranks? on (\d+) nodes?")
CALM = ("healthy", "slow")
P2P = ("Send", "Recv")  # they have numbers of their own
ENDLESS = 100000

# Advice that only some verdicts justify: words, verdicts, reasons of the first culprit.
ADVICE = (
    ("nvidia-smi", ("running", "inside", "tuned", "missing"), ("gpu",)),
    ("one group (ncclGroupStart", ("p2p", "order"), ("waits",)),
    ("one order of communicators", ("order",), ("waits",)),
    ("kill -CONT", ("stopped", "missing", "slow", "p2p", "birth", "order"), ("stopped",)),
    ("the branch, the batch or the tensor", ("mismatch",), ("differs",)),
)


def number(text):
    return int(text.replace(",", ""))


def ranks_of(text):
    return {int(r) for r in re.findall(r"\d+", text)}


def works_on(scene):
    """Some rank makes calls as long as the job lives."""
    words = [line.split() for line in scene.script] if scene.lang == "c" else []
    return any(w[1] == "forever" or (w[1] == "loop" and int(w[2]) >= ENDLESS) for w in words)


def longest_sleep_s(scene):
    words = [line.split() for line in scene.script] if scene.lang == "c" else []
    sleeps = [int(w[-1]) for w in words if w[1] in ("sleep", "delay")]
    pause = scene.job.get("stop", "").split(":")
    return max(sleeps + [0]) / 1e3 + (float(pause[2]) if pause[0] == "pause" else 0)


def way_to_place_s(scene):
    """How long a rank sleeps behind its mark, in its own time, before the scene stands."""
    lines = [line.split() for line in scene.script] if scene.lang == "c" else []
    marks = [i for i, words in enumerate(lines) if words[1] in ("mark", "early")]
    behind = lines[marks[0]:] if marks else []
    if any(words[1] in ("loop", "forever", "thread") for words in behind):
        return 0
    return min(5, sum(int(words[2]) for words in behind if words[1] == "sleep") / 1e3)


def is_whole(scene):
    return not {"logs", "unrecorded", "first", "beside"} & set(scene.job)


def widest(scene):
    """The ranks of the largest communicator that the script makes: `init NAME RANKS RANK`."""
    words = [line.split() for line in scene.script] if scene.lang == "c" else []
    return max([scene.n] + [int(w[3]) for w in words if w[1] == "init" and len(w) > 4])


def check_counts(scene, text):
    for said in HEADER.finditer(text.split("\n! ")[0][:600]):
        if is_whole(scene) and "noinit" not in " ".join(scene.script) and int(said[1]) != scene.n:
            yield "header: " + said[0]
        if int(said[2]) != len(scene.job.get("nodes", "1").split("+")):
            yield "header: " + said[0]
    for said in re.finditer(r"(\d+) ranks? (?:of the communicator )?left no log", text):
        kept = 1 if "only" in scene.job.get("logs", "") else 0 if "logs" in scene.job else scene.n
        unrecorded = len(ranks_of(scene.job.get("unrecorded", "")))
        if int(said[1]) > scene.n - kept + unrecorded:
            yield said[0]
    for said in re.finditer(r"(\d+) of (\d+) ranks", text):
        if int(said[1]) > int(said[2]) or int(said[2]) > scene.n:
            yield said[0]
    for said in re.finditer(r"(?<!of )\b(\d+) ranks? (?:waits?|waited) in", text):
        if int(said[1]) >= widest(scene) + ("wait for each other" in text.lower()):
            yield said[0]
    if re.search(r"rank (\d+) waits in .* for rank \1\b", text):
        yield "a rank waits for itself"


def check_calls(scene, oracle, text):
    """MISSING, "all have entered" and the numbers of waiting ranks, against the script."""
    for said in MISSING.finditer(text):
        entered, members = oracle.entered(said[4], number(said[3])), oracle.members(said[4])
        if entered is None:
            continue
        if ranks_of(said[1]) & entered:
            yield "%s: of these %s are in it" % (said[0], sorted(ranks_of(said[1]) & entered))
        wait = WAIT.search(text, said.end())
        if wait and text[said.end():wait.start()].count("\n") == 0:
            waiting = oracle.waiting(said[4], number(said[3]))
            if int(wait[2]) != len(members) or (waiting is not None and int(wait[1]) != len(waiting)):
                yield "%s: truth %s of %d" % (wait[0], sorted(waiting or ()), len(members))
    for line in text.splitlines():
        call = CALL.search(line)
        if "all have entered" in line and call:
            entered, members = oracle.entered(call[3], number(call[2])), oracle.members(call[3])
            if entered is not None and entered != members:
                yield "all have entered: not %s" % sorted(members - entered)
    for said in re.finditer(r"^ +rank (\d+) waits in ([A-Z]\w+) " + NUMBER + r" of ([\w-]+)", text,
                            re.M):
        if said[2] not in P2P and oracle.is_unfinished(
                int(said[1]), said[4], number(said[3])) is False:
            yield said[0].strip() + ", which is not under way"


def check_host_code(scene, oracle, text):
    for said in re.finditer(r"^ +rank (\d+): .*in host code, in no call", text, re.M):
        state = oracle.state(int(said[1])) if int(said[1]) < scene.n else None
        if state in (SYNC, CREATION):
            yield "rank %s in host code: it waits (%s)" % (said[1], state)
    for block in re.split(r"\n(?=  rank )", text):
        if "in host code, in no call" in block and re.search(r"nccl(CommInit|CommSplit)\w*", block):
            yield "in host code, and its stack is in NCCL"


def check_progress(scene, answer):
    still = (answer.page or {}).get("still_s") or 0
    live = re.search(r"  no progress since ([^(]*)\(([^)]*)\)", answer.text)
    if live and works_on(scene) and still > longest_sleep_s(scene) + 1:
        yield "no progress since (%s), and ranks make calls" % live[2]
    if re.search(r"\b0 ns\b", answer.text):
        yield "0 ns"


def check_advice(answer):
    page = answer.page or {}
    if not page.get("culprits"):
        return
    next_line = "\n".join(re.findall(r"^NEXT .*", answer.text, re.M))
    first = page["culprits"][0]["why"]
    call = (page.get("call") or {}).get("call")
    for words, verdicts, whys in ADVICE:
        if words in next_line and (page["verdict"] not in verdicts or first not in whys):
            yield "NEXT of %s, %s: %s" % (page["verdict"], first, words)
    if "one group (ncclGroupStart" in next_line and call not in ("Send", "Recv", None):
        yield "NEXT: one group around sends and receives in " + call


def check_never(scene, text):
    for phrase in scene.never:
        if re.search(phrase, text):
            yield "says: " + phrase


def check_hang(scene, oracle, answer):
    yield from check_counts(scene, answer.text)
    yield from check_progress(scene, answer)
    yield from check_advice(answer)
    yield from check_never(scene, answer.text)
    page = answer.page or {}
    if scene.kind == "hang":
        yield from check_calls(scene, oracle, answer.text)
        if page.get("live"):
            yield from check_host_code(scene, oracle, answer.text)
    if page.get("verdict") == "missing" and page.get("certainty") == "certain":
        if {c["rank"] for c in page["culprits"]} - scene.ranks and "wide" not in scene.truth:
            yield "certain: %s" % [c["rank"] for c in page["culprits"]]
    waiting, ranks = page.get("waiting"), page.get("ranks")
    if isinstance(waiting, int) and isinstance(ranks, int) and waiting > ranks:
        yield "%d of %d wait" % (waiting, ranks)
    if scene.kind == "healthy" and page.get("culprits") and page["verdict"] not in (
            "slow", "ended"):
        yield "culprits of a healthy job"


not_judged = []  # sentences that nothing here shows to be true or false


def is_busy():
    """Have tasks waited for a processor just now? Then ranks wait for each other in a healthy job, too."""
    try:
        with open("/proc/pressure/cpu") as f:
            return float(re.search(r"some avg10=([\d.]+)", f.read())[1]) > 10
    except OSError:
        return os.getloadavg()[0] > os.cpu_count()


def check_report(scene, oracle, answer, is_live):
    page, text = answer.page, answer.text
    if not page:
        return
    yield from check_counts(scene, text)
    yield from check_never(scene, text)
    if "occasional interference" in text:
        yield "NEXT: occasional interference"
    if scene.kind == "hang" and is_live and scene.job.get("calls") != "none":
        if not re.search(r"made? (no|a) call for|no progress|stuck|hang", text.split("TIME BY")[0]):
            yield "the report of a job that hangs says nothing of it"
    stopped = re.search(r"no rank made a call for ([\d.]+) (s|min)", text)
    if stopped and works_on(scene) and scene.kind in ("hang", "healthy", "slow"):
        seconds = float(stopped[1]) * (60 if stopped[2] == "min" else 1)
        if seconds > longest_sleep_s(scene) + 1:
            yield stopped[0] + ", and ranks make calls"
    unfinished = scene.job.get("calls") != "end" and any(
        oracle.state(r) in (SYNC, CREATION) for r in range(scene.n))
    busy = re.search(r"NCCL busy on GPU .*", text)
    if scene.kind == "hang" and unfinished and busy and "not known" not in busy[0]:
        if not re.search(r"not (seen to )?end|never ended|unended|under way",
                         busy[0] + text.split("busy")[1][:400]):
            yield busy[0][:60] + ", without the calls that never ended"
    if scene.kind == "healthy" and page["duration_s"]:
        for w in page["waits"]:
            said_when = re.search(r", most (?:of it in|from) (?:[\d,]+ )?calls? ", w["text"])
            if w["rank"] is None or (w["caused_s"] or 0) <= 0.25 * page["duration_s"] + 1 or said_when:
                continue
            if is_busy():
                not_judged.append("%s: rank %s made the others wait, on a busy machine" % (
                    scene.name, w["rank"]))
            else:
                yield "rank %s made the others wait %.2g s" % (w["rank"], w["caused_s"])
        if re.search(r"^ *NEXT .*holds up", text, re.M):
            waits = any((w["caused_s"] or 0) >= 0.01 * page["duration_s"] for w in page["waits"])
            if is_busy() and (waits or is_live):  # a live text is later than its JSON
                not_judged.append("%s: NEXT, as ranks waited for processors" % scene.name)
            else:
                yield "NEXT: a rank holds up a healthy job"


def check_stderr(scene, oracle, output):
    """Each line names a call that stands."""
    for said in WARNED.finditer(output):
        if said[2] in P2P:
            continue
        unfinished = oracle.is_unfinished(int(said[1]), said[4], number(said[3]))
        if unfinished is False:
            yield said[0] + ", which has ended"
    for line in re.findall(r"watch: job .*", output):
        yield from check_calls(scene, oracle, line)
    if scene.kind == "healthy" and (WARNED.search(output) or "watch: job " in output):
        yield "a healthy job is warned of"


def check_hang_file(scene, oracle, text, page, answers):
    """hang.txt is what the other ways say, or says that the job went on."""
    if scene.kind in ("healthy", "slow", "pause"):
        if not re.search("WENT ON", text) and (page or {}).get("verdict") not in CALM:
            yield "hang.txt accuses a job that went on"
        return
    if scene.kind == "hang":
        yield from check_calls(scene, oracle, text)
    last = (answers.get("dir") or answers.get("end") or [None])[-1]
    if last and last.page and page:
        def named(p):
            return p["verdict"], sorted(c["rank"] for c in p["culprits"])
        if page["verdict"] != "undecided" and named(page) != named(last.page):
            yield "hang.txt: %s %s, capo hang: %s %s" % (named(page) + named(last.page))


def check_metrics(scene, text, page):
    """The gauges of one look do not contradict each other, nor capo hang."""
    holds = re.findall(r'capo_hang_verdict\{[^}]*verdict="(\w+)"[^}]*\} 1\b', text)
    still = [float(v) for v in re.findall(r"^capo_hang_seconds\{[^}]*\} (\S+)", text, re.M)]
    if len(holds) > 1:
        yield "metrics: %d verdicts" % len(holds)
    for verdict, seconds in zip(holds, still):
        if verdict not in CALM + ("undecided", "ended") and seconds == 0:
            yield "metrics: %s, and capo_hang_seconds 0" % verdict
        if verdict in CALM and seconds > 0:
            yield "metrics: %s, and capo_hang_seconds %g" % (verdict, seconds)
        if page and verdict not in CALM + ("undecided",) and page["verdict"] not in (
                verdict, "undecided"):
            yield "metrics: %s, capo hang: %s" % (verdict, page["verdict"])
    if scene.kind == "healthy" and any(h not in CALM + ("undecided",) for h in holds):
        yield "metrics: %s of a healthy job" % holds
