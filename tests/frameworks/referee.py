# SPDX-License-Identifier: Apache-2.0
"""Runs a program alone and under capo, and holds what capo recorded against what the stand-in NCCL was asked.

The stand-in writes a line for each call that communicates (CAPO_STANDIN_LOG), at the other end of the door that capo watches.
"""
import collections
import glob
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 400  # without a call or a line of output: a run as a whole may take as long as a busy machine makes it
PER_RANK = {"AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"}  # capo counts their bytes over all ranks
NATIVE = {"nccl_tests", "horovod_ops"}  # no Python calls NCCL there: the second has a thread of its own for it
SAID = re.compile(r"rank \d+: .*")  # what a program prints (common.say); libraries print beside it, and when they like


class Result:
    def __init__(self, release, program, ranks):
        self.release, self.program, self.ranks = release, program, ranks
        self.problems = []
        self.stops = ""
        self.calls = self.kinds = self.sites = 0
        self.names = []
        self.alone_s = self.recorded_s = 0.0

    def line(self):
        head = f"{self.release.name} {self.program}, {self.ranks} ranks: "
        if self.problems:
            return "FAIL  " + head + "; ".join(self.problems)
        return (f"ok    {head}{self.calls} calls of {self.kinds} kinds as NCCL was asked, same output and exit status, "
                f"groups {', '.join(self.names)} ({self.alone_s:.1f} s alone, {self.recorded_s:.1f} s recorded)"
                f"{'; ' * bool(self.stops)}{self.stops}")

    def verdict(self):
        return "; ".join(self.problems) or "as NCCL was asked" + (f"; {self.stops}" if self.stops else "")


def logs_of(folder):
    """A folder that no earlier run had: what a killed process left in memory comes into the folder it was given."""
    return os.path.join(folder, f"logs-{os.getpid()}")


def launched(build, ranks, program, torchrun=False):
    """The command that runs @program on @ranks ranks."""
    command = [sys.executable, os.path.join(HERE, "programs", program + ".py")]
    if torchrun:
        return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] + command[1:]
    return [os.path.join(build, "tests", "jobs", "launch"), "-n", str(ranks), "--"] + command


def watched(job, folder, how):
    """The job's exit status; None if nothing has come of it for LIMIT_S: no line of output, no call that NCCL was asked for."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < LIMIT_S:
        now = sum(os.path.getsize(path) for path in glob.glob(os.path.join(folder, how + ".*")))
        if now != size:
            size, since = now, time.monotonic()
        try:
            return job.wait(1)
        except subprocess.TimeoutExpired:
            pass
    return None


def standing_still(build, folder, job, recorded):
    """What capo says of a job that stands still and has recorded; that, and where each thread of its processes waits, stays in the folder."""
    with open(os.path.join(folder, "threads"), "w") as f:
        for stat in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
            try:
                if int(read(stat).rsplit(")", 1)[1].split()[3]) == job.pid:  # of its session
                    f.write(f"{stat} {' '.join(read(os.path.join(os.path.dirname(stat), name)).strip() for name in ('comm', 'wchan', 'syscall'))}\n")
            except (OSError, IndexError):
                pass  # it has ended
    if not recorded:
        return ""
    page = subprocess.run([os.path.join(build, "cli", "capo"), "hang", "--stacks", logs_of(folder)], capture_output=True, text=True).stdout
    with open(os.path.join(folder, "recorded.hang"), "w") as f:
        f.write(page)
    return ", capo hang: " + " ".join(page.split("\n", 3)[1:2]).strip()


def read(path):
    with open(path) as f:
        return f.read()


def stop(job):
    """The launcher stops its ranks on a signal; what is left after that is killed."""
    os.killpg(job.pid, signal.SIGTERM)
    try:
        job.wait(20)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()


def run(program, ranks, torchrun, build, folder, env, recorded, plugin=None):
    """(exit status, the lines that the program prints in order of the alphabet, seconds)"""
    how = "recorded" if recorded else "alone"
    place = os.path.join(folder, how)
    command = launched(build, ranks, program, torchrun)
    if recorded:
        command = [os.path.join(build, "cli", "capo"), "run", "--quiet", "--trace", "all", "--sample", "1",
                   "--dir", logs_of(folder), *(word.replace("@", place) for word in (plugin.options if plugin else [])), "--"] + command
    env = dict(env, CAPO_STANDIN_LOG=place + ".calls", **(plugin.environment(place) if plugin else {}))
    begin = time.monotonic()
    with open(place + ".out", "w") as out, open(place + ".err", "w") as err:
        job = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        status = watched(job, folder, how)
        if status is None:
            status = "no progress for %d s" % LIMIT_S + standing_still(build, folder, job, recorded)
            stop(job)
    with open(place + ".out", errors="replace") as f:
        lines = sorted(SAID.findall(f.read()))
    return status, lines, time.monotonic() - begin


def asked(folder, how):
    """{(call, bytes as capo counts them): times} over all ranks, out of the stand-in's log."""
    calls = collections.Counter()
    for path in glob.glob(os.path.join(folder, how + ".calls.*")):
        with open(path) as f:
            for line in f:
                call, *words = line.split()
                w = dict(word.split("=", 1) for word in words if "=" in word)
                size = int(w["count"]) * int(w["type_bytes"]) * (int(w["ranks"]) if call in PER_RANK else 1)
                calls[call, size] += 1
    return calls


