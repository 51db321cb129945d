#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MPI program over libfabric, unmodified, under `capo run`: an all-reduce loop on two ranks.

usage: mpi.py CAPO MPI [PROVIDER...]
  MPI   system: Open MPI as the distribution packages it; else the folder of an MPICH or Open MPI that wheels.sh brought,
        which has a libfabric of its own where only its libmpi looks

What the report says is held against two others. The program knows its payload: with two ranks every algorithm that both
MPIs choose at this size sends the whole vector once. And libfabric's own FI_HOOK=trace (1.18 and later), which sits
below capo, writes a line for each call that succeeds: operations, bytes and completions must be the same to the last.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

from checks import check, count, done, report, skip, two_namespaces

capo = os.path.abspath(sys.argv[1])
mpi = sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
N, SIZE = 100, 65536

# trace_<name>() of the hook -> capo's kind; docs/fabric.md, core/log/fabric_frame.def
KINDS = {"send": "send", "sendv": "send", "sendmsg": "send", "senddata": "send", "inject": "inject", "injectdata": "inject",
         "tsend": "tsend", "tsendv": "tsend", "tsendmsg": "tsend", "tsenddata": "tsend", "tinject": "inject", "tinjectdata": "inject",
         "recv": "recv", "recvv": "recv", "recvmsg": "recv", "trecv": "trecv", "trecvv": "trecv", "trecvmsg": "trecv"}
FI_PEEK = 1 << 19
LINE = re.compile(rb"^libfabric:\d+:\d+::([^:]*):\w+:trace_(\w+)\(\):\d+<trace> (.*)$")

# Each rank writes what libfabric logs to a file of its own, and rank 1 may live in another network namespace.
RANK = """#!/bin/sh
exec 2>"$TRACES/$$"
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
[ -z "$PAIR" ] || export FI_TCP_IFACE="$PAIR$(echo "$rank" | tr 01 ab)"
[ "$rank" != 1 ] || exec $ENTER "$@"
exec "$@"
"""

# The same program as a Python extension: libmpi, and libfabric with it, are loaded late and in a scope of their own.
PYTHON = """
import ctypes, sys
words = [w.encode() for w in sys.argv[1:]]
sys.exit(ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL).main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)))
"""


def openmpi(provider, pair):
    # its launcher, in the first namespace, is reached by rank 1 over the veth pair
    reach = {"PMIX_MCA_ptl_tcp_if_include": pair.interface[0]} if pair else {}
    return ["--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
            "--mca", "mtl_ofi_provider_include", provider], reach


