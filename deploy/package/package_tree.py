# SPDX-License-Identifier: Apache-2.0
"""The installed tree that every package holds: what is in it, which package each file belongs to, what it needs."""
import fnmatch
import os
import re
import shutil
import struct
import subprocess

from package_sbom import sbom

SUMMARY = "records what NCCL collectives of unmodified jobs cost, explains hangs, tunes NCCL"
# The archives of these Debian packages are linked into bin/capo; their licences come along.
LINKED = ["libexpat1-dev", "libhwloc-dev", "libjansson-dev", "libncurses-dev", "libsqlite3-dev", "libxxhash-dev", "libzstd-dev",
          "zlib1g-dev"]
# Packages of .deb and .rpm: name, name in .rpm, summary, the files. The first holds what no other one does. SLURM is made only where
# the headers of a Slurm were.
SLURM = "capo-slurm"
PLUGSTACK = "share/capo/slurm/plugstack.conf"
PARTS = [
    ("capo", "capo", "reports, hangs, fits and plans of NCCL jobs, by one command", []),
    ("libcapo", "libcapo", "capo's preload library, which records NCCL calls", ["lib/libcapo.so"]),
    ("libnccl-tuner-capo", "libnccl-tuner-capo", "capo's tuner and profiler plugin for NCCL", ["lib/libnccl-tuner-capo.so"]),
    ("libcapo-dev", "libcapo-devel", "headers of capo's logs", ["include/*", "lib/pkgconfig/*"]),
    (SLURM, SLURM, "capo's SPANK plugin, which adds srun --capo to Slurm", ["lib/capo/spank_capo.so", PLUGSTACK]),
]
OLDEST_GLIBC = (2, 28)  # core/base/old_glibc.c
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


SBOM = "share/doc/capo/sbom.cdx.json"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
TOO_LARGE = 300 << 10  # of what a page links to


def epoch():
    """The time of every file in the packages."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or os.path.getmtime(os.path.join(SOURCE, "meson.build")))


def run(*command, **more):
    """Runs a command and returns its output; its error output goes to ours."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def files_of(tree):
    """Every file and link of the tree, by its path in it."""
    return sorted(os.path.relpath(os.path.join(folder, name), tree)
                  for folder, _, names in os.walk(tree) for name in names)


def part_of(path):
    for name, _, _, patterns in PARTS:
        if any(fnmatch.fnmatch(path, p) for p in patterns):
            return name
    return PARTS[0][0]


def parts_of(tree):
    """The rows of PARTS that have a file in the tree."""
    there = {part_of(path) for path in files_of(tree)}
    return [row for row in PARTS if row[0] in there]


def slurm_releases(tree):
    """("22.05", "22.06"): the release that the SPANK plugin serves, and the first that it does not."""
    with open(os.path.join(tree, PLUGSTACK), encoding="utf-8") as f:
        major, minor = re.search(r"for Slurm (\d+)\.(\d+)\.", f.read()).groups()
    return f"{major}.{minor}", f"{major}.{int(minor) + 1:02}"


def machine_of(tree):
    return machine_of_file(os.path.join(tree, "bin/capo"))


def machine_of_file(path):
    with open(path, "rb") as f:
        return MACHINES[struct.unpack_from("<H", f.read(20), 18)[0]]


def glibc_needed(tree):
    """(2, 28): the newest version of glibc that a symbol in a file of the tree asks for."""
    found = []
    for path in files_of(tree):
        full = os.path.join(tree, path)
        with open(full, "rb") as f:
            if f.read(4) != b"\x7fELF":
                continue
        said = run("readelf", "-dVW", full)
        found += [(int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", said)]
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", said):
            if not re.match(r"(lib(c|m|dl|pthread)\.so|ld-linux)", library):
                raise SystemExit(f"package: {path} needs {library}, which a bare system lacks")
    if max(found) > OLDEST_GLIBC:
        raise SystemExit(f"package: glibc {max(found)} is needed, expected {OLDEST_GLIBC} at most")
    return max(found)


def copy_pages(docs):
    """README, docs/ and the small files that they link to, at the same places below share/doc/capo: the links work there."""
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "HACKING.md"):
        shutil.copy(os.path.join(SOURCE, name), docs)
    shutil.copytree(os.path.join(SOURCE, "docs"), os.path.join(docs, "docs"), ignore=shutil.ignore_patterns("meson.build", "*.in", "*.py"))
    for folder, _, names in list(os.walk(docs)):
        for page in (os.path.join(folder, n) for n in names if n.endswith(".md")):
            with open(page, encoding="utf-8") as f:
                links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", f.read())
            for link in links:
                to = os.path.normpath(os.path.join(folder, link))
                source = os.path.join(SOURCE, os.path.relpath(to, docs))
                if not to.startswith(docs) or os.path.exists(to) or not os.path.exists(source):
                    continue
                os.makedirs(os.path.dirname(to), exist_ok=True)
                if os.path.isdir(source):
                    shutil.copytree(source, to)
                elif os.path.getsize(source) <= TOO_LARGE:
                    shutil.copy(source, to)


def settle(tree):
    """Modes and times that do not depend on who installed it, and when."""
    for folder, folders, names in os.walk(tree):
        for path in [folder] + [os.path.join(folder, n) for n in names]:
            if not os.path.islink(path):
                runs = os.access(path, os.X_OK) and not path.endswith(".so")
                os.chmod(path, 0o755 if os.path.isdir(path) or runs else 0o644)
            os.utime(path, (epoch(), epoch()), follow_symlinks=False)


def install(build, out, version):
    """What `meson install` makes, with pages, licences and the bill of materials; returns the tree (its usr)."""
    shutil.rmtree(out, ignore_errors=True)
    run("meson", "install", "-C", build, "--no-rebuild", "--strip", "--destdir", os.path.abspath(out))
    tree = os.path.join(out, "usr")
    docs = os.path.join(tree, "share/doc/capo")
    os.makedirs(os.path.join(docs, "licenses"))
    copy_pages(docs)
    for name in ("kubernetes", "modules"):
        shutil.copytree(os.path.join(SOURCE, "deploy", name), os.path.join(tree, "share/capo", name), ignore=shutil.ignore_patterns("__pycache__"))
    for package in LINKED:
        shutil.copy(f"/usr/share/doc/{package}/copyright", os.path.join(docs, "licenses", package))
    machine = machine_of(tree)
    root = os.path.join(SOURCE, ".deps/aarch64/root") if machine != os.uname().machine else None
    with open(os.path.join(tree, SBOM), "w", encoding="utf-8") as f:
        f.write(sbom(version, machine, LINKED, epoch(), root))
    settle(tree)
    return tree
