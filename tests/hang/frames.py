# SPDX-License-Identifier: Apache-2.0
"""Threads in known functions, until standard input ends; for each line of it what the interpreter itself says they are in: frames.py"""
import json
import sys
import threading
import time

ready = threading.Barrier(6)
gate = threading.Lock()
gate.acquire()


def asleep():
    ready.wait()
    time.sleep(1e6)  # asleep


def in_c():
    ready.wait()
    with gate:  # in C
        pass


def numbers():
    ready.wait()
    yield 1
    gate.acquire()  # in a generator
    yield 2


def consume():
    return sum(x for x in
               numbers())  # over two lines


def deep(n):
    if n:
        return deep(n - 1)  # deeper
    ready.wait()
    return gate.acquire()  # at the bottom


class Größe:
    def messen(self):
        ready.wait()
        (lambda: gate.acquire())()  # in a lambda


def look():
    """Of each other thread its number and its frames, innermost first."""
    number, stacks = {t.ident: t.native_id for t in threading.enumerate()}, []
    for ident, f in sys._current_frames().items():
        frames = []
        while f and ident != threading.get_ident():
            frames.append("%s:%d %s" % (f.f_code.co_filename, f.f_lineno, f.f_code.co_name))
            f = f.f_back
        if frames:
            stacks.append([number[ident], frames])
    return stacks


def read_line():
    return sys.stdin.readline()  # in main


def main():
    for f in asleep, in_c, consume, lambda: deep(100), Größe().messen:
        threading.Thread(target=f, daemon=True).start()
    ready.wait()
    print("ready", flush=True)
    while read_line():  # from main
        print(json.dumps(look()), flush=True)


main()  # the program