def mpich(provider, pair):
    # NOLOCAL: two ranks of one host would use MPICH's own shared memory
    return ["-np", "2"], {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": provider}


if mpi == "system":
    name, compiler, launcher, how = "Open MPI of the system", "mpicc.openmpi", "mpirun.openmpi", openmpi
else:
    name = os.path.basename(mpi)
    compiler, launcher = (os.path.join(os.path.abspath(mpi), "bin", p) for p in ("mpicc", "mpirun"))
    how = mpich if name.startswith("mpich") else openmpi
# Open MPI asks for providers that reach other hosts, which shm and sm2 do not
providers = sys.argv[3:] or (["tcp", "shm"] if how is mpich else ["tcp"])
if not shutil.which(launcher) or not shutil.which(compiler):
    skip(name, "not here" + (": no package openmpi-bin or libopenmpi-dev" if mpi == "system" else ": ./dev test could not fetch it"))
    done()


def traced(path, provider):
    """What the hook saw the program do: {kind: [operations, bytes]}, completions; None where it is not installed."""
    ops, completions, seen = collections.defaultdict(lambda: [0, 0]), 0, False
    with open(path, "rb") as lines:
        for m in filter(None, map(LINE.match, lines)):
            layer, call, text = (g.decode(errors="replace") for g in m.groups())
            if layer != provider.split(";")[-1]:
                continue  # the hook is below layered providers, too
            seen = True
            if call == "trecvmsg" and int(re.search(r"flags 0x([0-9a-f]+)", text).group(1), 16) & FI_PEEK:
                ops["peek"][0] += 1
            elif call in KINDS:
                ops[KINDS[call]][0] += 1
                ops[KINDS[call]][1] += int(re.search(r"len (\d+)", text).group(1))
            completions += call in ("cq_read", "cq_readfrom", "cq_sread", "cq_sreadfrom")
    return ({k: tuple(v) for k, v in ops.items()}, completions) if seen else None


def launch(tmp, program, provider, pair, under_capo):
    args, env = how(provider, pair)
    env = {**os.environ, "CAPO_QUIET": "1", "FI_HOOK": "trace", "FI_LOG_LEVEL": "trace", "TRACES": tmp + "/traces",
           "ENTER": " ".join(pair.enter[1]) if pair else "", "PAIR": pair.interface[0][:-1] if pair else "", **env}
    command = [shutil.which(launcher), *args, tmp + "/rank", *program, str(N), str(SIZE)]
    if under_capo:
        command = [capo, "run", "--dir", tmp + "/logs", "--", *command]
    shutil.rmtree(tmp + "/traces", ignore_errors=True)
    os.mkdir(tmp + "/traces")
    r = subprocess.run(["timeout", "-k", "5", "150", *(pair.enter[0] if pair else ()), *command], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = r.stdout.decode(errors="replace")
    return r.returncode == 0 and ": 0 wrong" in text, "status %d: %s" % (r.returncode, text[-600:])


def case(tmp, program, provider, pair=None):
    what = "%s over %s" % (name, provider) + (" in two network namespaces" if pair else "") + (" from Python" if len(program) > 1 else "")
    good, text = launch(tmp, program, provider, pair, True)
    if not good:
        bare, bare_text = launch(tmp, program, provider, pair, False)
        if not bare:
            return skip(what, "does not run without capo either: " + " ".join(bare_text.split())[:150])
    check(what + ": results", good, text)
    if not good:
        return
    page = report(capo, tmp + "/logs")
    shutil.rmtree(tmp + "/logs", ignore_errors=True)
    # (Open MPI 5 opens a second domain, for one-sided operations, that this program leaves idle)
    fabric = [f for f in page["fabric"] if f["ops"]]
    check(what + ": ranks", sorted(f["rank"] for f in fabric) == [0, 1], page)
    versions = {f["libfabric"] for f in fabric}
    expected = os.environ.get("EXPECT_LIBFABRIC")
    check(what + ": the libfabric it was to be", not expected or versions == {expected}, (versions, expected))
    exact = 0
    for f in fabric:
        # besides the payload: barriers, addresses, the end
        check(what + ": bytes are the program's", all(N * SIZE <= f[k] <= 1.01 * N * SIZE + 65536 for k in ("sent_bytes", "recv_bytes")),
              (f["sent_bytes"], f["recv_bytes"], N * SIZE))
        check(what + ": no errors", f["errors"] == f["overruns"] == 0, f["error_list"])
        trace = traced("%s/traces/%d" % (tmp, f["pid"]), f["provider"])
        if trace and trace[0]:
            exact += 1
            ours = {k: count(f, k) for k in f["ops"]}
            check(what + ": every operation is libfabric's trace's", ours == trace[0], (ours, trace[0]))
        if trace:
            check(what + ": every completion is", f["completions"] == trace[1], (f["completions"], trace[1]))
        if pair:
            check(what + ": names its own interface", f["domain"] in pair.interface or f["provider"].startswith("udp"), f["domain"])
    # the hook came with 1.18, and follows no scalable endpoints, which MPICH makes of sockets
    traces = all(tuple(map(int, v.split("."))) >= (1, 18) for v in versions) and not (how is mpich and provider == "sockets")
    check(what + ": compared with a trace", exact == (2 if traces else 0), exact)
    print("%s: libfabric %s; %s" % (what, " ".join(map(str, versions)),
                                    "each operation as traced" if traces else "no trace of the operations, only bytes compared"))
    for f in fabric:
        print("  rank %d: %s %s" % (f["rank"], f["provider"], ", ".join("%s %d x, %d bytes" % (k, *count(f, k)) for k in f["ops"])))


with tempfile.TemporaryDirectory() as tmp:
    for how_built in (["-o", tmp + "/allreduce"], ["-shared", "-fPIC", "-o", tmp + "/allreduce.so"]):
        built = subprocess.run([compiler, "-O1", here + "/allreduce.c", *how_built], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not built.returncode:
            continue
        skip(name, "does not compile: " + built.stdout.decode(errors="replace")[:200])
        done()
    with open(tmp + "/rank", "w") as f:
        f.write(RANK)
    os.chmod(tmp + "/rank", 0o755)
    program = [tmp + "/allreduce"]
    sm2_file = "/dev/shm/fi_sm2_mmaps"  # sm2 never removes it
    sm2_was_here = os.path.exists(sm2_file)
    for provider in providers:
        case(tmp, program, provider)
    if os.path.exists(sm2_file) and not sm2_was_here:
        os.unlink(sm2_file)
    case(tmp, [sys.executable, "-c", PYTHON, tmp + "/allreduce.so"], "tcp")
    with two_namespaces(name) as pair:
        if pair:
            case(tmp, program, "tcp", pair)
done()
