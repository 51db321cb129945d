#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/watchdogs.md on jobs that hang: watchdogs.py CAPO BUILD PAGE. vLLM, SGLang and Ray are replaced by small modules
whose names and order of calls are theirs. Each ends a job of the player in which rank 1 stays away; the line must name it."""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import textwrap

from job import CAPO, BUILD, Job, check

SCRIPT = "0 coll 0 allreduce 1000 7 0 0 0\n0 mark\n0 sync 0\n1 mark\n1 until never\n"

FAKES = {
    "vllm/v1/executor/multiproc_executor.py": """
        import os, signal
        class Proc:
            def __init__(self, pid): self.pid = pid
        class Worker:
            def __init__(self, pid): self.proc = Proc(pid)
        class MultiprocExecutor:
            def __init__(self, pids): self.workers = [Worker(pid) for pid in pids]
            def shutdown(self):
                if not getattr(self, "shutting_down", False):
                    self.shutting_down = True
                    for w in self.workers: os.kill(w.proc.pid, signal.SIGKILL)
                    print("killed", len(self.workers))
    """,
    "sglang/srt/utils.py": """
        import os, signal
        def kill_process_tree(pid, include_parent=True):
            for child in map(int, os.environ["PIDS"].split()): os.kill(child, signal.SIGKILL)
            print("killed", len(os.environ["PIDS"].split()))
    """,
    "sglang/launch_server.py": """
        from sglang.srt.utils import kill_process_tree
        import os
        if __name__ == "__main__": kill_process_tree(os.getpid(), include_parent=False)
    """,
    "ray/util/scheduling_strategies.py": """
        class NodeAffinitySchedulingStrategy:
            def __init__(self, node_id, soft): assert not soft
    """,
    "ray/__init__.py": """
        import os, signal, types
        class exceptions:
            class GetTimeoutError(Exception): pass
        class Call:
            def __init__(self, run): self.remote = run
            def options(self, scheduling_strategy): return self
        def remote(num_cpus): return lambda run: Call(run)
        def get(refs, timeout=None):
            if timeout is not None: raise exceptions.GetTimeoutError()
            return refs
        def kill(worker): os.kill(worker.pid, signal.SIGKILL); print("killed", worker.pid)
        def get_runtime_context(): return types.SimpleNamespace(get_node_id=lambda: "node")
    """,
}

DRIVERS = {
    "vllm": """
        import sys
        import vllm_capo
        vllm_capo.register()
        from vllm.v1.executor.multiproc_executor import MultiprocExecutor
        executor = MultiprocExecutor([int(pid) for pid in sys.argv[1:]])
        executor.shutdown()
        executor.shutdown()
    """,
    "ray": """
        import os, sys, types
        import ray
        import ray_capo
        workers = [types.SimpleNamespace(pid=int(pid)) for pid in sys.argv[1:]]
        for w in workers:
            w.__dict__["__ray_call__"] = ray.Call(lambda run, pid=w.pid: (run(None)[0], pid))
        places = ray_capo.find_places(workers)
        try:
            ray_capo.get_or_explain(["step"], workers, places, 1)
        except ray.exceptions.GetTimeoutError:
            print("raised")
    """,
}


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(textwrap.dedent(text))
    for package in [name.split("/")[:i] for i in range(1, name.count("/") + 1)]:
        init = os.path.join(folder, *package, "__init__.py")
        if not os.path.exists(init):
            open(init, "w").close()


def prepare(folder, page):
    snippets = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", open(page).read(), re.S)
    check(snippets, [name for name, _ in snippets] == ["capo_hang.py", "vllm_capo.py", "serve.py", "ray_capo.py"])
    for name, text in snippets:
        write(folder, name, text)
    for name, text in sorted(FAKES.items()):
        write(folder, name, text)
    # watchdogs wait for minutes; here a second is a hang
    write(folder, "bin/capo", '#!/bin/sh\nword=$1\nshift\nexec "%s" "$word" --after 1 "$@"\n' % CAPO)
    os.chmod(os.path.join(folder, "bin/capo"), 0o755)


def end_job(folder, name):
    """The snippet of @name against a job that hangs, as long as it takes the busy machine to show it."""
    job = Job(SCRIPT, 2, CAPO_HANG="0")
    try:
        for rank in (0, 1):
            job.wait("place of rank %d" % rank, lambda: os.path.exists(job.path("script.place.%d" % rank)))
        pids = [str(p.pid) for p in job.ranks]
        # on a busy machine the start may take a second too, which is a hang as well
        job.wait("hang", lambda: '"verdict": "missing"' in subprocess.run(
            [CAPO, "hang", "--json", "--after", "1", pids[0]], stdout=subprocess.PIPE, text=True).stdout)
        env = dict(os.environ, PYTHONPATH=folder, PATH=os.path.join(folder, "bin") + ":" + os.environ["PATH"], PIDS=" ".join(pids))
        if name == "sglang":  # it asks about its own children: this process, whose children the ranks are
            text = open(os.path.join(folder, "serve.py")).read().replace("explain_hang(os.getpid())", "explain_hang(os.getppid())")
            write(folder, "serve_here.py", text)
            words = [sys.executable, os.path.join(folder, "serve_here.py")]
        else:
            write(folder, "driver_%s.py" % name, DRIVERS[name])
            words = [sys.executable, os.path.join(folder, "driver_%s.py" % name), *pids]
        run = subprocess.run(words, env=env, capture_output=True, text=True, timeout=240)
        check(run.stderr, run.returncode == 0 and run.stderr.startswith("capo hang: missing (") and
              ", ranks [1], AllReduce number 1; status 1\n" in run.stderr and run.stderr.count("capo hang: ") == 1)
        check(run.stdout, "killed" in run.stdout and ("raised" in run.stdout) == (name == "ray"))
        for p in job.ranks:
            check("killed", p.wait(240) == -9)
    finally:
        job.end()


def end_unknown(folder):
    """Without capo, or of a process that it does not know, the watchdog goes on."""
    env = dict(os.environ, PYTHONPATH=folder)
    for path in ("/nonexistent", os.path.join(folder, "bin") + ":" + os.environ["PATH"]):
        run = subprocess.run([sys.executable, "-c", "from capo_hang import explain_hang; explain_hang(1 << 30)"], env=dict(env, PATH=path),
                             capture_output=True, text=True, timeout=240)
        check(run.stderr, run.returncode == 0 and run.stderr.startswith("capo hang: no answer: "))


with tempfile.TemporaryDirectory(prefix="capo-watchdogs-") as top:
    prepare(top, sys.argv[3])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda case: end_job(top, case), ("vllm", "ray")))
    end_job(top, "sglang")  # alone: it asks about all children of this process, and takes the newest job
    end_unknown(top)
