# SPDX-License-Identifier: Apache-2.0
"""The table: what happens (rows) to which programs (columns). faults.py runs it and prints it.

A row: own     (program, command): it has a program of its own, in whose column it stands; the other columns are @cells'
       also    the same, beside the programs of all columns
       before  called in the child before exec          during(process, place, random)  while it runs
       place   called with its folders before it runs   after  when it is over
       env     more of the environment, "@" the run's folder; preload: libraries beside ours
       said    what the recorder must have said         drops  calls must have been counted as dropped
       kept    False: there is nowhere to keep calls    killed it does not end by itself
       random  the moment is not the same bare          cells  {program: what stands there instead of a run}
       done    called with the run's folder at the very end
       needs   what this machine lacks for it, or None  title, note: docs/internals/reliability.md
"""
import os, resource, shutil, signal, subprocess, sys, tempfile, time

BUILD = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
SURVIVED, DROPPED, NOT = "survived", "counted as dropped", "not applicable"
VICTIM = "BUILD/tests/faults/victim"
PROGRAMS = {
    "plain": [VICTIM, "plain"],
    "threads": [VICTIM, "threads"],
    "groups": [VICTIM, "groups"],
    "communicators": [VICTIM, "comms"],
    "libfabric": ["BUILD/tests/faults/client"],
    "its own providers": ["BUILD/tests/faults/providers"],
    "Python": ["PYTHON", "HERE/client.py", "BUILD/tests/preload/fake/libnccl.so.2", "BUILD/tests/faults/libmishap.so"],
}
FAULTS = {}


def fault(name, **row):
    FAULTS[name] = row


def happens(name, cells={}, **row):
    """The program does it to itself: mishap.c."""
    fault(name, env={"VICTIM_FAULT": name}, cells={program: NOT for program in cells}, **row)


def own(name, program, argument="", **row):
    """A program of victim.c that is this fault."""
    fault(name, own=(program, [VICTIM, name, *argument.split()]), cells={other: NOT for other in PROGRAMS if other != program}, **row)


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


# Some things are the end of libfabric's own providers, bare and recorded.
NO_PROVIDERS = {"its own providers": NOT}
fault("kill", during=kill_any_time, random=True, killed=True, title="`kill -9` at any moment", note="`capo report --recover`, or the next report, finishes the log")
fault("stop", during=stop_and_go, title="stopped and continued")
fault("file-size", before=limit(resource.RLIMIT_FSIZE, 8 << 20), title="`ulimit -f` 8 MB", cells=NO_PROVIDERS, note="libfabric's own providers cannot be opened then")
fault("files", before=limit(resource.RLIMIT_NOFILE, 8), title="`ulimit -n` 8", cells=NO_PROVIDERS, note="libfabric's own providers cannot be opened then")
fault("memory", before=limit(resource.RLIMIT_AS, 4 << 30), title="`ulimit -v` 4 GB")
# One arena: with one for each thread (128 MB of addresses while it is aligned) it is luck whether the bare program fits.
fault("little-memory", before=limit(resource.RLIMIT_AS, 256 << 20), env={"MALLOC_ARENA_MAX": "1"}, title="`ulimit -v` 256 MB")
fault("data", before=limit(resource.RLIMIT_DATA, 1 << 30), title="`ulimit -d` 1 GB")
fault("stacks", before=limit(resource.RLIMIT_STACK, 1 << 20), title="`ulimit -s` 1 MB")


def nothing_of(*names):
    """Limits of 0, where there is such a limit."""
    def set_them():
        for name in names:
            limit(getattr(resource, "RLIMIT_" + name), 0)()
    return set_them


fault("other-limits", before=nothing_of("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RSS", "RTPRIO", "SIGPENDING"),
      title="`ulimit -c`, `-e`, `-i`, `-l`, `-m`, `-q`, `-r` 0")
happens("cpu", killed=True, title="`ulimit -t` 1 second")


def no_more_processes():
    """A user of whom there is one process: root is not held to this limit. Nobody else has this number."""
    user = 20000 + os.getpid() % 40000
    os.setgid(user)
    os.setuid(user)
    limit(resource.RLIMIT_NPROC, 1)()


def nobody_else_may():
    pid = os.fork()
    if pid == 0:
        try:
            no_more_processes()
            os._exit(not os.access(BUILD + "/tests/faults/victim", os.X_OK))
        except OSError:
            os._exit(1)
    return "no other user may run the programs" if os.waitpid(pid, 0)[1] else None


def open_to_all(place):
    for path in os.path.dirname(place.dir), place.dir, place.shm:
        os.chmod(path, 0o777)


