#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report's HTML page in a real browser: no error, no request, nothing cut, the same numbers as the text.

usage: check_html.py CAPO GEN_JOB [PICTURES]      PICTURES: a folder for screenshots
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

import chromium

MOST_BYTES = 1 << 20
# The GPUs of gen_job, by their bus ids.
MACHINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fragment/data/standin-dgx1v.xml")
# Elements whose text is cut, or that stick out of the page.
CUT = """[...document.querySelectorAll('h1,h2,h3,p,td,th,dt,dd,li')].filter(e=>{const r=e.getBoundingClientRect();
return r.width&&!e.closest('.scroll')&&(e.scrollWidth>e.clientWidth+1&&e.clientWidth>0||r.right>document.documentElement.clientWidth+1)}).map(e=>e.textContent.slice(0,60))"""
# Numbers whose unit stands on another line.
SPLIT = """[...document.querySelectorAll('td.r')].filter(e=>{const r=document.createRange();r.selectNodeContents(e);
return r.getBoundingClientRect().height>1.9*parseFloat(getComputedStyle(e).fontSize)}).map(e=>e.textContent)"""
BARS = "[...document.querySelectorAll('.bars')].map(t=>[...t.rows].map(r=>r.cells[0].textContent))"
FILLED = """(()=>{const c=document.querySelector('#tl canvas'),d=c.getContext('2d').getImageData(0,0,c.width,c.height).data,n={};
for(let i=0;i<d.length;i+=4)n[d[i]+','+d[i+1]+','+d[i+2]]=1;return Object.keys(n).length})()"""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done


def check_numbers(page, text, report):
    """What the text says of facts, rows and waiting stands on the page in the same words."""
    words = re.sub(r"\s+", " ", html.unescape(re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.S)))
    for line in re.findall(r"^(\S.*?\S)$", text.split("TIME BY CALL")[0], re.M)[1:]:
        for part in re.split(r"   +", line):
            if not part.startswith("!"):
                assert all(w in words for w in part.split()), f"the page lacks: {part}"
    for wait in report["waits"]:
        assert wait["text"].split(":")[0] in words, wait["text"]
    for n in report["next"]:
        assert n["text"][:60] in words, n["text"]


def check_timeline(browser):
    """Drawn, read with the mouse, zoomed with the wheel and the keyboard."""
    assert int(browser.run("document.getElementById('tl').dataset.drawn")) > 0
    assert browser.run(FILLED) > 3, "the time line is empty"
    x, y, w = browser.run("(()=>{document.querySelector('#tl').scrollIntoView();const r=document.querySelector('#tl canvas').getBoundingClientRect();return [r.left,r.top,r.width]})()")
    said = lambda: browser.run("document.querySelector('#tl output').textContent")
    browser.mouse("mouseMoved", x + w * 0.6, y + 9)
    first = said()
    assert re.search(r"rank \d+ .*busy \d+ %   waiting \d+ %   idle \d+ %", first), first
    ends = "document.querySelector('#tl canvas').toDataURL().length"
    before = browser.run(ends)
    for _ in range(4):
        browser.mouse("mouseWheel", x + w * 0.6, y + 9, deltaX=0, deltaY=-120)
    assert browser.run(ends) != before, "the wheel changes nothing"
    browser.run("document.querySelector('#tl canvas').dispatchEvent(new KeyboardEvent('keydown',{key:'-'}))")
    browser.run("document.querySelector('#tl canvas').dispatchEvent(new MouseEvent('dblclick'))")
    assert browser.run(ends) == before, "a double click does not show all"


def check_tables(browser):
    """A click on a head sorts by it."""
    sort = "(()=>{const h=[...document.querySelectorAll('thead th')].find(x=>x.textContent=='calls');h.click();const t=h.closest('table');return [...t.tBodies[0].rows].map(r=>+r.cells[h.cellIndex].textContent.replace(/,/g,''))})()"
    once = browser.run(sort)
    again = browser.run(sort)
    assert once == sorted(once, reverse=once[0] > once[-1]) and again == once[::-1] or len(set(once)) < len(once), (once, again)


def check_page(browser, path, pictures, name):
    assert os.path.getsize(path) <= MOST_BYTES, os.path.getsize(path)
    for kind, width, height, more in (("light", 1000, 620, {}), ("dark", 1000, 620, {"dark": True}), ("phone", 390, 844, {"phone": True}),
                                      ("print", 794, 1123, {"medium": "print"})):
        browser.open(path, width, height, **more)
        cut = browser.run(CUT)
        assert not cut, (kind, cut)
        split = browser.run(SPLIT)
        assert not split, (kind, split)
        assert browser.run("document.documentElement.scrollWidth<=document.documentElement.clientWidth"), f"{kind}: wider than the page"
        for labels in browser.run(BARS):
            assert len(set(labels)) == len(labels), f"two bars of one name: {labels}"
        order = browser.run("[...document.querySelectorAll('.problem,h2,dl')].map(e=>e.tagName=='H2'?e.textContent:e.className||e.tagName)")
        assert order.index("DL") < order.index("Time line") and order.index("DL") > order.index("Next") if "Next" in order else True, order
        check_timeline(browser)
        if kind == "light":
            check_tables(browser)
            browser.run("scrollTo(0,0)")
        bad = browser.complaints()
        assert not bad, (kind, bad)
        if pictures:
            browser.run("scrollTo(0,0)")
            browser.picture(os.path.join(pictures, f"report-{kind}.webp"))


def main():
    capo, gen_job = sys.argv[1:3]
    pictures = sys.argv[3] if len(sys.argv) > 3 else None
    if not chromium.PROGRAM:
        print("no chromium (Debian: apt-get install chromium)")
        sys.exit(77)
    jobs = {"late": ["layout=3+5", "steps=50", "sizes=25M,4M,1M,64K", "gpu=1", "trace=1", "late_rank=5", "late_ns=300000", "bus=1"],
            "mixed": ["mixed"], "host": ["layout=2", "steps=40", "trace=1"], "many": ["layout=100x8", "steps=30", "sizes=25M,1M", "gpu=1", "trace=1"]}
    with tempfile.TemporaryDirectory() as work:
        browser = chromium.Chromium()
        try:
            for name, words in jobs.items():
                logs, page = os.path.join(work, name), os.path.join(work, name + ".html")
                os.mkdir(logs)
                run(gen_job, logs, *words)
                machine = ["--topo", MACHINE] if name == "late" else []
                text = run(capo, "report", "--wide", "--html", page, *machine, logs)
                assert f"wrote {page}" in text.stderr, text.stderr
                check_numbers(open(page).read(), text.stdout, json.loads(run(capo, "report", "--json", *machine, logs).stdout))
                if name == "mixed":  # its logs keep no single calls: there is no time line
                    continue
                check_page(browser, page, pictures if name == "late" else None, name)
        finally:
            browser.close()
    print("pages are whole in the browser: light, dark, phone, print")


main()
