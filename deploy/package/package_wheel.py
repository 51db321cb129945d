# SPDX-License-Identifier: Apache-2.0
"""The wheel capo-nccl: the Python package capo with the installed tree inside."""
import base64
import hashlib
import os
import zipfile

from package_tree import SLURM, SUMMARY, files_of, part_of

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")
NOT_IN_A_VENV = ("include/", "lib/pkgconfig/", "share/bash-completion/", "share/zsh/", "share/fish/", "share/doc/capo/docs/", "share/capo/kubernetes/",
                 "lib/systemd/")


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def metadata(version, tag):
    """The text files of the wheel's own folder, but for the list of all files."""
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: capo-nccl\nVersion: {version}\nSummary: {SUMMARY}\n"
                    "License: Apache-2.0\nRequires-Python: >=3.6\nDescription-Content-Type: text/markdown\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: capo\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": "[console_scripts]\ncapo = capo:main\n",
    }


def contents(tree, version, tag):
    """(name, bytes, executable?) of every file; the man page also where `man` looks in a venv."""
    info = f"capo_nccl-{version}.dist-info"
    for name in files_of(PACKAGE):
        if name.endswith(".py"):
            with open(os.path.join(PACKAGE, name), "rb") as f:
                yield name, f.read(), False
    for path in files_of(tree):
        if path.startswith(NOT_IN_A_VENV) or part_of(path) == SLURM:
            continue
        full = os.path.join(tree, path)
        with open(full, "rb") as f:
            data = f.read()
        yield "capo/tree/" + path, data, os.access(full, os.X_OK)
        if path.startswith("share/man/"):
            yield f"capo_nccl-{version}.data/data/{path}", data, False
    with open(os.path.join(tree, "share/doc/capo/README.md"), encoding="utf-8") as f:
        readme = f.read()
    for name, text in metadata(version, tag).items():
        yield f"{info}/{name}", (text + ("\n" + readme if name == "METADATA" else "")).encode(), False


def wheel(tree, version, machine, glibc, out):
    """Writes the wheel; returns its path."""
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine}"
    path = os.path.join(out, f"capo_nccl-{version}-{tag}.whl")
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        def add(name, data, executable):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)

        for name, data, executable in contents(tree, version, tag):
            add(name, data, executable)
            record.append(record_line(name, data))
        name = f"capo_nccl-{version}.dist-info/RECORD"
        add(name, ("\n".join(record + [name + ",,"]) + "\n").encode(), False)
    return path
