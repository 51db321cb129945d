# SPDX-License-Identifier: Apache-2.0
"""A recorded job: what it wrote down itself, and every face of its report, taken apart."""
import collections
import csv
import html.parser
import io
import json
import os
import re
import subprocess


# One call as the program saw it: ns of CLOCK_MONOTONIC, on the host and (around it) on the GPU.
Call = collections.namedtuple("Call", "name bytes begin end gpu_begin gpu_end")


class Truth:
    """What the ranks wrote: calls[comm][k][rank] is a Call, the k-th of a communicator."""

    def __init__(self, folder):
        self.calls = collections.defaultdict(lambda: collections.defaultdict(dict))
        self.ranks = 0
        for name in os.listdir(folder):
            rank, nth = int(name.split(".")[1]), collections.Counter()
            self.ranks += 1
            for line in open(os.path.join(folder, name)):
                _, comm, call, *numbers = line.split()
                self.calls[comm][nth[comm]][rank] = Call(call, *map(int, numbers))
                nth[comm] += 1

    def all(self, comm=None):
        """Every call of every rank, or those of one communicator."""
        return [c for name, calls in self.calls.items() if comm in (None, name) for ranks in calls.values() for c in ranks.values()]

    def counts(self, comm):
        return collections.Counter((c.name, c.bytes) for k in self.calls[comm].values() for c in [next(iter(k.values()))])

    def waiting(self, comm):
        """Seconds that others waited for each rank, in two ways: from the one that started a call last on its GPU, and from
        the one that was done with it soonest. They differ where a call does not end everywhere at once: a busy machine
        lets some ranks see late that it is over, which a GPU does not. For each rank the two calls that cost most of the
        second and that a sample may miss, and by how much all calls together differ from the second if each is seen by
        when the hosts began it."""
        by_start, by_length, costs = collections.Counter(), collections.Counter(), collections.defaultdict(list)
        astray = collections.Counter()
        for ranks in self.calls[comm].values():
            if len(ranks) < 2:
                continue
            starts, enqueued = ({r: getattr(c, when) / 1e9 for r, c in ranks.items()} for when in ("gpu_begin", "begin"))
            length = {r: (c.gpu_begin - c.gpu_end) / 1e9 for r, c in ranks.items()}  # negative: who is last is short
            (behind, waited), (last, cost), (host, by_host) = (
                (max(at, key=at.get), len(at) * max(at.values()) - sum(at.values())) for at in (starts, length, enqueued))
            by_start[behind] += waited
            by_length[last] += cost
            if max(enqueued.values()) - min(enqueued.values()) < 1:  # those behind longer silences are always compared
                costs[last].append(cost)
            for rank in {last, host}:
                astray[rank] += abs((rank == last) * cost - (rank == host) * by_host)
        return by_start, by_length, {rank: sum(sorted(c)[-2:]) for rank, c in costs.items()}, astray


BESIDE = ("WAITING", "CALLED FROM", "NEXT")  # their rows stand beside the title


def text_sections(text):
    """Title -> (note behind it, lines); what comes before the first is under ''."""
    sections, name = {"": ("", [])}, ""
    for line in text.split("\n"):
        if title := re.fullmatch(r"([A-Z][A-Z ]+[A-Z])(?: \[\d\])*(?:  +(.*))?", line):
            name = title[1]
            sections[name] = (title[2] or "", [title[2]] if name in BESIDE else [])
        elif line.startswith("["):
            name = "NOTES"
            sections.setdefault(name, ("", []))[1].append(line)
        elif line and not line.startswith("--wide"):
            sections[name][1].append(line.strip() if name in BESIDE else line)
    return sections


def text_table(lines, first):
    """Rows as dictionaries; the heading is the line that begins with @first. Columns are two blanks apart."""
    head = next(i for i, line in enumerate(lines) if line.split("  ")[0].strip() == first)
    names, rows = re.split(r"  +", lines[head].strip()), []
    for line in lines[head + 1:]:
        cells = re.split(r"  +", line.strip())
        if len(cells) < len(names) - 1 or line.startswith("  "):
            continue  # units below the heading, remarks below the table
        rows.append(dict(zip(names, cells + [""] * (len(names) - len(cells)))))
    return rows


class Html(html.parser.HTMLParser):
    """The tables and the running text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.words, self.cell, self.skip = [], [], None, 0
        self.feed(page)
        self.text = " ".join(self.words + [cell for table in self.tables for row in table for cell in row])

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.cell = True
        self.skip += tag in ("style", "script")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        self.skip -= tag in ("style", "script")

    def handle_data(self, data):
        if self.cell and not self.skip:
            self.tables[-1][-1][-1] += data
        elif not self.skip:
            self.words.append(data)


def run(command, env=None):
    done = subprocess.run(command, env=env, text=True, capture_output=True)
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}: {done.stderr}"
    return done.stdout


class Job:
    """A program recorded by `capo run`, and the faces of its page."""

    def __init__(self, capo, build, work, options, launch, command):
        logs, truth = os.path.join(work, "logs"), os.path.join(work, "truth")
        os.mkdir(truth)
        env = dict(os.environ, JOB_TRUTH=truth, LD_LIBRARY_PATH=os.path.join(build, "tests/standin"))
        self.done = subprocess.run([capo, "run", "--quiet", "--dir", logs, *options, "--", os.path.join(build, "tests/jobs/launch"),
                                    "--timeout", "240", *launch, "--", *command], env=env, text=True, capture_output=True)
        self.capo, self.logs = capo, logs
        self.traced, self.all_timed = "all" in options, "--sample" in options
        self.truth = Truth(truth)
        self.text = run([capo, "report", "--wide", "--notes", logs])
        self.sections = text_sections(run([capo, "report", "--all", "--wide", logs]))
        # of more than four notes the later ones are printed with --notes only
        self.notes = re.findall(r"^\[\d+\] (.*)", run([capo, "report", "--all", "--wide", "--notes", logs]), re.M)
        self.json = json.loads(run([capo, "report", "--json", logs]))
        self.csv = list(csv.DictReader(io.StringIO(run([capo, "report", "--csv", logs]))))
        run([capo, "report", "--all", "--html", os.path.join(work, "page.html"), logs])
        self.html = Html(open(os.path.join(work, "page.html")).read())
        trace = json.loads(run([capo, "trace", logs]))["traceEvents"]
        self.host = [e for e in trace if e["ph"] == "X" and e["cat"] == "host"]
        self.gpu = [e for e in trace if e["ph"] == "X" and e["cat"] == "gpu"]
        for e in self.host + self.gpu:
            e["pid"] -= 1  # of the steps is 0
        self.comms = {c["id"]: c for c in self.json["comms"]}

    def comm_name(self, number):
        return self.comms[number]["name"] if number is not None else "-"
