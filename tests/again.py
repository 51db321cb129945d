# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that failed in meson's last run again, each by itself: this distinguishes a busy machine from a defect.

usage: again.py BUILD MULTIPLIER
Nothing is hidden: a test that passes now is named, with the output of its failure above; it needs mending all the same.
More than three failures are no accident and are not run again. Status 0: all of them passed now; 1: not.
BUILD/meson-logs/again.json has the second results, as testlog.json has the first.
"""
import json
import os
import subprocess
import sys

MOST = 3


def failures(log):
    """The failed tests, each as meson names it: PROJECT:SUITE / NAME, or PROJECT / NAME."""
    with open(log) as lines:
        tests = [json.loads(line) for line in lines]
    return [test["name"] for test in tests if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]


def selection(failed):
    """What makes meson run these: two suites may have tests of one name, of which only one was built."""
    suites = {s for name in failed for s in name.partition(" / ")[0].partition(":")[2].split("+")}
    words = [name.rpartition(" / ")[2] for name in failed]
    for suite in sorted(suites) if "" not in suites else []:
        words += ["--suite", suite]
    return words


def main(build, multiplier):
    again = os.path.join(build, "meson-logs", "again.json")
    first = os.path.join(build, "meson-logs", "testlog.json")
    failed = failures(first) if os.path.exists(first) else []  # none: the build failed
    if not 0 < len(failed) <= MOST:
        return 1
    status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--num-processes", "1", "--logbase",
                             "again", "--timeout-multiplier", multiplier, *selection(failed)]).returncode
    if not os.path.exists(again):
        return 1
    for name in sorted(set(failed) - set(failures(again))):
        print(f"unsteady: {name.rpartition(' / ')[2]} failed among others and passed by itself")
    return 1 if status else 0


sys.exit(main(*sys.argv[1:]))
