# SPDX-License-Identifier: Apache-2.0
"""The environment of the newest PyTorch that ./dev frameworks has fetched, on the stand-in, as lines for sh. usage: dry_torch.py BUILD

Fetches nothing: exit status 1 and a line where it is not here."""
import glob
import os
import re
import shlex
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "frameworks"))
store = os.environ.get("CAPO_FRAMEWORKS") or os.path.realpath(os.path.join(HERE, "..", "..", ".deps", "frameworks"))
found = sorted((tuple(map(int, m[1].split("."))), os.path.basename(path)) for path in glob.glob(os.path.join(store, "torch-*"))
               if (m := re.search(r"torch-([\d.]+)$", path)))
if not found:
    sys.exit("no PyTorch for a dry run: ./dev frameworks fetches one")

import frameworks
import wheels


class Kept(wheels.Wheels):
    """What is there."""

    def get(self, name, *requirements, options=(), env=None):
        packages = os.path.join(self.folder, name, "site-packages")
        if not os.path.isdir(packages):
            raise wheels.Missing(f"{name} was not fetched")
        return packages


try:
    env = frameworks.Release(found[-1][1], os.path.realpath(sys.argv[1]), Kept(store)).env
except wheels.Missing as why:
    sys.exit(f"no PyTorch for a dry run: {why}")
for name, value in env.items():
    if os.environ.get(name) != value:
        print(f"export {name}={shlex.quote(value)}")
print("unset CAPO_STANDIN")
