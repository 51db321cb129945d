# SPDX-License-Identifier: Apache-2.0
"""The table: what happens (rows) to which programs (columns). faults.py runs it and prints it.

A row: inside  the fault happens inside, victim.c has it under this name (one program)
       before  called in the child before exec          during(process, place, random)  while it runs
       place   called with its folders before it runs   after  when it is over
       env     more of the environment, "@" the run's folder; preload: libraries beside ours
       said    what the recorder must have said         drops  calls must have been counted as dropped
       kept    False: there is nowhere to keep calls    killed it does not end by itself
       random  the moment is not the same bare          cells  {program: why there is no such cell}
       needs   what this machine lacks for it, or None  title, note: docs/reliability.md
"""
import os, resource, signal, time

SURVIVED, DROPPED = "survived", "counted as dropped"
VICTIM = "BUILD/tests/faults/victim"
PROGRAMS = {
    "plain": [VICTIM, "plain"],
    "threads": [VICTIM, "threads"],
    "groups": [VICTIM, "groups"],
    "communicators": [VICTIM, "comms"],
}
FAULTS = {}


def fault(name, **row):
    FAULTS[name] = row


fault("nothing", title="nothing")


def kill_any_time(process, place, random):
    calls = random.randrange(1, 1900)
    while place.counted()[0] < calls and process.poll() is None:
        time.sleep(0.0002)
    process.kill()


def stop_and_go(process, place, random):
    for _ in range(3):
        time.sleep(random.random() * 0.01)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.02)
        process.send_signal(signal.SIGCONT)


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))



fault("kill", during=kill_any_time, random=True, killed=True, title="`kill -9` at any moment", note="`capo recover`, or the next report, finishes the log")
fault("stop", during=stop_and_go, title="stopped and continued")
fault("file-size", before=limit(resource.RLIMIT_FSIZE, 8 << 20), title="`ulimit -f` 8 MB")
fault("files", before=limit(resource.RLIMIT_NOFILE, 8), title="`ulimit -n` 8")
fault("no-folder", env={"CAPO_DIR": "/proc/nowhere/logs"}, kept=False, said="not kept", title="a log folder that cannot be made", note="it says so once, and goes on")
fault("no-memory", env={"CAPO_SHM": "@/nowhere"}, said="no recording memory", title="no `/dev/shm`", note="private memory; a kill would lose the last calls")
fault("many", inside="many", title="70,000 communicators made and destroyed",
      note="from the 64,513th on those of one size share a number")
fault("cancel", inside="cancel", title="a thread cancelled in the first call of all")
fault("cancel-async", inside="cancel-async 300", title="threads cancelled asynchronously, anywhere")
fault("jump", inside="jump", drops=True, title="`longjmp` and `siglongjmp` out of calls",
      note="the call that was left is counted as dropped, those after it are recorded")
fault("handler", inside="handler", drops=True, title="a signal's handler that calls NCCL, inside a call",
      note="outside a call it is recorded")
fault("timer", inside="timer", title="the same, at any moment")
fault("clone", inside="clone", title="a child of a bare `clone()`", note="a log of its own, as after `fork()`; Linux 4.14 and later")
fault("fork", inside="fork", title="`fork()`, both go on")
fault("vfork", inside="vfork", title="`vfork()` and exec")
fault("traps", inside="traps", title="floating-point exceptions that trap")
fault("thread-exit", inside="thread-exit", title="threads that end by `pthread_exit()`")
fault("stack", inside="stack", title="a thread with a stack of 16 KB")
fault("priority", inside="priority", title="a real-time thread on one processor", note="root only; elsewhere the policy is refused")
fault("comma", inside="comma", env={"VICTIM_LOCALE": "de_DE.UTF-8"}, title="a language whose numbers have a comma")
fault("abort", inside="abort", killed=True, title="`abort()`")
fault("segv", inside="segv", killed=True, title="a segmentation fault")
fault("_exit", inside="_exit", killed=True, title="`_exit()`")


def not_root():
    return None if os.geteuid() == 0 else "only root may"


for name, title in ("setuid", "another user while it runs"), ("chroot", "another root while it runs"):
    fault(name, inside=name, killed=True, needs=not_root, title=title, note="`capo recover` finishes the log that the process may not write any more")
