#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""aws-ofi-nccl, built from its sources, in the real libnccl on virtual GPUs: how far it goes without a device, what capo records of it, and its
tuner behind capo's.

usage: ofi.py BUILD SOURCE [LIBFABRIC_SOURCE [LIBFABRIC_SO]]
  SOURCE            of aws-ofi-nccl; nothing is written there
  LIBFABRIC_SOURCE  of a libfabric of 1.22 or later, for its headers, and a library of it (default: the one inside MPICH in .deps/mpi);
                    without, the distribution's libfabric, with which aws-ofi-nccl has no tuner
Built in .deps/aws-ofi-nccl (kept). Exit status: 0; 1 a check failed; 77 it cannot be built here.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "plan"))
import links

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "..", "..")
DEPS = os.path.realpath(os.path.join(TOP, ".deps"))
PRODUCT = "p5en.48xlarge"  # a machine whose tuner has something to say
SIZES = "16K,1M,16M,128M"


class Skip(Exception):
    pass


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def must(command, what, **more):
    done = run(command, **more)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line] or [done.stderr[-300:]]
        raise Skip(f"{what}: {lines[0]}")
    return done.stdout


def cuda():
    """A folder with include/cuda.h and cuda_runtime.h: the toolkit, or what ./dev frameworks has fetched."""
    for path in (os.environ.get("CUDA_HOME", "/usr/local/cuda"), *sorted(glob.glob(os.path.join(DEPS, "frameworks/cuda-*/site-packages/nvidia/*")))):
        if os.path.exists(os.path.join(path, "include", "cuda_runtime.h")):
            return path
    raise Skip("no cuda_runtime.h: CUDA_HOME, or ./dev frameworks, which fetches it")


def build(source, libfabric):
    """The plugin's libraries in a folder; made once for each version of its sources."""
    missing = [tool for tool in ("autoreconf", "libtoolize", "make", "g++") if not shutil.which(tool)]
    if not os.path.exists(os.path.join(source, "configure.ac")):
        raise Skip(f"no sources of aws-ofi-nccl in {source}")
    if missing:
        raise Skip(f"to build it needs {' '.join(missing)} (Debian: autoconf automake libtool make g++)")
    key = hashlib.sha256()
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(f for f in folders if f not in (".git", "autom4te.cache"))
        for name in sorted(files):
            if name.endswith((".cpp", ".h", ".ac", ".am", ".m4")):
                with open(os.path.join(folder, name), "rb") as f:
                    key.update(name.encode() + f.read())
    key.update(repr(libfabric).encode())
    place = os.path.join(DEPS, "aws-ofi-nccl", key.hexdigest()[:16])
    if os.path.exists(os.path.join(place, "lib", "libnccl-net-ofi.so")):
        return place
    shutil.rmtree(place, ignore_errors=True)
    work = os.path.join(place, "src")
    shutil.copytree(source, work, ignore=shutil.ignore_patterns(".git"))
    if not os.path.exists(os.path.join(work, ".release_version")):
        with open(os.path.join(work, ".release_version"), "w") as f:
            f.write("0.0.0")
    options = [f"--prefix={place}", f"--with-cuda={cuda()}", "--enable-cudart-dynamic", "--disable-tests"]
    if libfabric:
        os.makedirs(os.path.join(place, "libfabric", "lib"))
        os.symlink(os.path.join(libfabric[0], "include"), os.path.join(place, "libfabric", "include"))
        for name in ("libfabric.so.1", "libfabric.so"):
            os.symlink(libfabric[1], os.path.join(place, "libfabric", "lib", name))
        options += [f"--with-libfabric={place}/libfabric", "--enable-platform-aws"]
    print("ofi: building aws-ofi-nccl, minutes", file=sys.stderr, flush=True)
    must(["./autogen.sh"], "autogen.sh", cwd=work)
    must(["./configure", *options], "configure", cwd=work)
    must(["make", f"-j{os.cpu_count()}", "install"], "make", cwd=work)
    shutil.rmtree(work)
    return place


