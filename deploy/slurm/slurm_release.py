#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the release of the Slurm whose headers COMPILER finds, such as 22.05; fails where there are none.

usage: slurm_release.py COMPILER...
"""
import re
import subprocess
import sys

SOURCE = "#include <slurm/spank.h>\n#include <slurm/slurm.h>\nrelease SLURM_VERSION_NUMBER\n"
said = subprocess.run([*sys.argv[1:], "-E", "-P", "-x", "c", "-"], input=SOURCE, text=True, stdout=subprocess.PIPE,
                      stderr=subprocess.DEVNULL)
number = re.search(r"^release (0x[0-9a-f]+)$", said.stdout, re.MULTILINE)
if said.returncode or not number:
    sys.exit(1)
print(f"{int(number[1], 16) >> 16}.{int(number[1], 16) >> 8 & 0xff:02}")
