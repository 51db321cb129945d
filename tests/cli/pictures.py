#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py CAPO GEN_JOB SOURCE_ROOT    The pictures of fit and the HTML report: they parse as XML, everything drawn
lies within the viewBox, what is plotted lies within its axes, and axes have ticks with numbers."""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

CAPO, GEN, ROOT = (os.path.realpath(a) for a in sys.argv[1:4])
LETTER = 6.2  # mean width of a letter, as cli/base/svg_draw.c has it
bad = []


def tag(element):
    return element.tag.rsplit("}", 1)[-1]


def number(element, name):
    return float(element.get(name, "0").rstrip("%"))


def points(element):
    """Corners of what an element draws."""
    kind = tag(element)
    if kind == "path":
        at = [0.0, 0.0]
        for letter, numbers in re.findall(r"([MLHVhv])([^MLHVhv]*)", element.get("d")):
            v = [float(x) for x in numbers.split()]
            if letter in "ML":
                at = v[:2]
            elif letter in "Hh":
                at = [v[0] + (at[0] if letter == "h" else 0), at[1]]
            else:
                at = [at[0], v[0] + (at[1] if letter == "v" else 0)]
            yield tuple(at)
    elif kind == "circle":
        yield number(element, "cx"), number(element, "cy")
    elif kind == "line":
        yield number(element, "x1"), number(element, "y1")
        yield number(element, "x2"), number(element, "y2")
    elif kind == "rect" and element.get("width") != "100%":
        x, y = number(element, "x"), number(element, "y")
        yield x, y
        yield x + number(element, "width"), y + number(element, "height")
    elif kind == "text":
        x, y = number(element, "x"), number(element, "y")
        wide = LETTER * len("".join(element.itertext()))
        left = {"middle": x - wide / 2, "end": x - wide}.get(element.get("text-anchor"), x)
        yield left, y
        yield left + wide, y


def look(name, svg, ticks):
    left, top, width, height = (float(v) for v in svg.get("viewBox").split())
    boxes = [list(points(e)) for e in svg.iter() if tag(e) == "rect" and e.get("class") == "box"]
    numbers = 0
    for element in svg.iter():
        for x, y in points(element):
            if not (left <= x <= left + width and top <= y <= top + height):
                bad.append("%s: %s at %.1f %.1f is outside %s" % (name, tag(element), x, y, svg.get("viewBox")))
            kind = (element.get("class") or "").split()
            if boxes and (tag(element) == "circle" or (tag(element) == "path" and kind and kind[0] != "grid")):
                key = x > max(b[1][0] for b in boxes)  # what the colours mean stands to the right
                if not key and not any(b[0][0] - 0.1 <= x <= b[1][0] + 0.1 and b[0][1] - 0.1 <= y <= b[1][1] + 0.1
                                       for b in boxes):
                    bad.append("%s: %s at %.1f %.1f is outside its axes" % (name, tag(element), x, y))
        if tag(element) == "text" and re.match(r"[0-9.]+( |$)", "".join(element.itertext())):
            numbers += 1
    if numbers < ticks:
        bad.append("%s: %d texts begin with a number, expected %d ticks" % (name, numbers, ticks))
    return boxes


def run(*words):
    subprocess.run([CAPO, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    data = ROOT + "/tests/fit/data/"
    for i, inputs in enumerate([["h100_g4_%s.log" % a for a in ("auto", "Ring", "NVLS")], ["algo_sweep.txt"]]):
        run("fit", "--svg", "fit.svg", *[data + name for name in inputs])
        svg = ET.parse("fit.svg").getroot()
        boxes = look("fit of " + inputs[0], svg, 8)
        text = "".join(svg.itertext())
        if len(boxes) < 2 or "NCCL's own choice" not in text:
            bad.append("fit of %s: no panel over NCCL's own choice" % inputs[0])
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
