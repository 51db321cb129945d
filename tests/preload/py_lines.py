# SPDX-License-Identifier: Apache-2.0
"""Lines of code as we read them, against the interpreter's own: every instruction of some of its modules and of what is below, which has
jumps back, long distances, lines that nobody wrote. py_lines.py LIBRARY"""
import ctypes
import glob
import os
import random
import sys
import sysconfig
import types

ours = ctypes.CDLL(sys.argv[1]).py_line
ours.argtypes = ctypes.c_void_p, ctypes.c_int
theirs = ctypes.pythonapi.PyCode_Addr2Line
theirs.argtypes = ctypes.py_object, ctypes.c_int
assert ours(None, 0) == 0, "there is no such interpreter"
tried = 0


def each(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from each(c)


def check(text, name):
    global tried
    for code in each(compile(text, name, "exec")):
        for at in range(-2, len(code.co_code), 2):
            want, got = theirs(code, at), ours(id(code), at)
            tried += 1
            assert got == max(want, 0), "%s, %s at %d: %d, not %d" % (name, code.co_name, at, got, want)


check("def f(x):\n" + "\n" * 3000 + "    y = (x +\n" + "\n" * 200 + " 1)\n    while y:\n        with x:\n            y -= g(\n" +
      "\n" * 700 + "x, y)\n    return [\n\ny for y in\n\n\nx]\n", "far")
check("async def f(x):\n    async with x:\n        async for y in x:\n            try:\n                await y\n" +
      "            except (ValueError, KeyError) as e:\n                raise\n            finally:\n                x = lambda: (yield)\n", "async")
check("x = 1\n" + "x += 1; y = {%s}\n" % ", ".join("%d: '%s'" % (i, "w" * 70) for i in range(300)), "wide")
files = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))
for name in random.Random(1).sample(files, 8):
    with open(name, "rb") as f:
        check(f.read(), name)
print("%d instructions" % tried)
