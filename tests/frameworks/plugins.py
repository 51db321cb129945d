# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's example plugins behind capo: built from NCCL's public sources, loaded by the NCCL that a program calls, alone and chained.

On the stand-in, under PyTorch (programs/plugged.py), a profiler must write down the same events with and without capo; what a tuner chooses must be
what it chooses alone, but where capo's profile has a row. The same is asked of NCCL itself, on the virtual GPUs of capo plan, as far as it goes there.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

from wheels import Missing

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "plan"))
import links

REAL = ("2.28.9", "2.30.7", "2.32.3")  # of NCCL itself: those that ./dev matrix has fetched
MACHINE = ("--platform", "dgx1v", "--alloc", "4+4", "--coll", "all", "--sizes", "16K,1M,64M")
RANKS = 8
PROFILE = {"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "ll", "channels": 2}]}]}
OURS = ("TREE", "LL")
CONFIG = "".join(f"{coll},0,4294967295,ring,simple,{channels},-1,-1\n" for coll, channels in (("allreduce", 1), ("allgather", 2), ("reducescatter", 3)))


class Plugin:
    """@sources below NCCL's plugins folder; @settings of its own, where @ stands for the files of one run."""

    options = []  # of capo run

    def __init__(self, folder, sources, settings):
        self.folder, self.sources, self.settings = folder, sources, settings
        self.library = self.runtime = None

    def build(self, nccl, to, headers, runtime):
        """Compiles it, with the @headers of CUDA's @runtime; the Makefiles there want a whole toolkit."""
        where = os.path.join(nccl, "plugins", self.folder)
        sources = sorted(glob.glob(os.path.join(where, self.sources)))
        if not sources:
            raise Missing(f"NCCL_SOURCES={nccl} has no plugins/{self.folder}")
        os.makedirs(to, exist_ok=True)
        self.runtime = runtime
        self.library = os.path.join(to, f"lib{self.folder.replace('/', '-')}.so")
        version = os.path.join(to, "version.cc")  # which Inspector's Makefile makes of what git says
        with open(version, "w") as f:
            f.write('extern "C" const char *get_git_version_info() { return "of its sources"; }\n')
        compiler = ["gcc"] if self.sources.endswith(".c") else ["g++", "-std=c++17", version]
        done = subprocess.run([*compiler, "-O1", "-w", "-fPIC", "-shared", f"-I{where}/nccl", f"-I{where}", f"-I{headers}", "-o", self.library, *sources,
                               runtime, "-ldl", "-lpthread"], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"plugins/{self.folder} does not compile: {done.stderr.strip().splitlines()[0]}")

    def environment(self, place):
        """What NCCL needs to load it, and it to write to files that begin with @place."""
        return {self.variable: self.library, **{name: text.replace("@", place) for name, text in self.settings.items()}}

    def judge(self, build, folder):
        """(what is wrong, what is to be said) of the two runs of the program in @folder, and of NCCL itself."""
        alone, behind = (self.read_output(os.path.join(folder, how)) for how in ("alone", "recorded"))
        wrong, said = self.compared(alone, behind)
        cache = os.environ.get("CAPO_NCCL_CACHE") or os.path.join(HERE, "..", "..", ".deps", "nccl-releases")
        libraries = {release: os.path.join(cache, release, "libnccl.so.2") for release in REAL}
        there = [release for release in REAL if os.path.exists(libraries[release])]
        for release in there:
            by_itself, with_capo = (self.real(build, os.path.join(folder, f"nccl-{release}-{how}"), libraries[release], how) for how in ("alone", "recorded"))
            wrong += [f"NCCL {release} itself: {line}" for line in self.real_compared(by_itself, with_capo)]
        if there:
            said += f"; {self.of_real} on NCCL {', '.join(there)} itself"
        return wrong, said

    def real(self, build, place, library, how):
        """(its answer, its log) of NCCL itself with the plugin, alone or behind capo."""
        shim = os.path.join(build, "shim", "libcapo.so")
        os.makedirs(place)
        env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,PROFILE,TUNING", "NCCL_DEBUG_FILE": os.path.join(place, "debug.%p"),
               "CAPO_DIR": os.path.join(place, "logs"), "CAPO_QUIET": "1", **self.environment(os.path.join(place, "its"))}
        if how == "recorded":
            profile = os.path.join(place, "profile.json")
            with open(profile, "w") as f:
                json.dump(PROFILE, f)
            env.update({"LD_PRELOAD": shim, self.variable: shim, self.chained: self.library, "CAPO_TUNER": "on", "CAPO_PROFILER": "on",
                        **({"CAPO_PROFILE": profile} if self.options else {})})
        capo = links.tree(build, place, env, [os.path.dirname(self.runtime), os.path.join(build, "tests", "standin")])
        done = subprocess.run([capo, "plan", "--json", *MACHINE, "--nccl", library], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {"rows": [], "error": done.stderr.strip()}, read(os.path.join(place, "debug.*"))


def read(pattern):
    text = ""
    for path in sorted(glob.glob(pattern)):
        with open(path, errors="replace") as f:
            text += f.read()
    return text


class Tuner(Plugin):
    variable, chained = "NCCL_TUNER_PLUGIN", "CAPO_CHAIN_TUNER"
    options = ["--profile", "@.profile.json"]
    of_real = "the same"

    def environment(self, place):
        for name, text in ((".conf", CONFIG), (".profile.json", json.dumps(PROFILE))):
            with open(place + name, "w") as f:
                f.write(text)
        return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING", "NCCL_DEBUG_FILE": place + ".debug.%p", **super().environment(place)}

    def read_output(self, place):
        """What NCCL says that it runs: {(collective, bytes, algorithm, protocol, channels): times}"""
        found = re.findall(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}", read(place + ".debug.*"))
        return collections.Counter((coll, int(size), algo, proto, int(last) - int(first) + 1) for coll, size, algo, proto, first, last in found)

    def compared(self, alone, behind):
        of_profile = [key for key in behind.elements() if key[0] == "AllReduce"]
        own = [collections.Counter({key: n for key, n in each.items() if key[0] != "AllReduce"}) for each in (alone, behind)]
        wrong = [f"{key} is not the profile's" for key in of_profile if key[2:4] != OURS]
        wrong += [f"{sorted(own[1] - own[0])[:2]} instead of {sorted(own[0] - own[1])[:2]}"] * (own[0] != own[1])
        wrong += ["it has no opinion of its own"] * all(key[2:4] == OURS for key in alone if key[0] == "AllReduce")
        return wrong, f"{len(of_profile)} choices are capo's profile's, {sum(own[1].values())} its own"

    def real_compared(self, alone, behind):
        if not alone[0]["rows"] or not behind[0]["rows"]:
            return [alone[0].get("error") or behind[0].get("error")]
        mine, theirs = ({(r["coll"], r["bytes"]): (r["default"]["algo"], r["default"]["proto"], r["default"]["channels"]) for r in answer["rows"]}
                        for answer, _ in (alone, behind))
        wanted = {key: ("Tree", "LL", 2) if key[0] == "allreduce" else choice for key, choice in mine.items()}
        return [f"{coll} of {size} bytes: {theirs.get((coll, size))} instead of {choice}" for (coll, size), choice in wanted.items()
                if theirs.get((coll, size)) != choice] + ["it has no opinion of its own"] * (mine == wanted)


class Profiler(Plugin):
    variable, chained = "NCCL_PROFILER_PLUGIN", "CAPO_CHAIN_PROFILER"
    of_real = "loaded and begun behind capo as alone, where nothing ends,"

    def compared(self, alone, behind):
        wrong = [] if alone == behind else [f"events differ: {[*(alone - behind), *(behind - alone)][:2]}"]
        return wrong + ["it writes nothing"] * (not alone), f"{sum(alone.values())} events of {len(alone)} kinds as without capo"

    def real_compared(self, alone, behind):
        """Kernels do not end there, so no communicator does, and none of its events is written: only how it begins."""
        begun = [collections.Counter(re.sub(r"commHash: \d+ ", "", line) for line in re.findall(self.begins, log)) for _, log in (alone, behind)]
        return ([] if begun[0] == begun[1] else [f"it begins otherwise: {begun}"]) + ["it is not begun"] * (sum(begun[0].values()) < RANKS)


class Example(Profiler):
    begins = r"PROFILER/Plugin: init commName.*"

    def read_output(self, place):
        """Its events without times, clocks, addresses and the communicators' ids."""
        events = []
        for line in read(place + ".events_*").splitlines():
            if line.startswith('{"'):
                line = re.sub(r'"(ts|id|pid|tid|Stream|CommHash|StartGpuClk|StopGpuClk)": ("[^"]*"|[\d.]+)', "", line)
                events.append(re.sub(r"[ ,{}]+", " ", line))
        return collections.Counter(events)


class Inspector(Profiler):
    begins = r"Inspector Init Failed .*|Inspector: CUDA wrapper initialized.*"
    of_real = "on virtual GPUs it says alone as behind capo that there is none (`Inspector encountered CUDA error`),"

    def environment(self, place):
        os.makedirs(place + ".inspector", exist_ok=True)
        return super().environment(place)

    def read_output(self, place):
        records = [json.loads(line) for line in read(place + ".inspector/*.log").splitlines()]
        return collections.Counter(
            " ".join(f"{name}={value}" for part in (record["header"], record.get("coll_perf") or record.get("p2p_perf") or {}) for name, value in part.items()
                     if name != "id" and not re.search(r"time_us|gbs|event_trace", name)) for record in records)


def plugins():
    return {
        "example_tuner": Tuner("tuner/example", "plugin.c", {"NCCL_TUNER_CONFIG_FILE": "@.conf"}),
        "basic_tuner": Tuner("tuner/basic", "plugin.c", {}),
        "example_profiler": Example("profiler/example", "*.cc", {"NCCL_PROFILE_EVENT_MASK": "4095", "NCCL_PROFILE_DUMP_FILE": "@.events"}),
        "inspector": Inspector("profiler/inspector", "*.cc", {
            "NCCL_INSPECTOR_ENABLE": "1", "NCCL_INSPECTOR_DUMP_DIR": "@.inspector", "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES": "0",
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "500"}),
    }
