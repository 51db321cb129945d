#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""planted_job.py LIBRARY FOLDER SECONDS: one rank of the same job, in Python.

The turn, the calls and the words of the stream are planted_core.c's. Words of the host are
functions of this program, named as people name them, so that a stack tells what the rank did:
read -> load_batch, write -> save_checkpoint, burn -> compute_loss, sleep -> forward, and
    gc OBJECTS        drop so many objects that refer to each other, then gc.collect()
    litter OBJECTS    make so many and let Python collect them when it does
    evaluate MS       computes and sleeps in validate()
    log PATH BYTES    flushes a log file
"""
import ctypes
import gc
import os
import sys
import time

lib = ctypes.CDLL(sys.argv[1])
lib.pc_now.restype = ctypes.c_double
lib.pc_word.restype = ctypes.c_char_p
lib.pc_path.restype = ctypes.c_char_p
lib.pc_arg.restype = ctypes.c_double
lib.pc_open.argtypes = [ctypes.c_char_p, ctypes.c_double]
lib.pc_spent.argtypes = [ctypes.c_double]
lib.pc_begin.restype = lib.pc_spent.restype = lib.pc_act.restype = None

kept = []  # what a collection has to go through


class Sample:
    def __init__(self, other):
        self.other = other
        self.me = self


def compute_loss(ms):
    end = time.thread_time() + ms / 1e3
    total = 0
    while time.thread_time() < end:
        for i in range(300):
            total += i * i
    return total


def forward(ms):
    time.sleep(ms / 1e3)


def load_batch(path, size):
    with open(path, "rb", buffering=0) as f:
        while size > 0:
            got = f.read(min(size, 65536))
            if not got:
                break
            size -= len(got)


def save_checkpoint(path, size):
    part = b"\1" * 262144
    with open(path, "wb", buffering=0) as f:
        while size > 0:
            size -= f.write(part[:min(size, len(part))])
        os.fsync(f.fileno())


def validate(ms):
    compute_loss(min(ms, 20))
    time.sleep(max(0, ms - 20) / 1e3)


def write_log(path, size):
    with open(path, "ab", buffering=0) as f:
        f.write(b"x" * size)
        os.fsync(f.fileno())


def keep_objects(n):
    last = None
    while len(kept) < n:
        last = Sample(last)
        kept.append(last)


def collect_garbage(n):
    keep_objects(n)
    gc.collect()


def make_litter(n):
    last = None
    for _ in range(n):
        last = Sample(last)


def do(i):
    word, arg = lib.pc_word(i).decode(), lambda k: lib.pc_arg(i, k)
    path = lib.pc_path(i).decode()
    if word == "sleep":
        forward(arg(0))
    elif word == "burn":
        compute_loss(arg(0))
    elif word == "read":
        load_batch(path, int(arg(0)))
    elif word == "write":
        save_checkpoint(path, int(arg(0)))
    elif word == "log":
        write_log(path, int(arg(0)))
    elif word == "evaluate":
        validate(arg(0))
    elif word == "gc":
        collect_garbage(int(arg(0)))
    elif word == "litter":
        make_litter(int(arg(0)))
    else:
        lib.pc_act(i)


def train_step(n):
    lib.pc_begin()
    for i in range(n):
        if lib.pc_due(i):
            begin = lib.pc_now()
            do(i)
            lib.pc_spent((lib.pc_now() - begin) * 1e3)
    return lib.pc_calls()


def keep_what_the_plan_needs():
    """What gc.collect() will go through is made before the job begins."""
    with open(os.path.join(sys.argv[2], "plan")) as f:
        for line in f:
            ranks, word, *args = line.split()
            if word == "gc" and os.environ["RANK"] in ranks.split(","):
                keep_objects(int(args[0]))


def main():
    keep_what_the_plan_needs()
    lib.pc_open(sys.argv[2].encode(), float(sys.argv[3]))
    n = lib.pc_lines()
    while train_step(n):
        pass
    lib.pc_close()


main()
