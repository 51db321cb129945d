# SPDX-License-Identifier: Apache-2.0
"""Engine of the planted jobs: effects and noise are drawn first, the schedule of arms is applied last.

Every random number depends on (kind, seed) and the call's index only, never on the arm. So the same job can be run with every
call "own" and with every call "row": these two runs give the true effect.
"""
import argparse, hashlib, json, math, random, sys

BETTER, NEUTRAL = 0.03, 0.01   # >= 3 % is better, below 1 % is neutral
STEP_BAD = -0.005              # the row makes steps slower by at least 0.5 %
DECIDABLE_Z = 4.0
INTENTS = ("better", "worse", "neutral")


def rng(*parts):
    return random.Random(int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big"))


def intent_of(kind, seed):
    """Three seeds in a row give three intents; the order depends on the kind."""
    return INTENTS[(seed + hashlib.sha256(kind.encode()).digest()[0]) % 3]


def effect_of(R, intent):
    """Fraction of the call's time that the row saves (positive: faster)."""
    if intent == "better":
        return R.uniform(0.035, 0.18)
    if intent == "worse":
        return -R.uniform(0.035, 0.25)
    return R.uniform(-0.008, 0.008)


class Job:
    """A job before its schedule. Kinds overwrite the lists."""

    def __init__(self, kind, seed, intent, steps, cps, sd):
        R = self.R = rng("job", kind, seed)
        self.kind, self.seed, self.intent = kind, seed, intent
        self.steps, self.cps, self.n = steps, cps, steps * cps
        self.ranks = R.choice([8, 16, 32])
        self.bytes = R.choice([1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20])
        self.base = (25 + self.bytes / R.uniform(120e3, 240e3)) * (1 + 0.15 * math.log2(self.ranks / 8))
        self.E = effect_of(R, intent)
        self.noise_sd = sd
        N = rng("noise", kind, seed)
        self.noise = [math.exp(N.gauss(0, sd)) for _ in range(self.n)]
        self.row_noise = None                    # None: the same noise as own
        self.nuis = [1.0] * self.n               # known to an oracle, the same for both arms
        self.add = [0.0] * self.n                # waiting, us, the same for both arms
        self.eff = [self.E] * self.n             # effect per call
        self.carry = None                        # carry(schedule) -> factor per call
        self.lost = [False] * self.n             # an untimed call
        self.quantum = 0.01                      # resolution of call_us
        self.exposure = R.uniform(0.4, 1.0)      # share of the call's time that the step waits for
        self.compute = self.base * cps * R.uniform(0.8, 4) * 1e-6
        self.sm_cost = 0.0                       # share by which the row slows compute down
        self.step_sd = R.uniform(0.003, 0.008)
        S = rng("step", kind, seed)
        self.step_noise = [math.exp(S.gauss(0, self.step_sd)) for _ in range(steps)]
        self.change = None                       # call at which the effect changes
        self.by_mean = False                     # the oracle compares means, not means of logarithms
        self.note = ""

    def transfer(self, i, row):
        noise = self.row_noise if row and self.row_noise else self.noise
        return self.base * self.nuis[i] * noise[i] * ((1 - self.eff[i]) if row else 1)

    def run(self, sched):
        """sched: list of bool (True: row). -> (transfer, call, step) lists."""
        n = len(sched)
        f = self.carry(sched) if self.carry else None
        tr = [self.transfer(i, sched[i]) * (f[i] if f else 1) for i in range(n)]
        call = [tr[i] + self.add[i] for i in range(n)]
        st = []
        for s in range(n // self.cps):
            a, b = s * self.cps, (s + 1) * self.cps
            share = sum(sched[a:b]) / self.cps
            st.append(self.compute * (1 + self.sm_cost * share) * self.step_noise[s] + self.exposure * sum(call[a:b]) * 1e-6)
        return tr, call, st

    def default_schedule(self, block):
        R, out = rng("arms", self.kind, self.seed, block), []
        while len(out) < self.n:
            first = R.random() < 0.5
            out += [first] * block + [not first] * block
        return out[:self.n]

    def oracle(self, block):
        """z of the effect with all nuisances known, from means per block, default schedule."""
        sched, by = self.default_schedule(block), {True: [], False: []}
        for a in range(0, self.n, block):
            r = [self.transfer(i, sched[a]) / (self.base * self.nuis[i]) for i in range(a, min(a + block, self.n))
                 if not self.lost[i]]
            if r:
                by[sched[a]].append(sum(r if self.by_mean else map(math.log, r)) / len(r))
        few = min(len(by[True]), len(by[False]))
        if few < 4:                              # too few blocks to know their spread
            return 0.0
        m = {k: sum(v) / len(v) for k, v in by.items()}
        se = math.sqrt(sum(sum((x - m[k]) ** 2 for x in v) / (len(v) - 1) / len(v) for k, v in by.items()))
        return (m[False] - m[True]) / se * (1 if few >= 8 else 4 / 6) if se else 0.0   # few blocks: 6 is needed, not 4

    def effects(self, a=0, b=None):
        """True effects from the two runs with one arm each, for the calls [a, b)."""
        b = self.n if b is None else b
        o, r = self.run([False] * self.n), self.run([True] * self.n)
        g = lambda k, x, y: 1 - sum(r[k][x:y]) / sum(o[k][x:y])
        return g(0, a, b), g(1, a, b), g(2, a // self.cps, b // self.cps)

    def truth(self, block):
        tr, call, step = self.effects()
        planted = self.planted if hasattr(self, "planted") else sum(self.eff) / self.n
        z = self.oracle(block)
        zs = step / (self.step_sd * 2 / math.sqrt(self.steps))
        parts = [dict(name="whole", first=0, end=self.n, call_effect=planted, step_effect=step)]
        if self.change is not None:
            parts = []
            for name, a, b in (("before", 0, self.change), ("after", self.change, self.n)):
                parts.append(dict(name=name, first=a, end=b, call_effect=sum(self.eff[a:b]) / (b - a),
                                  step_effect=self.effects(a, b)[2]))
        for p in parts:
            p["class"] = classify(p["call_effect"])
            p["step_class"] = "worse" if p["step_effect"] <= STEP_BAD else "better" if p["step_effect"] >= -STEP_BAD else "neutral"
            trap = p["class"] == "better" and p["step_class"] == "worse"
            dec = (abs(z) >= DECIDABLE_Z and not trap) or (trap and abs(zs) >= DECIDABLE_Z) or self.change is not None
            p["decidable"] = dec
            p["must"], p["verdicts"] = must(p["class"], p["step_class"], dec)
            if p["class"] == "better" and call < BETTER and self.change is None and p["must"] == "use":
                p["verdicts"]["leave"] = "undecided"   # waiting hides the gain from whoever times whole calls
        last = parts[-1]
        return dict(kind=self.kind, seed=self.seed, intent=self.intent, call_effect=planted,
                    realised=dict(transfer=tr, call_with_waits=call, step=step), step_effect=step,
                    **{"class": last["class"]}, step_class=last["step_class"], must=last["must"], verdicts=last["verdicts"],
                    decidable=last["decidable"], oracle_z=z, oracle_step_z=zs, noise_sd=self.noise_sd,
                    change_at_call=self.change, grace_calls=None if self.change is None else self.n // 10,
                    parts=parts, note=self.note)


def classify(e):
    return "better" if e >= BETTER else "worse" if e <= -BETTER else "neutral" if abs(e) < NEUTRAL else "grey"


def must(cls, step_cls, decidable):
    """-> (the decision, verdict for each decision)"""
    if cls == "better" and step_cls != "worse":
        if not decidable:
            return "open", dict(use="right", open="right", leave="undecided")
        return "use", dict(use="right", open="undecided", leave="wrong: missed")
    if cls == "worse" or step_cls == "worse":
        v = dict(use="wrong: harmful", open="undecided" if decidable else "right", leave="right")
        if cls == "neutral":
            v["open"] = "right"
        return "leave" if decidable and cls != "neutral" else "open", v
    if cls == "neutral":
        return "open", dict(use="wrong: no gain", open="right", leave="right")
    return "open", dict(use="right", open="right", leave="right")


def ar1(R, n, rho, sd):
    x, out, k = R.gauss(0, sd), [], sd * math.sqrt(1 - rho * rho)
    for _ in range(n):
        out.append(math.exp(x))
        x = rho * x + R.gauss(0, k)
    return out


def main(kinds, default_steps=200):
    p = argparse.ArgumentParser(description="Planted jobs: truth first.")
    p.add_argument("--kind", choices=sorted(kinds))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json", action="store_true", help="print JSON (always so)")
    p.add_argument("--intent", choices=INTENTS, help="override the intent of this seed")
    p.add_argument("--blocks", type=int, default=16, help="calls per block of the default schedule")
    p.add_argument("--schedule", help="- or FILE: JSON list of own/row, one per call; shorter than the job: its first calls only")
    p.add_argument("--data-only", action="store_true", help="leave out the truth, the kind and the seed")
    p.add_argument("--truth-only", action="store_true")
    p.add_argument("--list", action="store_true", help="print the kinds")
    a = p.parse_args()
    if a.list:
        for k in sorted(kinds):
            print("%-20s %s" % (k, kinds[k].__doc__))
        return 0
    if not a.kind:
        p.error("--kind is required")
    j = build(kinds, a.kind, a.seed, a.intent)
    sched = None
    if a.schedule:
        with (sys.stdin if a.schedule == "-" else open(a.schedule)) as f:
            s = json.load(f)
        if not isinstance(s, list) or any(x not in ("own", "row") for x in s):
            sys.exit("planted_jobs: schedule: expected a JSON list of \"own\" and \"row\"")
        if len(s) > j.n:
            sys.exit("planted_jobs: schedule: expected at most %d calls, found %d" % (j.n, len(s)))
        sched = [x == "row" for x in s]
    out = {}
    if not a.data_only:
        out["truth"] = j.truth(a.blocks)
    if not a.truth_only:
        out["job"] = data(j, sched if sched is not None else j.default_schedule(a.blocks), a.data_only)
    json.dump(out, sys.stdout)
    print()
    return 0


def build(kinds, kind, seed, intent=None):
    return kinds[kind](kind, seed, intent or intent_of(kind, seed))


def data(j, sched, blind=False):
    tr, call, st = j.run(sched)
    d = {} if blind else dict(kind=j.kind, seed=j.seed)
    d.update(message_bytes=j.bytes, ranks=j.ranks, calls_per_step=j.cps, planned_calls=j.n, steps=[])
    t = 0.0
    for s in range((len(sched) + j.cps - 1) // j.cps):
        r = range(s * j.cps, min((s + 1) * j.cps, len(sched)))
        step = round(st[s], 9) if s < len(st) else None   # an unfinished step has no time
        d["steps"].append(dict(step=s, t_s=round(t, 6), step_s=step, calls=[
            dict(arm="row" if sched[i] else "own",
                 call_us=None if j.lost[i] else round(max(j.quantum, round(call[i] / j.quantum) * j.quantum), 3)) for i in r]))
        t += step or 0
    return d