fault("processes", before=no_more_processes, place=open_to_all, needs=nobody_else_may, title="`ulimit -u` 1",
      cells={"threads": NOT, "Python": NOT}, note="no thread can be made: neither ours nor the program's; Python may be root's own")
fault("no-folder", env={"CAPO_DIR": "/proc/nowhere/logs"}, kept=False, said="not kept", title="a log folder that cannot be made", note="it says so once, and goes on")
fault("no-memory", env={"CAPO_SHM": "@/nowhere"}, said="no recording memory", title="no `/dev/shm`", note="private memory; a kill would lose the last calls")
own("many", "communicators", title="70,000 communicators made and destroyed", note="from the 64,513th on those of one size share a number")
own("cancel", "threads", title="a thread cancelled in the first call of all", note="of threads")
own("cancel-async", "threads", "300", title="threads cancelled asynchronously, anywhere", note="of threads")
happens("jump", drops=True, title="`longjmp` and `siglongjmp` out of calls",
        note="the call that was left is counted as dropped, those after it are recorded")
happens("handler", drops=True, title="a signal's handler that calls NCCL, inside a call", note="outside a call it is recorded")
happens("timer", title="the same, at any moment")
happens("clone", cells=["threads"], title="a child of a bare `clone()`",
        note="a log of its own, as after `fork()`; Linux 4.14 and later; of a program with threads such a child may use no lock of theirs, `malloc()`'s neither")
happens("fork", title="`fork()`, both go on")
happens("vfork", title="`vfork()` and exec")
happens("exec", killed=True, title="exec, another program that goes on")
happens("two", title="two NCCLs, called by turns")
happens("dlclose", title="an NCCL that is loaded and closed, five times")
happens("traps", cells=["Python"], title="floating-point exceptions that trap", note="Python's own arithmetic is inexact")
own("thread-exit", "threads", title="threads that end by `pthread_exit()`", note="of threads")
own("exit-calls", "threads", title="`exit()` while other threads go on calling", note="of threads; `capo report --recover`, or the next report, adds the calls made meanwhile")
own("exit-late", "threads", env={"FAKE_ENDS_WITH": "@/end"}, title="a thread that calls after the log has ended, while destructors run", note="of threads; not counted: calls in the last milliseconds of the process, at most 50")
own("many-threads", "threads", drops=True, title="1,040 threads that call at once", note="1,024 have a ring; the calls of the others are counted as dropped")
own("stack", "threads", title="a thread with a stack of 16 KB", note="of threads")
happens("priority", title="a real-time thread on one processor", note="root only; elsewhere the policy is refused")


def no_comma():
    """A language with a comma, made in the folder of the programs: no machine has one for certain."""
    made = BUILD + "/tests/faults/locale"
    with tempfile.TemporaryDirectory(dir=BUILD + "/tests/faults") as folder:  # another test may be making the same
        os.mkdir(folder + "/locale")
        if not os.path.exists(made) and subprocess.run(["localedef", "-f", "UTF-8", "-i", "de_DE", folder + "/locale/de_DE.UTF-8"]).returncode:
            return "no package locales to make one of"
        try:
            os.rename(folder + "/locale", made)
        except OSError:
            pass  # it is there
    return None


fault("comma", env={"VICTIM_FAULT": "comma", "LOCPATH": f"{BUILD}/tests/faults/locale"}, needs=no_comma, title="a language whose numbers have a comma")
happens("abort", killed=True, title="`abort()`")
happens("segv", killed=True, title="a segmentation fault")
happens("_exit", killed=True, title="`_exit()`")


def not_root():
    return None if os.geteuid() == 0 else "only root may"


def mount(size):
    def make(place):
        os.mkdir(place.logs)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", place.logs], check=True)
    return make


def cannot_mount():
    if os.geteuid():
        return "only root may mount"
    with tempfile.TemporaryDirectory() as top:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", top], stderr=subprocess.DEVNULL).returncode:
            return "no tmpfs may be mounted here"
        subprocess.run(["umount", top])
    return None


def mount_for_reading(place):
    os.mkdir(place.logs)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place.logs], check=True)


def make_room(place):
    subprocess.run(["mount", "-o", "remount,size=8m", place.logs], check=True)


def unmount(top):
    for side in "bare", "ours":
        subprocess.run(["umount", os.path.join(top, side, "logs")], check=False)


fault("full-disk", place=mount("8k"), after=make_room, done=unmount, needs=cannot_mount, said="no room for the rest", title="a full disk under the log",
      note="`capo report --recover` finishes the log when there is room")
