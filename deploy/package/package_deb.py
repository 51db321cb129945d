# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: one for each row of PARTS. They need glibc and each other, nothing else."""
import datetime
import glob
import gzip
import os
import shutil
import tempfile

from package_tree import DEBIAN, SLURM, epoch, files_of, part_of, parts_of, run, settle, slurm_releases

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
            " capo records what the NCCL collectives of unmodified jobs cost, explains why\n"
            " a job hangs, and makes NCCL choose faster algorithms where measurements show\n"
            " them.\n")


COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: capo

Files: *
Copyright: 2026 the capo developers
License: Apache-2.0
 On Debian systems the text of this licence is in
 /usr/share/common-licenses/Apache-2.0.
"""
# What lintian says and stays so: package, tag, why.
OVERRIDES = [
    ("capo", "embedded-library", "linked statically on purpose: one file for every distribution; docs/install.md says what a CVE in one of them means"),
    ("libnccl-tuner-capo", "sharedobject-in-library-directory-missing-soname", "a plugin that NCCL opens by this name"),
    ("libcapo", "shared-library-lacks-version", "for LD_PRELOAD, never linked"),
    ("*", "bogus-mail-host", "there is no address yet"),
    ("*", "bogus-mail-host-in-debian-changelog", "there is no address yet"),
    ("capo", "python3-script-but-no-python3-dep", "the webhook, which runs in an image of its own"),
    ("libcapo-dev", "pkg-config-unavailable-for-cross-compilation", "one folder for .deb and .rpm; the file finds itself"),
]


def pack_text(path, text):
    """A .gz with no name and time inside."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as f:
        f.write(text)


def add_debian_files(root, name, version):
    """What a Debian package has besides the installed files."""
    docs = os.path.join(root, "usr/share/doc", name)
    os.makedirs(docs, exist_ok=True)
    with open(os.path.join(docs, "copyright"), "w", encoding="utf-8") as f:
        f.write(COPYRIGHT)
    day = datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S +0000")
    changes = f"{name} ({version}) unstable; urgency=low\n\n  * See /usr/share/doc/capo/CHANGELOG.md.\n\n -- the capo developers <capo@localhost>  {day}\n"
    pack_text(os.path.join(docs, "changelog.gz"), changes.encode())
    for page in glob.glob(os.path.join(root, "usr/share/man/*/*.[0-9]")):
        with open(page, "rb") as f:
            pack_text(page + ".gz", f.read())
        os.remove(page)
    kept = [row for row in OVERRIDES if row[0] in (name, "*")]
    os.makedirs(os.path.join(root, "usr/share/lintian/overrides"), exist_ok=True)
    with open(os.path.join(root, "usr/share/lintian/overrides", name), "w", encoding="utf-8") as f:
        f.writelines(f"# {why}\n{name}: {tag}\n" for _, tag, why in kept)
    if name == "libcapo":
        with open(os.path.join(root, "DEBIAN/triggers"), "w", encoding="utf-8") as f:
            f.write("activate-noawait ldconfig\n")


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
            os.makedirs(os.path.join(root, "DEBIAN"))
            add_debian_files(root, name, version)
            with open(os.path.join(root, "DEBIAN/control"), "w", encoding="utf-8") as f:
                f.write(control(name, summary, version, machine, glibc, more))
            made.append(os.path.join(out, f"{name}_{version}_{DEBIAN[machine]}.deb"))
            settle(root)
            run("dpkg-deb", "-Zxz", "--threads-max=1", "--root-owner-group", "--build", root, made[-1])
    return made
