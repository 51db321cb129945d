#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted jobs, open half. planted_jobs.py --kind K --seed S --json; --list prints the kinds."""
import math, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs_engine import Job, ar1, main, rng


def plain(sd):
    def k(kind, seed, intent):
        return Job(kind, seed, intent, 200, 8, sd)
    k.__doc__ = "lognormal noise of %g %% per call" % (100 * sd)
    return k


def heavy_tails(kind, seed, intent):
    """noise 3 %, and 1 call in 15 takes 1.3 to 20 times as long (Pareto), whatever the arm"""
    j = Job(kind, seed, intent, 200, 8, 0.03)
    R = rng("tail", kind, seed)
    j.noise = [x * (min(20, 1.3 * R.paretovariate(1.3)) if R.random() < 1 / 15 else 1) for x in j.noise]
    return j


def bimodal(kind, seed, intent):
    """two modes 12 to 40 % apart, by chance per call, whatever the arm"""
    j = Job(kind, seed, intent, 200, 8, 0.02)
    R = rng("mode", kind, seed)
    gap, p = R.uniform(1.12, 1.4), R.uniform(0.3, 0.6)
    j.nuis = [gap if R.random() < p else 1 for _ in range(j.n)]
    return j


def drift(kind, seed, intent):
    """the base time moves by 15 to 40 % over the job, up or down"""
    j = Job(kind, seed, intent, 200, 8, 0.03)
    R = rng("drift", kind, seed)
    d = R.choice([-1, 1]) * R.uniform(0.15, 0.4)
    j.nuis = [math.exp(d * i / j.n) for i in range(j.n)]
    return j


def warmup(kind, seed, intent):
    """the first 5 to 20 steps are up to 4 times slower, decaying"""
    j = Job(kind, seed, intent, 160, 8, 0.03)
    R = rng("warm", kind, seed)
    a, w = R.uniform(1, 3), R.uniform(5, 20) * j.cps / 3
    j.nuis = [1 + a * math.exp(-i / w) for i in range(j.n)]
    return j


def tenant(kind, seed, intent):
    """another tenant: 4 to 10 episodes of 10 to 120 calls, each 1.3 to 2.5 times slower"""
    j = Job(kind, seed, intent, 200, 8, 0.03)
    R = rng("tenant", kind, seed)
    for _ in range(R.randint(4, 10)):
        a, f = R.randrange(j.n), R.uniform(1.3, 2.5)
        for i in range(a, min(j.n, a + R.randint(10, 120))):
            j.nuis[i] = max(j.nuis[i], f)
    return j


def parity_effect(kind, seed, intent):
    """the effect is E + d in even steps and E - d in odd steps; 16 calls per step: alternating blocks of 16 see one parity only"""
    j = Job(kind, seed, intent, 120, 16, 0.03)
    d = rng("par", kind, seed).choice([-1, 1]) * rng("par2", kind, seed).uniform(0.06, 0.12)
    j.eff = [j.E + (d if (i // j.cps) % 2 == 0 else -d) for i in range(j.n)]
    return j


def parity_base(kind, seed, intent):
    """both arms are 6 to 15 % slower in even (or odd) steps; 16 calls per step: strict turns of 16 mistake it for an effect"""
    j = Job(kind, seed, intent, 120, 16, 0.03)
    R = rng("par", kind, seed)
    f, q = R.uniform(1.06, 1.15), R.randrange(2)
    j.nuis = [f if (i // j.cps) % 2 == q else 1 for i in range(j.n)]
    return j


def fast_call_slow_step(kind, seed, intent):
    """the row takes SMs from compute: steps get 1.5 to 6 % slower, whatever the call gains"""
    j = Job(kind, seed, intent, 240, 12 if seed % 2 else 8, 0.03)
    comm = j.exposure * j.base * j.cps * 1e-6
    want = rng("sm", kind, seed).uniform(0.015, 0.06)
    j.sm_cost = (want * (j.compute + comm) + max(0.0, j.E) * comm) / j.compute
    j.note = "calls per step is 12 for odd seeds: blocks of 16 share steps"
    return j


def autocorrelated(kind, seed, intent):
    """noise 4 to 8 % that lasts: AR(1) of 0.9 to 0.98 from call to call"""
    R = rng("ar", kind, seed)
    sd, rho = R.uniform(0.04, 0.08), R.uniform(0.9, 0.98)
    j = Job(kind, seed, intent, 400, 8, sd)
    j.noise = ar1(R, j.n, rho, sd)
    return j


def late_rank(kind, seed, intent):
    """one rank late at random: 30 to 70 % of the calls wait 1 to 6 times the transfer's time"""
    j = Job(kind, seed, intent, 300, 8, 0.02)
    R = rng("late", kind, seed)
    p, m = R.uniform(0.3, 0.7), R.uniform(1, 6) * j.base
    j.add = [R.expovariate(1 / m) if R.random() < p else 0.0 for _ in range(j.n)]
    j.note = "call_effect is the effect on the transfer; the waiting is the same for both arms"
    return j


def first_half(kind, seed, intent):
    """an effect in the first half only; better: a gain that ends; worse: a loss that ends; neutral: a gain that turns into a loss"""
    j = Job(kind, seed, intent, 240, 8, 0.03)
    R = rng("half", kind, seed)
    j.change = int(j.n * R.uniform(0.45, 0.55)) // j.cps * j.cps
    a = {"better": R.uniform(0.05, 0.15), "worse": -R.uniform(0.05, 0.15), "neutral": R.uniform(0.05, 0.12)}[intent]
    b = -R.uniform(0.05, 0.12) if intent == "neutral" else R.uniform(-0.004, 0.004)
    j.eff = [a if i < j.change else b for i in range(j.n)]
    return j


def tiny(kind, seed, intent):
    """2 to 6 blocks of 16 calls, noise 5 to 10 %, AR(1) of 0.8: mostly too little to decide"""
    R = rng("tiny", kind, seed)
    sd = R.uniform(0.05, 0.1)
    j = Job(kind, seed, intent, 2 * R.randint(2, 6), 8, sd)
    j.noise = ar1(R, j.n, 0.8, sd)
    return j


KINDS = {"plain2": plain(0.02), "plain5": plain(0.05), "plain10": plain(0.10)}
KINDS.update({f.__name__: f for f in (heavy_tails, bimodal, drift, warmup, tenant, parity_effect, parity_base,
                                      fast_call_slow_step, autocorrelated, late_rank, first_half, tiny)})
SEEDS = list(range(1, 13))
if __name__ == "__main__":
    sys.exit(main(KINDS))
