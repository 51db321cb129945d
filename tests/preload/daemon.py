# SPDX-License-Identifier: Apache-2.0
# A thread that is in C for long, as a framework's own is, and calls NCCL there while the interpreter ends around it.
# usage: daemon.py LIBNCCL LIBPY_LINES
import ctypes
import sys
import threading

nccl, helper = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
comms = (ctypes.c_void_p * 1)()
assert nccl.ncclCommInitAll(comms, 1, None) == 0
going = ctypes.c_int.in_dll(helper, "going")


def in_c():
    helper.calls_until_the_end(ctypes.cast(nccl.ncclAllReduce, ctypes.c_void_p), ctypes.c_void_p(comms[0]))


threading.Thread(target=in_c, daemon=True).start()
while going.value < 100:
    pass
helper.ends_late()
print("done", flush=True)
