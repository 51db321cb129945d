#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of a small made tree is as pip wants it and runs; what is installed falls into the packages as it should.

usage: wheel.py SOURCE BUILD
"""
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile

SOURCE, BUILD = sys.argv[1:]
sys.path.insert(0, os.path.join(SOURCE, "deploy/package"))
sys.dont_write_bytecode = True
from package_tree import PARTS, SLURM, part_of, parts_of, slurm_releases  # noqa: E402
from package_wheel import wheel  # noqa: E402

FILES = {
    "bin/capo": "#!/bin/sh\necho \"ran $*\"\n",
    "lib/libcapo.so": "preload",
    "lib/libnccl-tuner-capo.so": "plugin",
    "lib/capo/capo-plan-worker": "worker",
    "lib/capo/spank_capo.so": "not in a venv",
    "lib/pkgconfig/capo.pc": "not in a venv",
    "include/capo/log.h": "not in a venv",
    "share/capo/profiles/p.json": "{}",
    "share/capo/slurm/plugstack.conf": "not in a venv: for Slurm 25.11. To be included",
    "share/man/man1/capo.1": ".TH CAPO 1",
    "share/doc/capo/README.md": "# capo, with a, comma",
}


def check(holds, *what):
    if not holds:
        sys.exit(" ".join(str(w) for w in what))


def made_tree(folder):
    for path, text in FILES.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(full, 0o755 if "bin/" in path or "worker" in path else 0o644)


def check_record(z, info):
    """Every file is listed with the hash and size that it has."""
    rows = dict(row.split(",", 1) for row in z.read(info + "/RECORD").decode().splitlines())
    check(sorted(rows) == sorted(z.namelist()), "RECORD lists", sorted(rows), "of", sorted(z.namelist()))
    for name in z.namelist():
        if not name.endswith("/RECORD"):
            digest = base64.urlsafe_b64encode(hashlib.sha256(z.read(name)).digest()).rstrip(b"=").decode()
            check(rows[name] == f"sha256={digest},{len(z.read(name))}", "RECORD of", name, "says", rows[name])


def check_wheel(work):
    made_tree(os.path.join(work, "tree"))
    check([row[0] for row in parts_of(os.path.join(work, "tree"))] == [row[0] for row in PARTS], "a part has no file")
    check(slurm_releases(os.path.join(work, "tree")) == ("25.11", "25.12"), slurm_releases(os.path.join(work, "tree")))
    path = wheel(os.path.join(work, "tree"), "1.2.3", "x86_64", (2, 28), work)
    check(os.path.basename(path) == "capo_nccl-1.2.3-py3-none-manylinux_2_28_x86_64.whl", path)
    info = "capo_nccl-1.2.3.dist-info"
    with zipfile.ZipFile(path) as z:
        check_record(z, info)
        inside = {n[len("capo/tree/"):] for n in z.namelist() if n.startswith("capo/tree/")}
        check(inside == {p for p in FILES if "not in" not in FILES[p]}, "the tree holds", inside)
        check("capo_nccl-1.2.3.data/data/share/man/man1/capo.1" in z.namelist(), "no man page for the venv")
        for name, executable in (("capo/tree/bin/capo", True), ("capo/tree/lib/libcapo.so", False)):
            check(bool(z.getinfo(name).external_attr >> 16 & 0o111) == executable, "mode of", name)
        check("capo = capo:main" in z.read(info + "/entry_points.txt").decode(), "no command capo")
        said = z.read(info + "/METADATA").decode()
        check("\nName: capo-nccl\nVersion: 1.2.3\n" in said and said.endswith("\n\n# capo, with a, comma"), said)
        for name in z.namelist():
            z.extract(name, os.path.join(work, "site"))
            os.chmod(os.path.join(work, "site", name), z.getinfo(name).external_attr >> 16)

    def python(*words):
        return subprocess.run([sys.executable, *words], env={"PYTHONPATH": os.path.join(work, "site")}, check=True,
                              text=True, stdout=subprocess.PIPE).stdout

    check(python("-m", "capo", "report", "a b") == "ran report a b\n", "python -m capo")
    for path in python("-c", "import capo; print(capo.preload(), capo.plugin(), sep='\\n')").split():
        check(os.path.exists(path), "no", path)


def check_parts():
    """Each package has files of this build's, and the command's package has no library of a job."""
    with open(os.path.join(BUILD, "meson-info/intro-buildoptions.json"), encoding="utf-8") as f:
        options = {o["name"]: o["value"] for o in json.load(f)}
    with open(os.path.join(BUILD, "meson-info/intro-installed.json"), encoding="utf-8") as f:
        installed = [os.path.relpath(p, options["prefix"]) for p in json.load(f).values()]
    parts = {}
    for path in installed:
        if path.startswith(options["libdir"] + "/"):
            path = "lib" + path[len(options["libdir"]):]
        parts.setdefault(part_of(path), []).append(path)
    check(set(parts) | {SLURM} == {row[0] for row in PARTS}, "packages with files:", sorted(parts))
    check(len(parts.get(SLURM, [0, 0])) == 2, parts.get(SLURM))
    check(parts["libcapo"] == ["lib/libcapo.so"], parts["libcapo"])
    check(parts["libnccl-tuner-capo"] == ["lib/libnccl-tuner-capo.so"], parts["libnccl-tuner-capo"])
    check("bin/capo" in parts["capo"], parts["capo"])
    check(all(p.startswith(("include/", "lib/pkgconfig/")) for p in parts["libcapo-dev"]), parts["libcapo-dev"])


with tempfile.TemporaryDirectory() as folder:
    check_wheel(folder)
check_parts()
