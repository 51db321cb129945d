# SPDX-License-Identifier: Apache-2.0
"""Real programs under capo without a GPU: unmodified PyTorch on the stand-in, alone and recorded, and what differs.

usage: frameworks.py BUILD [--quick] [--markdown] [--cost N] [--keep FOLDER] [NAME...]
  NAME        a release (torch-2.15.0) or a program (ddp); default: the newest release, every program
  --quick     the newest release, ddp on 2 ranks under torchrun
  --markdown  print the table of docs/internals/compatibility.md
  --cost N    what capo costs a whole job of the newest release: N turns, alone and recorded
  --keep      leave outputs and logs there
nccl_tests wants ${NCCL_TESTS}, horovod_ops ${HOROVOD}, each the folder of a build; NVIDIA's plugins (example_tuner, basic_tuner, example_profiler, inspector) want
${NCCL_SOURCES}, the folder of NCCL's public sources. Packages are kept below ${CAPO_FRAMEWORKS:-.deps/frameworks} (about 1.1 GB a release). Exit status: 0; 1 a check failed;
77 a package could not be had.
"""
import argparse
import os
import shutil
import sys
import tempfile

import cost
import plugins
import referee
import stubs
import wheels
from wheels import Missing, say

HERE = os.path.dirname(os.path.abspath(__file__))
RELEASES = ["torch-2.15.0", "torch-2.14.1", "torch-2.13.0"]  # the newest, and the two before
BY_NAME = ["torch-2.8.0"]  # the last for CUDA 12
# program: ranks, and whether torchrun starts it (else tests/jobs/launch, which is quicker: no torch in the launcher)
PROGRAMS = {
    "ddp": ((2, 4), True),
    "buckets": ((2, 4), False),
    "collectives": ((2, 4), False),
    "coalesced": ((2, 4), False),
    "fsdp": ((2, 4), False),
    "tensor_parallel": ((4,), False),
    "pipeline": ((2, 4), False),
    "own_tests": ((4,), False),
    "groups": ((4,), False),
    "splits": ((4,), False),
    "shrink": ((4,), False),
    "graph": ((2, 4), False),
    "aborted": ((2,), False),
    "recovered": ((2, 4), False),
    "nonblocking": ((2, 4), False),
    "registered": ((2, 4), False),
    "ctypes_nccl": ((2, 4), False),
    "cupy_nccl": ((2, 4), False),
    "nccl_bindings": ((2, 4), False),
    "vllm_pynccl": ((2, 4), False),
    "nccl_tests": ((4, 8), False),
    "deepspeed_zero": ((2, 4), False),
    "horovod_ops": ((2, 4), False),
    **{name: ((2,), False) for name in plugins.plugins()},
}


# What some want besides: a folder, the packages in it, and where of the first only some files are kept, which.
EXTRAS = {
    "deepspeed_zero": [("deepspeed-0.19.8", "deepspeed==0.19.8 hjson==3.1.0 msgpack==1.2.4 psutil==7.2.2 py-cpuinfo==9.0.0 pydantic==2.14.3 "
                        "pydantic_core==2.50.4 annotated_types==0.8.0 typing_inspection==0.4.5 tqdm==4.70.1 einops==0.8.2 ninja==1.13.2", None)],
    "cupy_nccl": [("cupy-14.2.0", "cupy-cuda13x==14.2.0 cuda-pathfinder==1.9.0", None)],
    "horovod_ops": [("horovod-wants", "cloudpickle==3.1.2 psutil==7.2.2 PyYAML==6.0.3", None)],
    "nccl_bindings": [("nccl4py-0.6.0", "nccl4py==0.6.0 cuda-pathfinder==1.9.0", None)],
    "own_tests": [("expecttest-0.3.0", "expecttest==0.3.0", None)],
    "vllm_pynccl": [("vllm-0.33.0", "vllm==0.33.0", r"vllm.*(\.py|/METADATA)$"),
                    ("vllm-wants", "psutil==7.2.2 regex==2026.11.15 tqdm==4.70.1 pyzmq==27.3.0 requests==2.34.2 urllib3==2.8.0 certifi==2026.10.18 idna==3.20 "
                     "charset_normalizer==3.5.2", None)],
}
# What is not fetched but built by whoever wants it: the variable that names its folder.
BUILT = {"nccl_tests": ("NCCL_TESTS", "a build of nccl-tests"), "horovod_ops": ("HOROVOD", "a build of Horovod")}
# What the program calls its groups: capo must, too.
NAMES = {
    "collectives": [],  # made at the first call where no device is named: up to 2.8 the name is nowhere on the stack then
    "tensor_parallel": ["default_pg", "mesh_dp", "mesh_tp"],
    "groups": ["default_pg", "half_0", "half_1", "mesh_dp", "mesh_tp", "split"],
    "nonblocking": ["default_pg", "second"],
    "ctypes_nccl": [],
    "cupy_nccl": [],
    "nccl_bindings": [],
    "vllm_pynccl": [],
    "nccl_tests": [],
    "horovod_ops": [],
}