class Machine:
    """A build tree of links, whose capo plan has workers with an environment of ours."""

    def __init__(self, tree, place, libfabric):
        self.tree, self.place = tree, place
        self.folder = tempfile.mkdtemp(prefix="capo-ofi-")
        self.libraries = [os.path.join(self.folder, "cudart"), os.path.join(tree, "tests/standin")]
        if libfabric:
            self.libraries.append(os.path.join(place, "libfabric", "lib"))
        os.mkdir(self.libraries[0])
        must(["gcc", "-shared", "-fPIC", "-o", os.path.join(self.libraries[0], "libcudart.so"), os.path.join(HERE, "cudart.c"), "-ldl"], "cudart.c")

    def plan(self, name, env, *question):
        """(the answer, NCCL's log, the folder of capo's logs)"""
        top = os.path.join(self.folder, name)
        os.mkdir(top)
        # TUNING stays in the file that capo plan reads: it takes an answer from there
        env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,TUNING", "NCCL_DEBUG_FILE": os.path.join(top, "nccl.%p"),
               "CAPO_DIR": os.path.join(top, "logs"), "CAPO_QUIET": "1", **env}
        done = run([links.tree(self.tree, top, env, self.libraries), "plan", "--json", *question], timeout=300)
        text = ""
        for path in glob.glob(os.path.join(top, "nccl.*")):
            with open(path, errors="replace") as f:
                text += f.read()
        return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip(), "rows": []}, text, os.path.join(top, "logs")


class Judge:
    def __init__(self):
        self.bad = 0

    def __call__(self, what, true, more=""):
        self.bad += not true
        print(f"{'ok  ' if true else 'FAIL'}  {what}" + (f": {more}" if more else ""), flush=True)


def said(text, pattern):
    return re.findall(pattern, text)


def choices(answer):
    return {(r["coll"], r["bytes"]): (r["default"]["algo"], r["default"]["proto"]) for r in answer["rows"]}


def words(chosen):
    return ", ".join(f"{coll} {size >> 10}K {algo} {proto}" for (coll, size), (algo, proto) in chosen.items())


def network(m, judge):
    """The plugin as NCCL's network: two nodes of two GPUs over whatever provider libfabric has here."""
    env = {"NCCL_NET_PLUGIN": os.path.join(m.place, "lib", "libnccl-net-ofi.so"), "OFI_NCCL_PLATFORM": "Default", "NCCL_TUNER_PLUGIN": "none"}
    question = ("--platform", "dgx1v", "--alloc", "2+2", "--sizes", "1M")
    bare, log, _ = m.plan("net", env, *question)
    judge("real NCCL answers with it", bool(bare["rows"]), bare.get("error", f"NCCL {bare.get('nccl')}"))
    for what, pattern in (("loaded", r"Loaded net plugin (\S+ \(v\d+\))"), ("libfabric", r"Using Libfabric version (\S+)"),
                          ("provider", r"Selected provider is (\S+), fabric"), ("protocol", r"Using transport protocol (\w+)")):
        judge(what, bool(said(log, pattern)), ", ".join(sorted(set(said(log, pattern)))))
    judge("all 4 ranks use it", len(said(log, "Using network Libfabric")) == 4)
    judge("all 4 ranks are connected through it", len(said(log, "Connected all rings")) == 4 and len(said(log, r"via NET/Libfabric")) >= 4,
          f"{len(said(log, 'via NET/Libfabric'))} channels' ends")
    recorded, _, logs = m.plan("recorded", {**env, "LD_PRELOAD": os.path.join(m.tree, "shim/libcapo.so")}, *question)
    judge("the same choice under capo", bool(recorded["rows"]) and choices(recorded) == choices(bare), words(choices(recorded)))
    page = run([os.path.join(m.tree, "cli/capo"), "report", "--json", logs]).stdout
    fabric = json.loads(page)["fabric"] if page.startswith("{") else []
    judge("capo sees its endpoints", {f["provider"] for f in fabric} == set(said(log, r"Selected provider is (\S+), fabric")),
          "; ".join(f"{f['provider']} on {f['nic']}, " + ", ".join(f"{n['count']} {kind}" for kind, n in f["ops"].items()) for f in fabric))


