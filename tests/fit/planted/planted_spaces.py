#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted search spaces, open half. planted_spaces.py --kind K --seed S --json; --list prints the kinds."""
import math, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spaces_engine import ALGOS, CHANNELS, CHUNKS, PROTOS, SIZES, Space, main, model, rng


def separable(kind, seed, nodes=None):
    """penalties of the four coordinates multiply: descent from anywhere ends at the winner"""
    sp = Space(kind, seed, nodes)
    sp.coordinate_tables()
    return sp.fill(sp.separable)


def interaction(kind, seed, nodes=None):
    """algorithm x protocol: each algorithm has its own best protocol, and the winner's algorithm is slow with every other protocol"""
    sp = Space(kind, seed, nodes)
    R, fav, own = rng("inter", kind, seed), [], []
    for i in range(1, len(SIZES), 2):            # at odd sizes algorithm and protocol both differ from the own choice
        o, w = sp.formula(i), sp.win[i]
        sp.win[i] = (R.choice([a for a in sp.algos if a != o[0]]), R.choice([p for p in PROTOS if p != o[1]])) + w[2:]
    sp.coordinate_tables()
    for w in sp.win:
        f = {a: R.choice([p for p in PROTOS if p != w[1]]) for a in sp.algos}
        f[w[0]] = w[1]
        o = sp.formula(len(fav))
        if o[0] != w[0] and o[1] != w[1]:
            f[o[0]] = o[1]                       # the own choice sits in a local minimum
        fav.append(f)
        own.append({a: 0 if a == w[0] else R.uniform(0.05, 0.12) for a in sp.algos})

    def pen(i, a, p, c, k):
        x = own[i][a] + (0 if p == fav[i][a] else 0.45 if a == sp.win[i][0] else 0.2)
        return (1 + x) * (1 + sp.chan(i, c)) * (1 + sp.chunk(i, k)) - 1
    sp.solvable = False
    sp.note = "to leave a local minimum, algorithm and protocol must change together"
    return sp.fill(pen)


def ridge(kind, seed, nodes=None):
    """channels x chunk: time depends mostly on channels x chunk; along the ridge the gain per step is small, both must change together"""
    sp = Space(kind, seed, nodes)
    sp.coordinate_tables()

    def pen(i, a, p, c, k):
        w = sp.win[i]
        u, v = math.log2(c / w[2]), math.log2(k / w[3])
        return (1 + sp.A[i][a]) * (1 + sp.P[i][p]) * (1 + 0.16 * abs(u + v) + 0.02 * abs(u - v)) - 1
    sp.solvable = False
    sp.note = "single changes stop on the ridge; moves along it (channels up, chunk down) go on"
    return sp.fill(pen)


def two_minima(kind, seed, nodes=None):
    """a second basin with another algorithm, protocol, channels and chunk, 5 to 15 % slower; at every other size it holds the own choice"""
    sp = Space(kind, seed, nodes)
    R, second = rng("two", kind, seed), []
    for i, w in enumerate(sp.win):
        o = sp.formula(i)
        if i % 2:
            w = sp.win[i] = (R.choice([a for a in sp.algos if a != o[0]]), R.choice([p for p in PROTOS if p != o[1]]),
                             R.choice([2, 4] if o[2] >= 8 else [12, 16]), CHUNKS[0] if o[3] > CHUNKS[2] else CHUNKS[4])
            second.append(o + (R.uniform(0.05, 0.15),))
            continue
        second.append((R.choice([a for a in sp.algos if a != w[0]]), R.choice([p for p in PROTOS if p != w[1]]),
                       32 if w[2] < 8 else 2, CHUNKS[5] if w[3] < CHUNKS[3] else CHUNKS[0], R.uniform(0.05, 0.15)))
    sp.coordinate_tables()

    def dist(i, x, o):
        d = (x[0] != o[0]) * 0.25 + 0.2 * abs(PROTOS.index(x[1]) - PROTOS.index(o[1]))
        return d + sp.chan(i, x[2], o[2]) + sp.chunk(i, x[3], o[3])

    def pen(i, a, p, c, k):
        x = (a, p, c, k)
        return min(dist(i, x, sp.win[i]), second[i][4] + dist(i, x, second[i]))
    sp.solvable = False
    sp.note = "one descent may end in the second basin; a second start finds the winner"
    return sp.fill(pen)


