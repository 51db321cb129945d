#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tarball, a Python wheel and a Debian package of an installed tree, and tries each one.

usage: package.py SOURCE TREE VERSION OUT [--no-deb] [--no-wheel]

TREE is what `meson install --destdir` left: TREE/bin/capo, TREE/lib/... Shared libraries that a bare system may lack
(jansson, expat, hwloc, SQLite, udev) go into lib/capo/private of the tarball and of the wheel, with the licences of
their Debian packages; the Debian package depends on them instead. The wheel's platform tag is the glibc that the newest
symbol needs.
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# Every glibc has these; everything else that capo is linked with comes along.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so|ld-linux|linux-vdso")
WHEEL_NAME = "capo_nccl"
MACHINE = os.uname().machine


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def elf_files(tree):
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF":
                        yield path


def glibc_needed(tree):
    """(2, 36): the newest symbol version of glibc that a file of the tree asks for."""
    found = [(2, 17)]
    for path in elf_files(tree):
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", path))
        found += [(int(a), int(b)) for a, b in versions]
    return max(found)


def bundle(tree):
    """Copies the libraries of bin/capo beside it; returns their names."""
    private = os.path.join(tree, "lib/capo/private")
    licenses = os.path.join(tree, "share/doc/capo/licenses")
    os.makedirs(private)
    os.makedirs(licenses)
    copied = []
    for line in run("ldd", os.path.join(tree, "bin/capo")).splitlines():
        name, _, path = line.strip().partition(" => ")
        if SYSTEM.search(name) or not path.startswith("/"):
            continue
        path = path.split(" ")[0]
        shutil.copy(os.path.realpath(path), os.path.join(private, name))
        run("patchelf", "--set-rpath", "$ORIGIN", os.path.join(private, name))
        owner = re.match(r"([^:, ]+)", run("dpkg", "-S", os.path.realpath(path)))[1]
        shutil.copy(f"/usr/share/doc/{owner}/copyright", os.path.join(licenses, owner))
        copied.append(name)
    for program in ("bin/capo",):
        run("patchelf", "--set-rpath", "$ORIGIN/../lib/capo/private", os.path.join(tree, program))
    return copied


