#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted jobs of other kinds. planted_jobs.py --kind K --seed S --json; --list prints the kinds."""
import math, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs_engine import Job, ar1, main, rng


def plain7(kind, seed, intent):
    """lognormal noise of 7 % per call"""
    return Job(kind, seed, intent, 220, 8, 0.07)


def throttle_saw(kind, seed, intent):
    """periodic throttling: a sawtooth of 8 to 25 % whose period is close to two blocks of 16"""
    j = Job(kind, seed, intent, 260, 8, 0.03)
    R = rng("saw", kind, seed)
    d, T, ph = R.uniform(0.08, 0.25), R.uniform(30.5, 33.5), R.uniform(0, 32)
    j.nuis = [1 + d * (((i + ph) / T) % 1) for i in range(j.n)]
    return j


def periodic_tenant(kind, seed, intent):
    """another tenant on a timer: 16 calls slow, 16 calls normal, in phase with turns of 16 for most of the job"""
    j = Job(kind, seed, intent, 240, 8, 0.03)
    R = rng("per", kind, seed)
    f, ph = R.uniform(1.08, 1.3), R.choice([0, 16])
    jump = int(j.n * R.uniform(0.7, 0.95))
    j.nuis = [f if ((i + ph + (5 if i > jump else 0)) // 16) % 2 else 1 for i in range(j.n)]
    return j


def row_tail(kind, seed, intent):
    """better: the row's median is 5 % faster, but 1 row call in 12 takes 2.5 to 4 times as long, so its mean is slower"""
    j = Job(kind, seed, intent, 300, 8, 0.02)
    R = rng("rt", kind, seed)
    if intent == "better":
        med, f = R.uniform(0.04, 0.07), R.uniform(2.5, 4)
        j.eff = [med] * j.n
        j.row_noise = [x * (f if R.random() < 1 / 12 else 1) for x in j.noise]
        own = sum(j.noise)
        j.planted = 1 - (1 - med) * sum(j.row_noise) / own
        j.note = "the median says better, the mean (what the job pays) says worse"
    j.by_mean = True
    return j


def bimodal_arm(kind, seed, intent):
    """two modes 30 % apart; the row changes how often the slow mode occurs, not the modes"""
    j = Job(kind, seed, intent, 300, 8, 0.02)
    R, g = rng("ba", kind, seed), 1.3
    po = R.uniform(0.4, 0.6)
    # E is the wanted effect on the mean: 1 + (g-1) pr = (1-E)(1 + (g-1) po)
    pr = min(0.97, max(0.03, ((1 - max(-0.1, min(0.1, j.E))) * (1 + (g - 1) * po) - 1) / (g - 1)))
    u = [R.random() for _ in range(j.n)]
    # stratified, so that the shares are exact up to 1 call in n
    order = sorted(range(j.n), key=lambda i: u[i])
    ro, rr = [1.0] * j.n, [1.0] * j.n
    for k, i in enumerate(order):
        ro[i] = g if k < po * j.n else 1.0
        rr[i] = g if k < pr * j.n else 1.0
    base = j.noise
    j.noise = [b * x for b, x in zip(base, ro)]
    j.row_noise = [b * x for b, x in zip(base, rr)]
    j.eff = [0.0] * j.n
    j.planted = 1 - sum(j.row_noise) / sum(j.noise)
    j.by_mean = True
    return j


def carryover(kind, seed, intent):
    """the first 1 to 4 calls after each switch are 1.2 to 1.8 times slower, in either arm"""
    j = Job(kind, seed, intent, 240, 8, 0.03)
    R = rng("carry", kind, seed)
    k, f = R.randint(1, 4), R.uniform(1.2, 1.8)

    def carry(s):
        out, last = [], 0
        for i, x in enumerate(s):
            if i and s[i - 1] != x:
                last = k
            out.append(f if last > 0 else 1.0)
            last -= 1
        return out
    j.carry = carry
    return j


def carry_row(kind, seed, intent):
    """a row block slows the first 4 to 8 own calls after it by 10 to 20 %: own looks slower than it is"""
    j = Job(kind, seed, intent, 300, 8, 0.02)
    if intent == "better":
        j.note = "the effect is true without the carry-over"
    R = rng("cr", kind, seed)
    k, f = R.randint(4, 8), R.uniform(1.1, 1.2)

    def carry(s):
        out, since = [], 99
        for x in s:
            since = 0 if x else since + 1
            out.append(f if not x and since <= k else 1.0)
        return out
    j.carry = carry
    return j


def second_half(kind, seed, intent):
    """an effect in the second half only (better: a gain that begins; worse: a loss; neutral: a loss that turns into a gain)"""
    j = Job(kind, seed, intent, 260, 8, 0.03)
    R = rng("half", kind, seed)
    j.change = int(j.n * R.uniform(0.4, 0.55)) // j.cps * j.cps
    b = {"better": R.uniform(0.05, 0.15), "worse": -R.uniform(0.05, 0.15), "neutral": R.uniform(0.06, 0.12)}[intent]
    a = -R.uniform(0.05, 0.12) if intent == "neutral" else R.uniform(-0.004, 0.004)
    j.eff = [a if i < j.change else b for i in range(j.n)]
    return j


def hidden_step_cost(kind, seed, intent):
    """calls neutral or faster, steps 1 to 4 % slower, and the steps' own noise is large (2 %)"""
    j = Job(kind, seed, intent, 400, 8, 0.03)
    j.step_sd = 0.02
    S = rng("step", kind, seed)
    j.step_noise = [math.exp(S.gauss(0, j.step_sd)) for _ in range(j.steps)]
    comm = j.exposure * j.base * j.cps * 1e-6
    j.sm_cost = (rng("sm", kind, seed).uniform(0.01, 0.04) * (j.compute + comm) + max(0.0, j.E) * comm) / j.compute
    return j


def random_walk(kind, seed, intent):
    """the base time is a random walk (0.4 to 0.8 % per call, held within a factor of 1.6)"""
    j = Job(kind, seed, intent, 300, 8, 0.03)
    R = rng("walk", kind, seed)
    x, s, out = 0.0, R.uniform(0.004, 0.008), []
    for _ in range(j.n):
        x = max(-0.47, min(0.47, x + R.gauss(0, s)))
        out.append(math.exp(x))
    j.nuis = out
    return j


def late_bursts(kind, seed, intent):
    """one rank late in bursts of 20 to 100 calls that cover half of the job, waiting 2 to 10 transfers"""
    j = Job(kind, seed, intent, 300, 8, 0.02)
    R = rng("burst", kind, seed)
    i, on = 0, True
    while i < j.n:
        k, m = R.randint(20, 100), R.uniform(2, 10) * j.base
        for q in range(i, min(j.n, i + k)):
            if on:
                j.add[q] = R.expovariate(1 / m)
        i, on = i + k, not on
    j.note = "call_effect is the effect on the transfer; the waiting is the same for both arms"
    return j


def coarse_clock(kind, seed, intent):
    """short calls (12 to 25 us) on a clock of 1 us: many ties"""
    j = Job(kind, seed, intent, 240, 8, 0.04)
    R = rng("clk", kind, seed)
    j.bytes, j.quantum = 16384, 1.0
    j.compute *= 18 / j.base
    j.base = R.uniform(12, 25)
    return j


def sampled(kind, seed, intent):
    """7 of 8 calls are not timed (call_us null)"""
    j = Job(kind, seed, intent, 500, 8, 0.04)
    R = rng("lost", kind, seed)
    j.lost = [R.random() > 1 / 8 for _ in range(j.n)]
    return j


def mixed_sizes(kind, seed, intent):
    """the size class holds sizes from 1 to 1.9 times: 3 sizes in a fixed order of 3 calls, unknown to the reader"""
    j = Job(kind, seed, intent, 220, 8, 0.03)
    R = rng("mix", kind, seed)
    f = [1.0, R.uniform(1.2, 1.5), R.uniform(1.6, 1.9)]
    j.nuis = [f[i % 3] for i in range(j.n)]
    return j


def few_turns(kind, seed, intent):
    """3 to 5 pairs of blocks with a slow trend between them (AR(1) of 0.995, 5 to 8 %): mostly too little to decide"""
    R = rng("few", kind, seed)
    sd = R.uniform(0.05, 0.08)
    j = Job(kind, seed, intent, 4 * R.randint(3, 5), 8, sd)
    j.noise = ar1(R, j.n, 0.995, sd)
    return j


KINDS = {f.__name__: f for f in (plain7, throttle_saw, periodic_tenant, row_tail, bimodal_arm, carryover, carry_row, second_half,
                                 hidden_step_cost, random_walk, late_bursts, coarse_clock, sampled, mixed_sizes, few_turns)}
SEEDS = list(range(7001, 7013))
if __name__ == "__main__":
    sys.exit(main(KINDS))
