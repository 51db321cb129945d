#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clang warns of in each source of a build, without compiling it, which is a quarter of the work. usage: clang_warnings.py BUILD

Any warning fails. (gcc has some of its own only when it compiles.)
"""
import os, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

from run import compiled


def read(row):
    command, skip = [], False
    for word in shlex.split(row["command"]):  # what says where results go is left out
        if not skip and word not in ("-o", "-MF", "-MQ", "-MD", "-MMD"):
            command.append(word)
        skip = word in ("-o", "-MF", "-MQ")
    done = subprocess.run([*command, "-Werror", "-fsyntax-only"], cwd=row["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    sys.stdout.write(done.stdout)
    return done.returncode == 0


rows = compiled(sys.argv[1])
with ThreadPoolExecutor(os.cpu_count()) as pool:
    bad = list(pool.map(read, rows.values())).count(False)
print(f"sources read: {len(rows)}, with a warning or an error: {bad}")
sys.exit(not rows or bad > 0)
