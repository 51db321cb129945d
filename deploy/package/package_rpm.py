# SPDX-License-Identifier: Apache-2.0
"""The RPM packages: one for each row of PARTS, by the distribution's rpmbuild. Their libraries lie in /usr/lib64, where
the loader of such systems looks, with links from /usr/lib, where the command looks."""
import glob
import os
import shutil
import tempfile

from package_tree import SLURM, files_of, part_of, parts_of, run, slurm_releases

SPEC = """%define _build_id_links none
%define debug_package %{{nil}}
%define __os_install_post %{{nil}}
%define _binary_payload w9.gzdio
%define _buildhost reproducible
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%global __provides_exclude_from ^/usr/lib/capo/
Name: capo
Version: {version}
Release: 1
Summary: {summary}
License: Apache-2.0
%description
capo records what the NCCL collectives of unmodified jobs cost, explains why
a job hangs, and makes NCCL choose faster algorithms where measurements show
them.
%install
cp -a {root}/. %{{buildroot}}
"""
PART = """%package -n {name}
Summary: {summary}
{requires}%description -n {name}
{summary}
"""


def laid_out(tree, root):
    """Copies the tree to root/usr; returns {part: its files}."""
    files = {name: [] for name, _, _, _ in parts_of(tree)}
    for path in files_of(tree):
        to = path
        if path.startswith("lib/lib") and path.endswith(".so"):
            to = path.replace("lib/", "lib64/", 1)
            os.makedirs(os.path.join(root, "usr/lib"), exist_ok=True)
            os.symlink("../" + to, os.path.join(root, "usr", path))
            files[part_of(path)].append("/usr/" + path)
        os.makedirs(os.path.dirname(os.path.join(root, "usr", to)), exist_ok=True)
        shutil.copy2(os.path.join(tree, path), os.path.join(root, "usr", to))
        files[part_of(path)].append("/usr/" + to)
    return files


def own_folders(files):
    """The folders that go when the files go: capo's and those below."""
    found = set()
    for path in files:
        folder = os.path.dirname(path)
        while "/capo" in folder:
            found.add("%dir " + folder)
            folder = os.path.dirname(folder)
    return sorted(found)


def rpms(tree, version, machine, out):
    """Writes the packages; returns their paths."""
    with tempfile.TemporaryDirectory() as work:
        root = os.path.join(work, "root")
        files = laid_out(tree, root)
        exactly = {n: f"{n} = {version}-1" for n in ("libcapo", "libnccl-tuner-capo")}
        spec = SPEC.format(version=version, summary=parts_of(tree)[0][2], root=root)
        both = "".join(f"Requires: {e}\n" for e in exactly.values())
        spec = spec.replace("%description\n", both + "%description\n", 1)
        for name, rpm_name, summary, _ in parts_of(tree):
            requires = both if name.endswith("-dev") else ""
            if name == SLURM: # Slurm need not be a package, but where it is one it has to be of this release
                requires = f"Requires: capo = {version}-1\n" + "Conflicts: slurm < {}, slurm >= {}\n".format(*slurm_releases(tree))
            if name != "capo":
                spec += PART.format(name=rpm_name, summary=summary, requires=requires)
            spec += f"%files -n {rpm_name}\n" + "\n".join(own_folders(files[name]) + files[name]) + "\n"
        spec_file = os.path.join(work, "capo.spec")
        with open(spec_file, "w", encoding="utf-8") as f:
            f.write(spec)
        run("rpmbuild", "-bb", "--quiet", "--target", machine, "--define", f"_topdir {work}/top",
            "--define", f"_rpmdir {work}/made", spec_file)
        made = sorted(glob.glob(f"{work}/made/**/*.rpm", recursive=True))
        return [shutil.copy(path, out) for path in made]
