#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py CAPO GEN_JOB    The pictures of the HTML report: the page parses as XML, loads nothing, and bars and tables are in it."""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

CAPO, GEN = (os.path.realpath(a) for a in sys.argv[1:3])
bad = []


def tag(element):
    return element.tag.rsplit("}", 1)[-1]


def run(*words):
    subprocess.run([CAPO, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    for name, more in (("slow", ["layout=3+5", "steps=40", "sizes=25M,4M,64K", "trace=1", "gpu=1", "late_rank=5",
                                 "late_ns=88000"]), ("mixed", ["mixed"])):
        os.mkdir(name)
        subprocess.run([GEN, name, *more], check=True, stdout=subprocess.DEVNULL)
        run("report", "--html", "page.html", name)
        with open("page.html") as html:  # all but the script is XML too
            page = ET.fromstring(re.sub(r"<script.*?</script>", "", html.read(), flags=re.S))
            html.seek(0)
            loads = re.findall(r"(?i)<(?:link|img|iframe|object|embed|base)\b|\bsrc=|\bhref=(?![\"']#)|@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(|WebSocket", html.read())
        if loads:
            bad.append("%s: the page loads something: %s" % (name, loads))
        bars = [e for e in page.iter() if (e.get("class") or "").split()[:1] == ["bar"]]
        wide = [e.get("style") for e in bars if not re.fullmatch(r"width:(100|\d?\d)\.\d%", e.get("style"))]
        if name == "slow" and len(bars) < 3 or wide:
            bad.append("%s: %d bars, of which these are outside: %s" % (name, len(bars), wide))
        if not any(tag(e) == "table" for e in page.iter()) or any(tag(e) == "pre" for e in page.iter()):
            bad.append("%s: expected tables, and no preformatted text" % name)
        titles = ["".join(e.itertext()) for e in page.iter() if tag(e) in ("h1", "h2")]
        wanted = [t for t in titles if t.split(" ")[0] in ("Next", "Time", "Waiting") and t != "Time line"]
        if not titles[0] or [t.split(" ")[0] for t in wanted] != ["Next"] * (name == "mixed") + ["Time", "Waiting"]:
            bad.append("%s: headings in the order %s" % (name, titles))
    os.chdir("/")

for line in bad:
    print("FAIL", line)
sys.exit(bool(bad))
