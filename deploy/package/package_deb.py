# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: one for each row of PARTS. They need glibc and each other, nothing else."""
import os
import shutil
import tempfile

from package_tree import DEBIAN, SLURM, files_of, part_of, parts_of, run, settle, slurm_releases

DEPENDS = {
    "capo": "libcapo (= {v}), libnccl-tuner-capo (= {v}), ",
    "libcapo-dev": "libcapo (= {v}), libnccl-tuner-capo (= {v}), ",
    SLURM: "capo (= {v}), ",
}


def control(name, summary, version, machine, glibc, more):
    depends = DEPENDS.get(name, "").format(v=version) + f"libc6 (>= {glibc[0]}.{glibc[1]})"
    section = "libdevel" if name.endswith("-dev") else "libs" if name.startswith("lib") else "utils"
    return (f"Package: {name}\nVersion: {version}\nArchitecture: {DEBIAN[machine]}\n"
            f"Maintainer: the capo developers <capo@localhost>\nDepends: {depends}\n"
            f"{more}Section: {section}\nPriority: optional\nDescription: {summary}\n"
            " capo records what the NCCL collectives of unmodified jobs cost, explains why a job\n"
            " hangs, and makes NCCL choose faster algorithms where measurements show them.\n")


def debs(tree, version, machine, glibc, out):
    """Writes the packages; returns their paths."""
    made = []
    for name, _, summary, _ in parts_of(tree):
        more = ""
        if name == SLURM: # Slurm need not be a package, but where it is one it has to be of this release
            more = "Breaks: slurm-client (<< {}), slurm-client (>= {}~)\n".format(*slurm_releases(tree))
        with tempfile.TemporaryDirectory() as root:
            os.chmod(root, 0o755)
            for path in [p for p in files_of(tree) if part_of(p) == name]:
                to = os.path.join(root, "usr", path)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy2(os.path.join(tree, path), to)
            docs = os.path.join(root, "usr/share/doc", name)
            os.makedirs(docs, exist_ok=True)
            shutil.copy(os.path.join(tree, "share/doc/capo/LICENSE"), os.path.join(docs, "copyright"))
            os.makedirs(os.path.join(root, "DEBIAN"))
            with open(os.path.join(root, "DEBIAN/control"), "w", encoding="utf-8") as f:
                f.write(control(name, summary, version, machine, glibc, more))
            made.append(os.path.join(out, f"{name}_{version}_{DEBIAN[machine]}.deb"))
            settle(root)
            run("dpkg-deb", "-Zxz", "--threads-max=1", "--root-owner-group", "--build", root, made[-1])
    return made