def tarball(tree, version, out):
    name = f"capo-{version}-linux-{MACHINE}"
    path = os.path.join(out, name + ".tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, arcname=name)
    return path


MAIN = '''# SPDX-License-Identifier: Apache-2.0
"""The capo command of this package: python -m capo, and the script capo."""
import os
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree")


def main():
    program = os.path.join(TREE, "bin", "capo")
    os.execv(program, [program] + sys.argv[1:])
'''


def wheel(source, tree, version, out):
    major, minor = glibc_needed(tree)
    tag = f"py3-none-manylinux_{major}_{minor}_{MACHINE}"
    path = os.path.join(out, f"{WHEEL_NAME}-{version}-{tag}.whl")
    info = f"{WHEEL_NAME}-{version}.dist-info"
    with open(os.path.join(source, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    files = {
        "capo/__init__.py": MAIN,
        "capo/__main__.py": "# SPDX-License-Identifier: Apache-2.0\nfrom capo import main\n\nmain()\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: capo-nccl\nVersion: {version}\n"
                            "Summary: records what NCCL collectives of unmodified jobs cost, explains hangs, tunes NCCL\n"
                            "License: Apache-2.0\nRequires-Python: >=3.6\nDescription-Content-Type: text/markdown\n\n" + readme,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: capo\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\ncapo = capo:main\n",
    }
    record = []

    def add(z, name, data, mode):
        entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
        entry.external_attr = (stat.S_IFREG | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        z.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")

    with zipfile.ZipFile(path, "w") as z:
        for folder, _, names in sorted(os.walk(tree)):
            for name in sorted(names):
                full = os.path.join(folder, name)
                with open(full, "rb") as f:
                    mode = 0o755 if os.access(full, os.X_OK) else 0o644
                    add(z, "capo/tree/" + os.path.relpath(full, tree), f.read(), mode)
        for name, text in files.items():
            add(z, name, text.encode(), 0o644)
        record.append(f"{info}/RECORD,,")
        z.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return path


def debian(tree, version, out):
    """One package with everything; its dependencies are what dpkg-shlibdeps finds."""
    with tempfile.TemporaryDirectory() as work:
        root = os.path.join(work, "debian/capo")
        shutil.copytree(tree, os.path.join(root, "usr"), symlinks=True)
        with open(os.path.join(work, "debian/control"), "w", encoding="utf-8") as f:
            f.write("Source: capo\nPackage: capo\nArchitecture: any\n")
        found = run("dpkg-shlibdeps", "-O", "--ignore-missing-info", *(os.path.relpath(p, work) for p in elf_files(root)),
                    cwd=work, stderr=subprocess.DEVNULL)
        depends = re.search(r"shlibs:Depends=(.*)", found)[1]
        os.makedirs(os.path.join(root, "DEBIAN"))
        with open(os.path.join(root, "DEBIAN/control"), "w", encoding="utf-8") as f:
            f.write(f"Package: capo\nVersion: {version}\nArchitecture: {run('dpkg', '--print-architecture').strip()}\n"
                    f"Maintainer: the capo developers <capo@localhost>\nDepends: {depends}\nSection: utils\nPriority: optional\n"
                    "Description: records and tunes the NCCL collectives of unmodified jobs\n"
                    " A preload library, an NCCL tuner plugin, and the command that reads their logs.\n")
        path = os.path.join(out, f"capo_{version}_{run('dpkg', '--print-architecture').strip()}.deb")
        run("dpkg-deb", "--root-owner-group", "--build", root, path)
        return path


def tried(capo, what):
    """An unpacked capo must find its own libraries and data."""
    with tempfile.TemporaryDirectory() as work:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "LD_"))}
        print(f"  {what}: {run(*capo, '--version', env=env).strip()}")
        run(*capo, "run", "--quiet", "--dir", os.path.join(work, "logs"), "--", "true", env=env)
        run(*capo, "topo", "--platform", "dgx1v", "--gpus", "0,1,2", env=env)


def main():
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("source", "tree", "version", "out"):
        ask.add_argument(name)
    ask.add_argument("--no-deb", action="store_true", help="no dpkg here")
    ask.add_argument("--no-wheel", action="store_true")
    said = ask.parse_args()
    os.makedirs(said.out, exist_ok=True)
    made = []
    if not said.no_deb:
        made.append(debian(said.tree, said.version, said.out))
    copied = bundle(said.tree)
    print(f"bundled: {', '.join(copied)}; needs glibc {'.'.join(map(str, glibc_needed(said.tree)))}")
    made.append(tarball(said.tree, said.version, said.out))
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(made[-1]) as tar:
            tar.extractall(work)
        tried([os.path.join(work, os.listdir(work)[0], "bin/capo")], "tarball, unpacked elsewhere")
    if not said.no_wheel:
        made.append(wheel(said.source, said.tree, said.version, said.out))
        with tempfile.TemporaryDirectory() as work:
            run(sys.executable, "-m", "venv", work)
            run(f"{work}/bin/pip", "-q", "install", "--no-index", made[-1])
            tried([f"{work}/bin/capo"], "wheel, script of a fresh venv")
            tried([f"{work}/bin/python", "-m", "capo"], "wheel, python -m capo")
            run(f"{work}/bin/pip", "-q", "uninstall", "-y", "capo-nccl")
            left = run("find", work, "-path", "*capo*", "-not", "-path", "*/__pycache__*").strip()
            if left:
                sys.exit(f"pip uninstall left: {left}")
    for path in made:
        print(f"{os.path.getsize(path) / 2**20:6.1f} MiB  {path}")


if __name__ == "__main__":
    main()
