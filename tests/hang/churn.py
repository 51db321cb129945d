# SPDX-License-Identifier: Apache-2.0
"""Threads that never stand still for long: functions that come and go, code that is made and thrown away, naps here and there. churn.py"""
import threading
import time


def made(n):
    """A function g_N in a file N whose only lines are N + 1 and N + 2, called and forgotten."""
    name = {}
    exec(compile("\n" * n + "def g_%d():\n return len([%d for i in (1, 2, 3)])\n" % (n, n), "file_%d" % n, "exec"), name)
    return name["g_%d" % n]()  # calls g_


def leaf(n):
    total = 0
    for i in range(n % 5):
        total += i
    return total


def left(n):
    return leaf(n) + 1


def right(n):
    if n % 3:
        return left(n)
    return leaf(n)


def several(n):
    return [right(n) for n in range(n % 4)] and sum(left(i) for i in range(3))


def functions():
    n = 0
    while True:
        n += 1
        right(n)
        several(n)
        left(n)


def code():
    n = 0
    while True:
        n += 1
        made(n % 50)


def nap():
    time.sleep(0.0003)


def here():
    nap()


def there():
    return nap()


def naps():
    while True:
        here()
        there()


threading.Thread(target=naps, daemon=True).start()
threading.Thread(target=functions, daemon=True).start()
print("ready", flush=True)
code()