def plateau(kind, seed, nodes=None):
    """from the best channels and chunk upwards nothing changes: ties within 0.05 %; the fewest channels are to be preferred"""
    sp = Space(kind, seed, nodes)
    sp.coordinate_tables()
    R = rng("plateau", kind, seed)
    sp.ties = [[] for _ in SIZES]
    sp.win = [(w[0], w[1], min(w[2], 16), min(w[3], CHUNKS[4])) for w in sp.win]

    def pen(i, a, p, c, k):
        w = sp.win[i]
        x = (1 + sp.A[i][a]) * (1 + sp.P[i][p]) * (1 + (sp.chan(i, c) if c < w[2] else 0)) * (1 + (sp.chunk(i, k) if k < w[3] else 0)) - 1
        tie = (a, p) == w[:2] and c >= w[2] and k >= w[3]
        if tie:
            sp.ties[i].append((a, p, c, k))
        return x + (0 if (a, p, c, k) == w else rng("tie", kind, seed, i, a, p, c, k).uniform(0.00002, 0.0004))
    sp.note = "every point of `ties` is right; the winner is the tie with the fewest channels and the smallest chunk"
    return sp.fill(pen)


def noisy(kind, seed, nodes=None):
    """separable, measured with noise of 3 to 10 %, outliers of 2 to 5 times in 1 of 50, small sizes twice as noisy"""
    sp = Space(kind, seed, nodes)
    sp.coordinate_tables()
    R = rng("noisy", kind, seed)
    sp.noise = dict(dist="lognormal", sd=R.uniform(0.03, 0.1), outlier_p=0.02, outlier_factor=R.uniform(2, 5), small_size_factor=2)
    sp.note = "use --measure: the table has the true times"
    return sp.fill(sp.separable)


def missing(kind, seed, nodes=None):
    """forbidden: nvls, nvls_tree and collnet only with simple; plus limits of channels x chunk and of sizes; the winner may need two changes"""
    sp = Space(kind, seed, nodes)
    R = rng("missing", kind, seed)
    sp.win = [(w[0], w[1] if w[0] in ("ring", "tree") else "simple", w[2], w[3]) for w in sp.win]
    two = set()                                  # sizes that need two changes at once
    for i in range(1, len(SIZES), 2):
        o, w = sp.formula(i), sp.win[i]
        if o[0] in ("ring", "tree"):
            sp.win[i] = (R.choice([a for a in sp.algos if a not in ("ring", "tree")]), "simple") + w[2:]
        else:
            sp.win[i] = (R.choice(["ring", "tree"]), "ll128", w[2], w[3])
            two.add(i)
    sp.coordinate_tables()
    for i in two:
        sp.P[i]["simple"], sp.A[i][sp.formula(i)[0]] = 0.35, R.uniform(0.05, 0.12)
    cap = R.choice([4 << 20, 8 << 20])
    cut = R.choice([12, 16, 20])

    def pen(i, a, p, c, k):
        ok = (a in ("ring", "tree") or p == "simple") and c * k <= cap * 2 and (a != "nvls" or c <= 24) and (p != "ll" or k <= 262144)
        ok = ok and not (p == "ll128" and c == cut)
        if not ok and (a, p, c, k) != sp.win[i]:
            return None
        if a in ("ring", "tree") and sp.win[i][0] not in ("ring", "tree"):
            q = abs(PROTOS.index(p) - PROTOS.index(sp.formula(i)[1])) * 0.15     # ring and tree are best with the own protocol
            return (1 + sp.A[i][a]) * (1 + q) * (1 + sp.chan(i, c)) * (1 + sp.chunk(i, k)) - 1
        if i in two and a not in ("ring", "tree"):
            return (1 + sp.A[i][a]) * (1 + sp.chan(i, c)) * (1 + sp.chunk(i, k)) - 1
        return sp.separable(i, a, p, c, k)
    sp.solvable = False
    sp.note = "a missing key is forbidden: never run it, never choose it"
    return sp.fill(pen)


def realistic(kind, seed, nodes=None):
    """the plain model, nothing planted (the winner is its minimum), with NCCL's forbidden combinations and 0.5 % of roughness"""
    sp = Space(kind, seed, nodes)
    sp.solvable = False

    def pen(i, a, p, c, k):
        if a not in ("ring", "tree") and p != "simple":
            return None
        return model(a, p, c, k, SIZES[i], sp.nodes) / sp.best[i] * (1 + rng("rough", kind, seed, i, a, p, c, k).uniform(0, 0.005)) - 1
    best = {}
    for i in range(len(SIZES)):
        pts = [(pen(i, a, p, c, k), (a, p, c, k)) for a in sp.algos for p in PROTOS for c in CHANNELS for k in CHUNKS if pen(i, a, p, c, k) is not None]
        best[i] = min(pts)
        sp.win[i] = best[i][1]
    sp.ties = [[x for v, x in [(pen(i, a, p, c, k), (a, p, c, k)) for a in sp.algos for p in PROTOS for c in CHANNELS for k in CHUNKS]
                if v is not None and (1 + v) <= (1 + best[i][0]) * 1.005] for i in range(len(SIZES))]
    sp.note = "points within 0.5 % of the minimum are listed as ties"
    return sp.fill(pen)


KINDS = {f.__name__: f for f in (separable, interaction, ridge, two_minima, plateau, noisy, missing, realistic)}
SEEDS = list(range(1, 7))
if __name__ == "__main__":
    sys.exit(main(KINDS))
