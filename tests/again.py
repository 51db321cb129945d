# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that failed in meson's last run again, each by itself: this distinguishes a busy machine from a defect.

usage: again.py BUILD MULTIPLIER
Nothing is hidden: a test that passes now is named, with the output of its failures above; it needs mending all the same. One that
fails again has a second run by itself. More than three failures are no accident and are not run again. Status 0: each passed in one
of its runs; 1: not.
BUILD/meson-logs/again.json has the last result of each, as testlog.json has the first.
"""
import json
import os
import subprocess
import sys

MOST, RUNS = 3, 2


def results(log):
    """The lines of a log of meson by the name of the test, as meson prints it: PROJECT:SUITE / NAME, or PROJECT / NAME."""
    if not os.path.exists(log):
        return {}
    with open(log) as lines:
        return {json.loads(line)["name"]: line for line in lines}


def failures(tests):
    return [name for name, line in tests.items() if json.loads(line)["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]


def selection(failed):
    """What makes meson run these: two suites may have tests of one name, of which only one was built."""
    suites = {s for name in failed for s in name.partition(" / ")[0].partition(":")[2].split("+")}
    words = [name.rpartition(" / ")[2] for name in failed]
    for suite in sorted(suites) if "" not in suites else []:
        words += ["--suite", suite]
    return words


def main(build, multiplier):
    again = os.path.join(build, "meson-logs", "again.json")
    failed = failures(results(os.path.join(build, "meson-logs", "testlog.json")))  # none: the build failed
    last = {}
    if not 0 < len(failed) <= MOST:
        return 1
    for run in range(1, RUNS + 1):
        if os.path.exists(again):
            os.unlink(again)
        subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--num-processes", "1", "--logbase", "again",
                        "--timeout-multiplier", multiplier, *selection(failed)])
        now = {name: line for name, line in results(again).items() if name in failed}
        last.update(now)
        for name in sorted(set(now) - set(failures(now))):
            print(f"unsteady: {name.rpartition(' / ')[2]} failed among others and passed by itself, in run {run} of {RUNS}")
        failed = [name for name in failed if name not in now or name in failures(now)]
        if not failed:
            break
    with open(again, "w") as log:
        log.writelines(last.values())
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
