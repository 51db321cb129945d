#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo plan with an NCCL for AArch64 under qemu-user, against that with this machine's NCCL where it has the same release.

usage: plan.py CAPO CAPO_AARCH64 LIBNCCL_AARCH64
"""
import json
import subprocess
import sys

capo, other, nccl = sys.argv[1:]
bad = 0


def ask(*words):
    said = subprocess.run([*words, "--json", "--coll", "all", "--sizes", "1K..1G*8"], capture_output=True, text=True)
    return json.loads(said.stdout) if said.returncode == 0 else said.stderr


def choices(page):
    rows = [{k: v for k, v in row["default"].items() if k not in ("us", "busbw_gbs")} for row in page["rows"]]
    return rows, [row["default"]["us"] for row in page["rows"]]


for words in ["--platform dgx1v --gpus 0,1,2", "--platform hgxh100 --alloc 8+8", "--platform hgxh100 --alloc 8x8", "--platform gb200-nvl72 --alloc 4x4"]:
    page = ask(other, "plan", "--libnccl", nccl, "--timeout", "1000", *words.split())
    if isinstance(page, str):
        print(f"plan {words}: {page}")
        bad = 1
        continue
    same = ask(capo, "plan", *words.split())
    if isinstance(same, str) or same["nccl"] != page["nccl"]:
        print(f"plan {words}: {len(page['rows'])} rows; no such release for x86-64 here")
        continue
    (mine, us), (theirs, theirs_us) = choices(same), choices(page)
    near = all(abs(a - b) <= 1e-6 * a for a, b in zip(us, theirs_us))
    print(f"plan {words}: {len(mine)} rows, {'alike' if mine == theirs and near else 'NOT ALIKE'}")
    bad |= mine != theirs or not near
sys.exit(bad)
