# SPDX-License-Identifier: Apache-2.0
"""Engine of the planted search spaces: all-reduce times of an 8-GPU H100 node, or 2 or 4 nodes with 8 NICs of 400 Gb/s.

A simple model (latency per hop, bus bandwidth per algorithm and protocol) gives the magnitudes. A kind plants the winner of each
size: time = best time of the model at that size x (1 + penalty), with the penalty 0 at the winner only.
"""
import argparse, hashlib, json, math, random, sys

PROTOS = ("ll", "ll128", "simple")
CHANNELS = (1, 2, 4, 6, 8, 12, 16, 20, 24, 32)
CHUNKS = (32768, 65536, 131072, 262144, 524288, 1048576)
SIZES = tuple(1 << b for b in range(10, 31, 2))     # 1 KiB to 1 GiB
LAT = {"ll": (0.6, 2.7), "ll128": (1.4, 4.0), "simple": (3.6, 14.0)}       # us per hop: NVLink, network
FACTOR = {"ll": 0.45, "ll128": 0.92, "simple": 1.0}
#                bus GB/s on 1, 2, 4 nodes; GB/s per channel; base us
ALGOS = {"ring": ((365, 340, 330), 24, 6.6), "tree": ((250, 330, 260), 22, 6.8), "nvls": ((470, 330, 320), 36, 18.0),
         "nvls_tree": ((0, 455, 390), 32, 22.0), "collnet": ((0, 400, 400), 26, 20.0)}


