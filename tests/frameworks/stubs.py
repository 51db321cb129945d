# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the CUDA libraries that an unmodified wheel wants, made from the wheel itself.

The names and symbol versions come from the undefined symbols of the wheel's own libraries, so a new release works as soon
as it asks for nothing but more of the same. The runtime (libcudart) is tests/standin/cudart, a real one but for kernels; of
libcuda and libnccl the stand-in's are taken; of every other library all functions do nothing and say success. Whatever else
is asked for under CUDA's or NCCL's names and nobody has, is put into the runtime, says "not supported", and is listed.
"""
import collections
import os
import re
import subprocess
import tempfile

OURS = re.compile(r"lib(cu\w*|nv\w*|nccl)\.so")  # CUDA's libraries, by soname
NAMES = re.compile(r"__cuda|cuda|cu[A-Z]|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nv(rtc|shmem|Jit|tx)")
REFUSAL = {"nccl": 5, "cuda": 801, "__cuda": 801, "cu": 801, "nv": 1}  # ncclInvalidUsage, cudaErrorNotSupported

# What a caller cannot do without: a function whose name says that it creates something writes an address to its first
# argument, and these answer. Release numbers are filled in from the wheel's own requirements.
ANSWERS = {
    "cublasLtGetVersion": "return {cuda};",
    "cublasGetVersion_v2": "*(int *)b = {cuda}; return 0;",
    "cudnnGetVersion": "return {cudnn};",
    "cudnnGetCudartVersion": "return {cuda};",
    "cuptiGetVersion": "*(int *)a = 100; return 0;",
    "nvrtcVersion": "*(int *)a = {cuda} / 1000; *(int *)b = {cuda} % 1000 / 10; return 0;",
    "cufftGetVersion": "*(int *)a = {cuda}; return 0;",
}


def symbols(path, defined):
    """{(name, version or "")} of a library's dynamic symbols that it defines, or else that it wants."""
    out = subprocess.run(["nm", "-D", "--with-symbol-versions", "--defined-only" if defined else "--undefined-only", path],
                         capture_output=True, text=True, check=True).stdout
    found = set()
    for line in out.splitlines():
        name, _, version = line.split()[-1].partition("@")
        found.add((name, version.lstrip("@")))
    return found


def needs(path):
    """Sonames a library is linked to, and {version: soname} of the symbol versions it wants of them."""
    out = subprocess.run(["readelf", "-dVW", path], capture_output=True, text=True, check=True).stdout
    versions, soname = {}, None
    for line in out.splitlines():
        if m := re.search(r"Version: \d+  File: (\S+)", line):
            soname = m[1]
        elif (m := re.search(r"Name: (\S+)  Flags: .*Version: \d+", line)) and soname:
            versions[m[1]] = soname
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", out), versions


TRACED = ("#include <stdio.h>\n#include <stdlib.h>\n#define STUB(name, body) long name(void *a, void *b) { "
          'if (getenv("STUB_TRACE")) fprintf(stderr, "stub: " #name "\\n"); body }\n')


def source(names, release):
    text = [TRACED]
    for name in sorted(names):
        if name in ANSWERS:
            body = ANSWERS[name].format(**release)
        elif "Create" in name or name.startswith("cudnnBackendCreate"):
            body = "if (a) *(void **)a = calloc(1, 4096); return 0;"
        else:
            body = "return 0;"
        text.append(f"STUB({name}, {body})")
    return "\n".join(text) + "\n"


def compile_library(folder, soname, sources, flags=()):
    part = os.path.join(folder, f"{soname}.{os.getpid()}")  # another run may be loading the old one
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-w", "-fPIC", "-shared", "-fno-builtin", f"-Wl,-soname,{soname}",
                    "-o", part, *sources, *flags], check=True)
    os.replace(part, os.path.join(folder, soname))


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


def make(libraries, folder, standin, runtime, headers, release):
    """Writes the stubs that @libraries (paths) need into @folder; returns the names that nobody has."""
    os.makedirs(folder, exist_ok=True)
    have = {os.path.basename(path) for path in libraries}
    wanted = collections.defaultdict(set)  # soname -> names
    loose, sonames, scripted = set(), set(), {}
    for path in libraries:
        linked, versions = needs(path)
        sonames |= {s for s in linked if OURS.match(s) and s not in have}
        for name, version in symbols(path, defined=False):
            if version in versions and OURS.match(versions[version]):
                wanted[versions[version]].add(name)
                scripted[versions[version]] = version
            elif not version and NAMES.match(name):
                loose.add(name)
    for path in libraries:
        loose -= {name for name, _ in symbols(path, defined=True)}
    for library in ("libcuda.so.1", "libnccl.so.2"):
        loose -= {name for name, _ in symbols(os.path.join(standin, library), defined=True)}
        sonames.discard(library)
    unversioned = sorted(s for s in sonames if s not in scripted)
    for name in sorted(loose):  # by the library's own name: cuFile... is libcufile's
        for soname in unversioned:
            if name.lower().startswith(re.split(r"[._]", soname[3:])[0].lower()):
                wanted[soname].add(name)
                loose.discard(name)
                break
    for soname in sorted(sonames):
        if soname.startswith("libcudart."):
            continue
        base = os.path.join(folder, soname.split(".so")[0])
        flags = []
        if soname in scripted:
            flags = ["-Wl,--version-script=" + write(base + ".map", "%s { global: *; };\n" % scripted[soname])]
        compile_library(folder, soname, [write(base + ".c", source(wanted[soname], release))], flags)
    soname = next((s for s in sonames if s.startswith("libcudart.")), None)
    if not soname:
        return []
    link = ["-I" + runtime, "-I" + headers, "-L" + standin, "-l:libcuda.so.1",
            "-Wl,--version-script=" + write(os.path.join(folder, "cudart.map"), "%s { global: cuda*; __cuda*; };\n" % soname)]
    ours = [os.path.join(runtime, f) for f in sorted(os.listdir(runtime)) if f.endswith(".c")]
    with tempfile.TemporaryDirectory() as first:  # what it has by itself
        compile_library(first, soname, ours, link)
        lacking = (wanted[soname] - {name for name, _ in symbols(os.path.join(first, soname), defined=True)}) | loose
    refusals = TRACED + "".join(
        f"STUB({name}, return {next(code for prefix, code in REFUSAL.items() if name.startswith(prefix))};)\n" for name in sorted(lacking))
    compile_library(folder, soname, ours + [write(os.path.join(folder, "refusals.c"), refusals)], link)
    return sorted(lacking)
