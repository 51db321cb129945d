# SPDX-License-Identifier: Apache-2.0
"""A strict reader of metrics as text: Prometheus' format 0.0.4 and OpenMetrics 1.0, as far as counters, gauges and histograms go.

    series = read(text, openmetrics=False)    {(name, ((label, value), ...)): number}; ValueError with the line that is wrong
"""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)\})? (\S+)$" % (NAME, LABEL, LABEL))
SUFFIXES = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}


def fail(number, line, why):
    raise ValueError("line %d: %s: %s" % (number, why, line))


def number_of(text):
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf|NaN)", text):
        raise ValueError("expected a number, found " + text)
    return float(text.replace("Inf", "inf").replace("NaN", "nan"))


def check_histograms(series, families):
    """Buckets rise, the last one is +Inf, and it is the count."""
    for name in (n for n, kind in families.items() if kind == "histogram"):
        sets = {}
        for (sample, labels), value in series.items():
            if sample == name + "_bucket":
                rest = tuple(pair for pair in labels if pair[0] != "le")
                sets.setdefault(rest, []).append((number_of(dict(labels)["le"]), value))
        for rest, buckets in sets.items():
            ends, counts = [b[0] for b in buckets], [b[1] for b in buckets]
            if ends != sorted(set(ends)) or not math.isinf(ends[-1]) or counts != sorted(counts):
                raise ValueError("%s%s: buckets %s" % (name, rest, buckets))
            if counts[-1] != series[name + "_count", rest] or series[name + "_sum", rest] < 0:
                raise ValueError("%s%s: count and sum do not fit its buckets" % (name, rest))


def read(text, openmetrics=False):
    series, families, family, helped = {}, {}, None, None
    if not text.endswith("\n") or openmetrics != text.endswith("# EOF\n"):
        raise ValueError("the end is missing")
    lines = text.split("\n")[:-1]
    for number, line in enumerate(lines[:-1] if openmetrics else lines, 1):
        if m := re.fullmatch(r"# HELP (%s) (\S.*)" % NAME, line):
            if m[1] in families:
                fail(number, line, "a family again")
            helped = m[1]
        elif m := re.fullmatch(r"# TYPE (%s) (\w+)" % NAME, line):
            if m[1] != helped or m[1] in families or m[2] not in SUFFIXES:
                fail(number, line, "a type without its help, or of no kind")
            if m[2] == "counter" and m[1].endswith("_total") == openmetrics:
                fail(number, line, "the name of a counter")
            family = m[1]
            families[family] = m[2]
        elif m := SAMPLE.fullmatch(line):
            base = family.removesuffix("_total") if families.get(family) == "counter" else family
            if not family or m[1] not in [base + s for s in SUFFIXES[families[family]]]:
                fail(number, line, "not of the family above it")
            labels = tuple(re.findall(LABEL, m[2] or ""))
            if len({name for name, _ in labels}) != len(labels):
                fail(number, line, "a label twice")
            if (m[1], labels) in series:
                fail(number, line, "a series twice")
            series[m[1], labels] = value = number_of(m[m.lastindex])
            if families[family] != "gauge" and not value >= 0:
                fail(number, line, "below zero")
        else:
            fail(number, line, "expected a sample or a heading")
    check_histograms(series, families)
    return series


def of(series, name, **labels):
    """The values of the series of that name with these labels."""
    return [v for (n, l), v in series.items() if n == name and all(dict(l).get(k) == str(w) for k, w in labels.items())]