def rng(*parts):
    return random.Random(int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big"))


def model(a, p, c, k, size, nodes):
    """us of one all-reduce"""
    peak, per, base = ALGOS[a]
    peak = peak[{1: 0, 2: 1, 4: 2}[nodes]]
    if not peak:
        return None
    n = 8 * nodes
    nv, net = LAT[p]
    hops = {"ring": 2 * (n - 1 - nodes * (nodes > 1)) * nv + 2 * nodes * (nodes > 1) * net,
            "tree": 2 * (7 * nv + math.log2(nodes) * net), "nvls": 2 * nv + 2 * (nodes - 1) * net,
            "nvls_tree": 2 * nv + 2 * math.log2(nodes) * net, "collnet": 4 * nv + net}[a]
    use = min(k, max(512, size / c))
    bw = min(peak, per * c) * FACTOR[p] * use / (use + 12e3)
    return base + hops + 0.12 * c + 2 * (n - 1) / n * size / (bw * 1e3) + 2 * math.log2(n) * use / (per * FACTOR[p] * 1e3)


class Space:
    """A kind sets pen(a, p, c, k, s) -> penalty or None (forbidden), win[s] and, if it wants, the noise."""

    def __init__(self, kind, seed, nodes=None):
        R = self.R = rng("space", kind, seed)
        self.kind, self.seed = kind, seed
        self.nodes = nodes or (1, 2, 4)[seed % 3]
        self.algos = [a for a in ALGOS if ALGOS[a][0][{1: 0, 2: 1, 4: 2}[self.nodes]]]
        self.noise = dict(dist="lognormal", sd=0.003, outlier_p=0.0, outlier_factor=1.0)
        self.solvable = True          # does a careful coordinate descent from `own` end at the winner?
        self.ties, self.note, self.table = None, "", None
        self.win = [self.pick(i) for i in range(len(SIZES))]
        self.best = [min(m for a in self.algos for p in PROTOS for c in CHANNELS for k in CHUNKS
                         for m in [model(a, p, c, k, s, self.nodes)]) for s in SIZES]

    def pick(self, i):
        """A plausible winner: small sizes ll or ll128, few channels, small chunks; large sizes simple, many channels."""
        R, b = self.R, i / (len(SIZES) - 1)
        p = "ll" if b < 0.25 else "ll128" if b < 0.5 else "simple"
        a = R.choice([x for x in self.algos if (x in ("ring", "tree")) or b >= 0.4])
        c = CHANNELS[min(9, max(0, round(b * 8 + R.uniform(-1.2, 1.6))))]
        k = CHUNKS[min(5, max(0, round(b * 4.4 + R.uniform(-1, 1))))]
        return a, p, c, k

    # penalties of one coordinate, with the shape of real ones
    def coordinate_tables(self):
        R, self.A, self.P = rng("coord", self.kind, self.seed), [], []
        self.wc = [(R.uniform(0.05, 0.14), R.uniform(0.03, 0.1)) for _ in SIZES]    # below, above the best channels
        self.wk = [R.uniform(0.012, 0.04) for _ in SIZES]
        for i, w in enumerate(self.win):
            self.A.append({a: 0.0 if a == w[0] else R.uniform(0.06, 0.8) for a in self.algos})
            d = {p: abs(PROTOS.index(p) - PROTOS.index(w[1])) for p in PROTOS}
            self.P.append({p: 0.0 if not d[p] else d[p] * R.uniform(0.08, 0.35) for p in PROTOS})

    def chan(self, i, c, c0=None):
        x = math.log2(c / (c0 or self.win[i][2]))
        return self.wc[i][0 if x < 0 else 1] * (abs(x) + x * x) / 1.5

    def chunk(self, i, k, k0=None):
        x = math.log2(k / (k0 or self.win[i][3]))
        return self.wk[i] * (abs(x) + x * x)

    def separable(self, i, a, p, c, k):
        return (1 + self.A[i][a]) * (1 + self.P[i][p]) * (1 + self.chan(i, c)) * (1 + self.chunk(i, k)) - 1

    def fill(self, pen):
        """table[a][p][c][k][size]; a missing key is a forbidden combination."""
        t = {}
        for a in self.algos:
            for p in PROTOS:
                for c in CHANNELS:
                    for k in CHUNKS:
                        for i, s in enumerate(SIZES):
                            x = pen(i, a, p, c, k)
                            if x is not None:
                                t[a, p, c, k, i] = round(self.best[i] * (1 + x), 4)
        self.table = t
        if self.ties is None:
            self.ties = [[w] for w in self.win]
        self.own = [self.own_choice(i) for i in range(len(SIZES))]
        return self

    def formula(self, i):
        """The own choice of a table without forbidden combinations (known before the table is)."""
        n = 16 if SIZES[i] >= 1 << 20 else 8 if SIZES[i] >= 1 << 16 else 2
        k = 524288 if SIZES[i] >= 1 << 22 else 131072
        return min((model(a, p, n, k, SIZES[i], self.nodes), a, p, n, k) for a in self.algos for p in PROTOS
                   if p == "simple" or a in ("ring", "tree"))[1:]

    def own_choice(self, i):
        """What a formula would choose: the best of the model at its own channels and chunk, among what the table has."""
        n = 16 if SIZES[i] >= 1 << 20 else 8 if SIZES[i] >= 1 << 16 else 2
        k = 524288 if SIZES[i] >= 1 << 22 else 131072
        g = [(model(a, p, n, k, SIZES[i], self.nodes), a, p, n, k) for a in self.algos for p in PROTOS
             if (a, p, n, k, i) in self.table and (p == "simple" or a in ("ring", "tree"))]
        if not g:
            g = [(v,) + x[:4] for x, v in self.table.items() if x[4] == i]
        return min(g)[1:]

    def time(self, x, i):
        return self.table.get(tuple(x) + (i,))

    def neighbours(self, x, i):
        """Points that differ in one coordinate (the whole line of each coordinate)."""
        axes = (self.algos, PROTOS, CHANNELS, CHUNKS)
        for d in range(4):
            for v in axes[d]:
                y = x[:d] + (v,) + x[d + 1:]
                if v != x[d] and y + (i,) in self.table:
                    yield y

    def descend(self, x, i):
        """Coordinate descent by whole lines with perfect times. -> (end, evaluations)"""
        axes, seen, still, d = (self.algos, PROTOS, CHANNELS, CHUNKS), {x}, 0, 0
        while still < 4:
            line = [x[:d] + (v,) + x[d + 1:] for v in axes[d]]
            line = [y for y in line if y + (i,) in self.table]
            seen.update(line)
            y = min(line, key=lambda y: (self.table[y + (i,)], y != x))
            still = still + 1 if y == x else 0
            x, d = y, (d + 1) % 4
        return x, len(seen)

    def minima(self, i):
        """Points where no change of one coordinate helps."""
        return [x[:4] for x, v in self.table.items() if x[4] == i and all(self.table[y + (i,)] >= v for y in self.neighbours(x[:4], i))]

    def measure(self, x, i, rep):
        """One measurement: always the same for the same (point, size, rep)."""
        R, t, n = rng("measure", self.kind, self.seed, x, i, rep), self.time(x, i), self.noise
        if t is None:
            return None
        sd = n["sd"] * (n.get("small_size_factor", 1) if SIZES[i] <= 65536 else 1)
        v = t * math.exp(R.gauss(0, sd))
        return round(v * (n["outlier_factor"] if R.random() < n["outlier_p"] else 1), 4)

    def truth(self):
        out = []
        for i, s in enumerate(SIZES):
            w, o = self.win[i], self.own[i]
            rest = min(v for x, v in self.table.items() if x[4] == i and x[:4] not in self.ties[i])
            end, n = self.descend(o, i)
            out.append(dict(size=s, winner=point(w), time_us=self.time(w, i), ties=[point(x) for x in self.ties[i]],
                            margin_to_next=rest / self.time(w, i) - 1, own=point(o), own_loss=self.time(o, i) / self.time(w, i) - 1,
                            local_minima=len(self.minima(i)),
                            plain_descent=dict(end=point(end), loss=self.time(end, i) / self.time(w, i) - 1, evaluations=n)))
        return dict(kind=self.kind, seed=self.seed, nodes=self.nodes, gpus=8 * self.nodes, solvable=self.solvable, note=self.note,
                    points_per_size=sum(1 for x in self.table if x[4] == len(SIZES) - 1), sizes=out)


def point(x):
    return dict(algorithm=x[0], protocol=x[1], channels=x[2], chunk=x[3])


def nested(sp):
    t = {}
    for (a, p, c, k, i), v in sp.table.items():
        t.setdefault(a, {}).setdefault(p, {}).setdefault(str(c), {}).setdefault(str(k), {})[str(SIZES[i])] = v
    return t


def main(kinds):
    q = argparse.ArgumentParser(description="Planted search spaces: truth first.")
    q.add_argument("--kind", choices=sorted(kinds))
    q.add_argument("--seed", type=int, default=1)
    q.add_argument("--nodes", type=int, choices=(1, 2, 4), help="default: by the seed")
    q.add_argument("--json", action="store_true", help="print JSON (always so)")
    q.add_argument("--truth-only", action="store_true")
    q.add_argument("--data-only", action="store_true", help="leave out the truth; own choices stay")
    q.add_argument("--measure", help="- or FILE: JSON list of [algorithm, protocol, channels, chunk, size, rep]; prints noisy times (null: forbidden)")
    q.add_argument("--list", action="store_true")
    a = q.parse_args()
    if a.list:
        for k in sorted(kinds):
            print("%-16s %s" % (k, kinds[k].__doc__))
        return 0
    if not a.kind:
        q.error("--kind is required")
    sp = kinds[a.kind](a.kind, a.seed, a.nodes)
    if a.measure:
        with (sys.stdin if a.measure == "-" else open(a.measure)) as f:
            asked = json.load(f)
        out = [sp.measure((x[0], x[1], int(x[2]), int(x[3])), SIZES.index(int(x[4])), x[5] if len(x) > 5 else 0)
               if int(x[4]) in SIZES else None for x in asked]
    else:
        out = {} if a.data_only else dict(truth=sp.truth())
        if not a.truth_only:
            out["space"] = dict(nodes=sp.nodes, algorithms=sp.algos, protocols=PROTOS, channels=CHANNELS, chunks=CHUNKS, sizes=SIZES,
                                noise=sp.noise, own=[dict(size=s, **point(sp.own[i])) for i, s in enumerate(SIZES)], time_us=nested(sp))
    json.dump(out, sys.stdout)
    print()
    return 0
