#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tarball, a Python wheel, Debian and RPM packages of a portable build (meson -Dportable=true).

usage: package.py BUILD OUT
"""
import json
import os
import sys
import tarfile

from package_deb import debs
from package_rpm import rpms
from package_tree import SLURM, glibc_needed, install, machine_of, part_of, run
from package_wheel import wheel


def tarball(tree, version, machine, out):
    """Runs where it is unpacked."""
    name = f"capo-{version}-linux-{machine}"
    path = os.path.join(out, name + ".tar.gz")

    def plain(entry):
        if part_of(os.path.relpath(entry.name, name)) == SLURM:
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, arcname=name, filter=plain)
    return path


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, out = sys.argv[1:]
    version = json.loads(run("meson", "introspect", "--projectinfo", build))["version"]
    tree = install(build, os.path.join(build, "stage"))
    machine, glibc = machine_of(tree), glibc_needed(tree)
    os.makedirs(out, exist_ok=True)
    made = [tarball(tree, version, machine, out), wheel(tree, version, machine, glibc, out)]
    made += debs(tree, version, machine, glibc, out) + rpms(tree, version, machine, out)
    print(f"capo {version} for {machine}, glibc {glibc[0]}.{glibc[1]} and later")
    for path in made:
        print(f"{os.path.getsize(path) / 2**20:6.2f} MiB  {path}")


if __name__ == "__main__":
    main()