def recorded_calls(build, folder):
    """The same out of capo's logs, every cell of every process; with the communicators' names, call sites, what was dropped."""
    # what processes that were killed left in memory comes into their logs by a report
    subprocess.run([os.path.join(build, "cli", "capo"), "report", "--json", logs_of(folder)], capture_output=True)
    logs = sorted(glob.glob(os.path.join(logs_of(folder), "**", "*.capo"), recursive=True))
    text = subprocess.run([os.path.join(build, "tests", "preload", "log_text"), *logs], capture_output=True, text=True,
                          errors="replace").stdout
    calls, names, sites, dropped = collections.Counter(), set(), [], 0
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        w = dict(re.findall(r"(\w+)=(\S*)", rest))
        if kind == "cell":
            call = rest.split()[0]
            calls["Broadcast" if call == "Bcast" else call, int(w["bytes"])] += int(w["count"])
        elif kind == "comm":
            names.add(line.split("name=", 1)[1])
        elif kind == "site":
            sites.append(rest)
        elif kind == "end":
            dropped += int(w["dropped"])
    return calls, sorted(names), sites, dropped, len(logs)


def differences(what, expected, got):
    """Lines about two counters that should be equal."""
    return [f"{what} {call} of {size} bytes: {got[call, size]} instead of {expected[call, size]}"
            for call, size in sorted(set(expected) | set(got)) if expected[call, size] != got[call, size]]


def judge(release, name, ranks, torchrun, build, folder, env, plugin=None):
    """The program of that @name, or that for NCCL's @plugin of that name."""
    result = Result(release, name, ranks)
    program = "plugged" if plugin else name
    alone = run(program, ranks, torchrun, build, folder, env, False, plugin)
    under = run(program, ranks, torchrun, build, folder, env, True, plugin)
    result.alone_s, result.recorded_s = alone[2], under[2]
    if isinstance(alone[0], str) or not alone[1] or (alone[0] != 0) != expects_failure(program):
        result.problems.append(f"does not run by itself: status {alone[0]}, {len(alone[1])} lines of output; {tail(folder, 'alone')}")
        return result
    if alone[0] != 0 and not expects_failure(program):
        result.problems.append(f"fails by itself: status {alone[0]}; {tail(folder, 'alone')}")
    if alone[0] != under[0]:
        result.problems.append(f"exit status {alone[0]} alone, {under[0]} under capo; {tail(folder, 'recorded')}")
    if alone[1] != under[1]:
        other = sorted(set(alone[1]) ^ set(under[1]))
        result.problems.append(f"output differs: {other[:2]}")
    result.stops = next((m[1] for m in (re.fullmatch(r"rank 0: stops: (.*)", line) for line in under[1]) if m), "")
    truth, mine = asked(folder, "recorded"), asked(folder, "alone")
    if not expects_failure(program):
        result.problems += differences("NCCL was asked, under capo,", mine, truth)
    seen, result.names, sites, dropped, logs = recorded_calls(build, folder)
    seen = collections.Counter({key: n for key, n in seen.items() if key[0] in {call for call, _ in truth}})
    result.problems += differences("capo recorded", truth, seen)
    result.calls, result.kinds, result.sites = sum(seen.values()), len(seen), len(sites)
    result.problems += not_reduced(under[1], seen)
    result.problems += [f"no group is called {name}" for name in release.names_of(program) if name not in result.names]
    result.problems += unreadable(sites, program)
    if not truth:
        result.problems.append("NCCL was asked nothing")
    if logs != ranks:
        result.problems.append(f"{logs} logs of {ranks} ranks")
    if dropped:
        result.problems.append(f"{dropped} records dropped")
    if plugin:
        wrong, result.stops = plugin.judge(build, folder)
        result.problems += wrong
    return result


def not_reduced(lines, seen):
    """What a program said it reduces (common.reduced) and capo has not seen as often, by size: a bucket is one all-reduce."""
    said = collections.Counter(int(m[1]) for m in (re.fullmatch(r"rank \d+: reduces (\d+) bytes", line) for line in lines) if m)
    return [f"{n} buckets of {size} bytes, and {seen['AllReduce', size]} all-reduces" for size, n in sorted(said.items())
            if seen["AllReduce", size] != n]


def unreadable(sites, program):
    """Call sites that a person cannot use: mangled names, and none that names a line of the program."""
    mangled = [word for site in sites for word in re.findall(r"\b_[ZR][A-Z]\w+", site)]
    bad = [f"a call site has {mangled[0][:60]}"] if mangled else []
    moving = [site for site in sites if re.match(r"\d+ [1-9]", site)]
    if program not in NATIVE and not any(f"{program}.py:" in site for site in moving):
        bad.append(f"no call site names a line of {program}.py")
    return bad


def expects_failure(program):
    return program == "aborted"


def tail(folder, how):
    with open(os.path.join(folder, how + ".err"), errors="replace") as f:
        lines = [line.strip() for line in f if line.strip()]
    return "its last words: " + (lines[-1] if lines else "none")


HEAD = "| program | release | CUDA | NCCL | ranks | calls | groups | |\n| --- | --- | --- | --- | --- | --- | --- | --- |"


def row(r):
    return (f"| {r.program} | {r.release.name} | {r.release.cuda} | {r.release.nccl} | {r.ranks} | {r.calls} of {r.kinds} kinds | "
            f"{', '.join(filter(None, r.names))} | {r.verdict()} |")
