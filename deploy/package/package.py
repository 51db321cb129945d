#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tarball, a Python wheel, Debian and RPM packages of a portable build (meson -Dportable=true).

usage: package.py BUILD OUT [VERSION]      VERSION: names it so, to try an upgrade
"""
import gzip
import hashlib
import json
import os
import shutil
import sys
import tarfile

from package_deb import debs
from package_rpm import rpms
from package_symbols import symbols
from package_tree import SBOM, SLURM, epoch, glibc_needed, install, machine_of, part_of, run
from package_wheel import wheel


def tarball(tree, version, machine, out):
    """Runs where it is unpacked."""
    name = f"capo-{version}-linux-{machine}"
    path = os.path.join(out, name + ".tar.gz")

    def chosen(entry):
        return None if part_of(os.path.relpath(entry.name, name)) == SLURM else entry

    archive(path, tree, name, chosen)
    return path


def archive(path, tree, name, chosen=lambda entry: entry):
    """A .tar.gz whose bytes depend on the tree only."""
    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = epoch()
        return chosen(entry)

    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch()) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(tree, arcname=name, filter=plain)


def checksums(out):
    names = sorted(n for n in os.listdir(out) if n != "SHA256SUMS")
    with open(os.path.join(out, "SHA256SUMS"), "w", encoding="utf-8") as f:
        for name in names:
            with open(os.path.join(out, name), "rb") as data:
                f.write(f"{hashlib.sha256(data.read()).hexdigest()}  {name}\n")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    build, out = sys.argv[1:3]
    version = sys.argv[3] if sys.argv[3:] else json.loads(run("meson", "introspect", "--projectinfo", build))["version"]
    tree = install(build, os.path.join(build, "stage"), version)
    machine, glibc = machine_of(tree), glibc_needed(tree)
    os.makedirs(out, exist_ok=True)
    made = [tarball(tree, version, machine, out), wheel(tree, version, machine, glibc, out)]
    made += debs(tree, version, machine, glibc, out) + rpms(tree, version, machine, out)
    debug = os.path.join(build, "stage-debug")
    symbols(build, debug)
    made.append(os.path.join(out, f"capo-{version}-linux-{machine}-debug.tar.gz"))
    archive(made[-1], debug, "debug")
    shutil.copy(os.path.join(tree, SBOM), os.path.join(out, f"capo-{version}-linux-{machine}.cdx.json"))
    checksums(out)
    print(f"capo {version} for {machine}, glibc {glibc[0]}.{glibc[1]} and later")
    for path in made:
        print(f"{os.path.getsize(path) / 2**20:6.2f} MiB  {path}")


if __name__ == "__main__":
    main()
