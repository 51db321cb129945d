# SPDX-License-Identifier: Apache-2.0
"""Debug symbols apart from the packages: .build-id/ab/cdef.debug, as gdb looks for them in /usr/lib/debug."""
import os
import re
import shutil

from package_tree import machine_of_file, run

BUILT = ["cli/capo", "shim/libcapo.so", "tuner/libnccl-tuner-capo.so"]


def symbols(build, out):
    shutil.rmtree(out, ignore_errors=True)
    for path in (os.path.join(build, p) for p in BUILT):
        tools = "aarch64-linux-gnu-" if machine_of_file(path) == "aarch64" != os.uname().machine else ""
        found = re.search(r"Build ID: ([0-9a-f]{2})([0-9a-f]+)", run("readelf", "-nW", path))
        if not found:
            raise SystemExit(f"package: {path} has no build id")
        to = os.path.join(out, ".build-id", found[1], found[2] + ".debug")
        os.makedirs(os.path.dirname(to), exist_ok=True)
        run(tools + "objcopy", "--only-keep-debug", path, to)