class Release:
    """One unpacked release, and the libraries it runs on."""

    def __init__(self, name, build, store):
        package, version = name.split("-", 1)
        self.name = name
        self.folder = store.get(name, f"{package}=={version}")
        wanted = wheels.requirements(self.folder, package)
        cuda = wheels.cuda_of(wanted)
        major, minor = map(int, cuda.split("."))
        cudnn = [int(x) for x in wheels.version_of(wanted, "nvidia-cudnn", "9.0.0").split(".")[:3]]
        self.cuda, self.nccl = cuda, wheels.version_of(wanted, "nvidia-nccl", "2.28.9")
        standin = os.path.join(build, "tests", "standin")
        self.stubs = os.path.join(build, "tests", "frameworks", name)
        lib = os.path.join(self.folder, "torch", "lib")
        self.headers = wheels.headers(store, cuda)
        lacking = stubs.make([os.path.join(lib, f) for f in sorted(os.listdir(lib)) if f.startswith("lib") and ".so" in f], self.stubs,
                             standin, os.path.join(HERE, "..", "standin", "cudart"), self.headers,
                             {"cuda": major * 1000 + minor * 10, "cudnn": cudnn[0] * 10000 + cudnn[1] * 100 + cudnn[2]})
        say(f"{name}: CUDA {cuda}, NCCL {self.nccl}; {len(lacking)} functions that nobody has, refused when called")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_", "TORCH_", "LD_"))},
            "PYTHONPATH": self.folder + ":" + store.common(),
            "LD_LIBRARY_PATH": self.stubs + ":" + standin,
            "CAPO_STANDIN_NCCL_VERSION": self.nccl,
            "CAPO_STANDIN_TIMEOUT": "600",  # a slow rank is waited for; who does not come at all is the referee's
            "IPATH_NO_BACKTRACE": "1",  # else a library under the distribution's libfabric catches an abort, and may stand still in it
            # PyTorch's own dump after a timeout runs on while the process ends, and on a busy machine ends it badly
            "TORCH_FR_DUMP_ON_TIMEOUT": "0",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        }

    def with_extras(self, program, store):
        """The environment of the program; its own packages are fetched. DeepSpeed is built, without operators of its own, by this PyTorch."""
        env = self.env
        if program in BUILT:
            variable, what = BUILT[program]
            if not os.environ.get(variable):
                raise Missing(f"{variable} names no folder of {what}")
            env = dict(env, **{variable: os.environ[variable]})
        for name, packages, only in EXTRAS.get(program, []):
            folder = store.get(name, *packages.split(), options=["--no-build-isolation"], env=dict(self.env, DS_BUILD_OPS="0"), only=only)
            env = dict(env, PYTHONPATH=env["PYTHONPATH"] + ":" + folder)
        return env

    def plugin(self, name):
        """NCCL's plugin of that name, built for this release; None for a program of another kind."""
        found = plugins.plugins().get(name)
        if found:
            if not os.environ.get("NCCL_SOURCES"):
                raise Missing("NCCL_SOURCES names no folder of NCCL's sources")
            runtime = os.path.join(self.stubs, f"libcudart.so.{self.cuda.split('.')[0]}")
            found.build(os.path.realpath(os.environ["NCCL_SOURCES"]), os.path.join(self.stubs, "plugins"), self.headers, runtime)
        return found

    def names_of(self, program):
        return NAMES.get(program, ["default_pg"])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", "", 1))
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--cost", type=int)
    parser.add_argument("--keep")
    parser.add_argument("names", nargs="*")
    args = parser.parse_intermixed_args()
    build = os.path.realpath(args.build)
    unknown = [n for n in args.names if n not in PROGRAMS and not n.startswith("torch-")]
    if unknown:
        parser.error(f"no release or program of that name: {' '.join(unknown)}; there are {' '.join(RELEASES + BY_NAME + list(PROGRAMS))}")
    releases = [n for n in args.names if n not in PROGRAMS] or RELEASES[:1]
    programs = ["ddp"] if args.quick else [n for n in args.names if n in PROGRAMS] or list(PROGRAMS)
    store = wheels.Wheels(os.environ.get("CAPO_FRAMEWORKS") or os.path.realpath(os.path.join(HERE, "..", "..", ".deps", "frameworks")))
    out = args.keep or tempfile.mkdtemp(prefix="capo-frameworks-")
    results, skipped = [], []
    if args.markdown:
        print(referee.HEAD, flush=True)
    for name in releases:
        try:
            release = Release(name, build, store)
        except Missing as why:
            skipped.append(f"{name}: {why}")
            say("SKIP " + skipped[-1])
            continue
        if args.cost:
            for of in cost.TRAINED:
                cost.measure(build, out, release.env, args.cost, of)
            continue
        for program in programs:
            counts, torchrun = PROGRAMS[program]
            try:
                env, plugin = release.with_extras(program, store), release.plugin(program)
            except Missing as why:
                skipped.append(f"{program}: {why}")
                say("SKIP " + skipped[-1])
                continue
            for ranks in counts[:1] if args.quick else counts:
                folder = os.path.join(out, name, f"{program}-{ranks}")
                shutil.rmtree(folder, ignore_errors=True)
                os.makedirs(folder)
                result = referee.judge(release, program, ranks, torchrun, build, folder, env, plugin)
                results.append(result)
                print(referee.row(result) if args.markdown else result.line(), flush=True)
    bad = sum(bool(r.problems) for r in results)
    if bad and not args.keep:
        say(f"what failed is kept in {out}")
    elif not args.keep:
        shutil.rmtree(out, ignore_errors=True)
    print(f"{len(results) - bad} passed, {bad} failed, {len(skipped)} skipped")
    if skipped and not results:
        print(skipped[0])
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
