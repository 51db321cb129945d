#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packages of one tree have equal bytes, whoever installed it and when: bytes.py SOURCE"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

source = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(source, "deploy/package"))
sys.dont_write_bytecode = True
os.environ["SOURCE_DATE_EPOCH"] = "1700000000"
from package import archive, checksums  # noqa: E402
from package_deb import debs  # noqa: E402
from package_sbom import sbom  # noqa: E402
from package_tree import LINKED, copy_pages, settle  # noqa: E402


def tree(folder, umask, when):
    """Of one file of each kind."""
    os.umask(umask)
    for path, text, runs in (("bin/capo", "program", True), ("lib/libcapo.so", "library", True), ("share/man/man1/capo.1", ".TH capo 1\n", False)):
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)
        os.chmod(full, 0o777 & ~umask if runs else 0o666 & ~umask)
        os.utime(full, (when, when))
    copy_pages(os.path.join(folder, "share/doc/capo"))
    settle(folder)
    return folder


def made(work, name, umask, when):
    out = os.path.join(work, name)
    os.makedirs(out)
    os.makedirs(os.path.join(work, name + ".tree/share/doc/capo"))
    root = tree(os.path.join(work, name + ".tree"), umask, when)
    archive(os.path.join(out, "capo.tar.gz"), root, "capo")
    if shutil.which("dpkg-deb"):
        debs(root, "0.2.0", "x86_64", (2, 28), out)
    checksums(out)
    with open(os.path.join(out, "SHA256SUMS")) as f:
        return f.read(), root


with tempfile.TemporaryDirectory() as work:
    (one, root), (two, _) = made(work, "one", 0o022, 1000000000), made(work, "two", 0o077, 1600000000)
    assert one == two and one.count("\n") >= 1, (one, two)
    assert not subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=os.path.join(work, "one"), capture_output=True).returncode
    # the links of README work where it is installed
    import re
    readme = os.path.join(root, "share/doc/capo/README.md")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", open(readme, encoding="utf-8").read())
    missing = [link for link in links if not os.path.exists(os.path.join(os.path.dirname(readme), link))]
    assert len(links) > 10 and not missing, missing
    bill = json.loads(sbom("0.2.0", "x86_64", LINKED, 1700000000))
    assert bill["bomFormat"] == "CycloneDX" and len(bill["components"]) == len(LINKED) and bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z", bill
    assert sbom("0.2.0", "x86_64", LINKED, 1700000000) == json.dumps(bill, indent=1) + "\n"
print("ok")