fault("read-only", place=mount_for_reading, done=unmount, needs=cannot_mount, kept=False, said="not kept",
      title="a log folder that is mounted for reading only", note="it says so once, and goes on")
fault("slow-folder", preload=["libcapo_slow.so"], title="a folder in which each write takes 20 ms more")


def set_clock(place, text="+0"):
    with open(os.path.join(place.dir, "new"), "w") as f:
        f.write(text + "\n")
    os.rename(os.path.join(place.dir, "new"), os.path.join(place.dir, "clock"))


def step_clock(process, place, random):
    for text in "+3600", "-86400", "+1000d", "+0":
        time.sleep(random.random() * 0.01)
        set_clock(place, text)


FAKETIME = {"FAKETIME_TIMESTAMP_FILE": "@/clock", "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_RESET": "1"}
fault("clock-step", preload=["faketime/libfaketimeMT.so.1"], place=set_clock, during=step_clock, env={**FAKETIME, "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
      title="the clock of the day steps by hours, a day back, years")
fault("faketime", preload=["faketime/libfaketimeMT.so.1"], place=set_clock, during=step_clock, env=FAKETIME, title="libfaketime, all clocks, the same steps")
fault("fast-time", preload=["faketime/libfaketimeMT.so.1"], env={"FAKETIME": "+0 x20"}, title="libfaketime, time 20 times as fast")
fault("still-time", preload=["faketime/libfaketimeMT.so.1"], env={"FAKETIME": "2020-01-01 00:00:00"}, cells=NO_PROVIDERS, title="libfaketime, time stands still",
      note="libfabric's own providers wait for time to pass, with capo or without")
for name, library in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2"),
                      ("gperftools", "libprofiler.so.0"), ("asan", "libasan.so.8")):
    for where in "front", "behind":
        if name == "asan" and where == "behind":  # its runtime must be the first
            continue
        fault(name + "-" + where, preload=[library], front=where == "front", env={"ASAN_OPTIONS": "detect_leaks=0", "CPUPROFILE": "@/profile"},
              title=f"{'ASan' if name == 'asan' else name} preloaded {'in front' if where == 'front' else 'behind'}")


def no_mpi():
    """An MPI program and a profiler of MPI, made by the distribution's compiler for it, in the folder of the other programs."""
    here, made = os.path.dirname(os.path.realpath(__file__)), BUILD + "/tests/faults/"
    root = os.path.dirname(os.path.dirname(here))
    if not shutil.which("mpicc.openmpi") or not shutil.which("mpirun.openmpi"):
        return "no package openmpi-bin or libopenmpi-dev"
    for name, words in (("mpi_client", ["mishap.c", "-I" + root, "-I" + root + "/include", BUILD + "/tests/preload/fake/libnccl.so.2",
                                        "-Wl,-rpath," + BUILD + "/tests/preload/fake", "-ldl", "-lm"]),
                        ("libmpi_profiler.so", ["-shared", "-fPIC"])):
        source = name.replace("lib", "").replace(".so", "") + ".c"
        with tempfile.TemporaryDirectory(dir=made) as folder:  # another test may be making the same
            done = subprocess.run(["mpicc.openmpi", "-std=gnu11", "-D_GNU_SOURCE", "-O1", source, *words, "-o", folder + "/" + name], cwd=here,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                return "the MPI program cannot be made: " + done.stdout[:300]
            os.rename(folder + "/" + name, made + name)
    return None


MPI = ("MPI", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2", "BUILD/tests/faults/mpi_client"])
BESIDE = "beside the programs of the columns one of two MPI ranks, with an `MPI_Allreduce` beside each call"
for where in "front", "behind":
    fault("mpi-" + where, preload=["libmpi_profiler.so"], front=where == "front", also=MPI, needs=no_mpi,
          title=f"a profiler of MPI preloaded {'in front' if where == 'front' else 'behind'}",
          note=BESIDE + "; the test's own library over `PMPI_`, which counts the same all-reduces")
    fault("darshan-" + where, preload=["libdarshan.so"], front=where == "front", also=MPI, needs=no_mpi,
          env={"DARSHAN_ENABLE_NONMPI": "1", "DARSHAN_LOGPATH": "@"}, title=f"Darshan preloaded {'in front' if where == 'front' else 'behind'}",
          note=BESIDE + "; no package of Debian's has it: built from its sources, and found by `FAULT_LIBRARIES`")


for name, title in ("setuid", "another user while it runs"), ("chroot", "another root while it runs"):
    happens(name, killed=True, needs=not_root, title=title, note="`capo report --recover` finishes the log that the process may not write any more")
