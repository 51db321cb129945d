# SPDX-License-Identifier: Apache-2.0
"""Five lines that sum up a run of ./dev run, at most 80 columns wide.

usage: run_summary.py REPORT.json PROFILE.json DIFF.json
"""
import json
import sys
import textwrap


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def count(n, noun):
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def line(head, text):
    print(f"{head:<11} {textwrap.shorten(text, 68, placeholder=' ...')}")


def main():
    report, profile, diff = (load(p) for p in sys.argv[1:4])
    line("recorded", f"{count(report['collectives'], 'collective')} of {count(report['ranks'], 'rank')}, "
                     f"{report['dropped']:,} dropped; same losses as without capo")
    line("found", report["next"][0]["text"] if report["next"] else "nothing to do next")
    rows = [row for rule in profile["rules"] for value in rule.values() if isinstance(value, list)
            for row in value if not row.get("leave")]
    line("tuned", f"{count(len(rows), 'size range')} where another choice is better than NCCL's" if rows
         else "nothing: no choice was measured to be better than NCCL's")
    line("gained", f"{count(diff['faster'], 'size')} faster, {diff['slower']} slower; "
                   f"{diff['seconds']:+.3f} s of the measured calls of one rank")
    line("pages", "capo-logs/pages/*.txt, the profile: capo-logs/tuned.json")


if __name__ == "__main__":
    main()