def tuner(m, judge):
    """Its tuner alone, behind capo's as a plugin that was set, and as what the network plugin brings."""
    library = os.path.join(m.place, "lib", "libnccl-tuner-ofi.so")
    capo = os.path.join(m.tree, "shim/libcapo.so")
    question = ("--platform", "hgxh100", "--alloc", "8+8+8+8", "--sizes", SIZES, "--coll", "allreduce,allgather")
    profile = os.path.join(m.folder, "p.json")
    with open(profile, "w") as f:
        json.dump({"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "ll"}]}]}, f)
    own, _, _ = m.plan("own", {"NCCL_TUNER_PLUGIN": "none"}, *question)
    machine = {"OFI_NCCL_FORCE_PRODUCT_NAME": PRODUCT, "HWLOC_XMLFILE": os.path.join(HERE, "p5.xml"), "HWLOC_THISSYSTEM": "0"}
    alone, log, _ = m.plan("alone", {**machine, "NCCL_TUNER_PLUGIN": library}, *question)
    judge("its tuner is taken by NCCL", "nccl_ofi_tuner" in log, alone.get("error", ", ".join(sorted(set(said(log, r"TUNER/Plugin: Using (.*)"))))))
    judge("and has an opinion", bool(said(log, rf"Tuner is chosen for platform: {PRODUCT}")), ", ".join(sorted(set(said(log, r"\w+ base Tuner is chosen.*")))))
    judge("that is not NCCL's", choices(alone) != choices(own), words({k: v for k, v in choices(alone).items() if v != choices(own).get(k)}))
    behind = {**machine, "LD_PRELOAD": capo, "NCCL_TUNER_PLUGIN": capo, "CAPO_TUNER": "on", "CAPO_PROFILE": profile}
    net = os.path.join(m.place, "lib", "libnccl-net-ofi.so")
    for name, env in (("set", {"CAPO_CHAIN_TUNER": library}), ("brought", {"NCCL_NET_PLUGIN": net, "OFI_NCCL_PLATFORM": "Default"})):
        got, log, _ = m.plan(name, {**behind, **env}, *question)
        if name == "brought":  # another network: its own choices differ, so only what the log says
            judge("behind capo's, as the network plugin brings it", bool(got["rows"]) and "Tuner selected platform" in log,
                  got.get("error", ", ".join(sorted(set(said(log, r"Tuner selected platform: \w+"))))))
            continue
        want = {key: ("Ring", "LL") if key[0] == "allreduce" else choice for key, choice in choices(alone).items()}
        judge("behind capo's, as it was set: the profile's rows, and its own choice where there is none", bool(got["rows"]) and choices(got) == want,
              got.get("error", words(choices(got))))


def main():
    if not 3 <= len(sys.argv) <= 5:
        raise SystemExit(__doc__)
    tree, source = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    libfabric = None
    if len(sys.argv) > 3:
        found = sys.argv[4:] or glob.glob(os.path.join(DEPS, "mpi/mpich-*/lib/mpich/libfabric.so.1"))
        if found:
            libfabric = (os.path.realpath(sys.argv[3]), os.path.realpath(found[0]))
    judge = Judge()
    try:
        m = Machine(tree, build(source, libfabric), libfabric)
    except Skip as why:
        print(f"skipped: {why}")
        return 77
    network(m, judge)
    if libfabric:
        tuner(m, judge)
    else:
        print("not tried: its tuner, which needs a libfabric of 1.22 or later: name its sources")
    shutil.rmtree(m.folder, ignore_errors=True)
    return 1 if judge.bad else 0


sys.exit(main())
