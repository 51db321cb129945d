# SPDX-License-Identifier: Apache-2.0
# A program that reaches NCCL from Python: while it holds the interpreter's lock (PyDLL) and, as frameworks do, without it
# (CDLL); in the first thread and in another, from a method, a generator and a name beyond ASCII.   usage: job.py LIBNCCL
import ctypes
import sys
import threading

comm = ctypes.c_void_p()


def count(nccl, n):
    assert nccl.ncclAllReduce(None, None, ctypes.c_size_t(n), 7, 0, comm, None) == 0


class Bucket:
    def backward(self, nccl):
        count(nccl, 200)


def schritt_für_schritt(nccl):
    count(nccl, 300)
    yield 1


held = ctypes.PyDLL(sys.argv[1])
free = ctypes.CDLL(sys.argv[1])
comms = (ctypes.c_void_p * 2)()
assert held.ncclCommInitAll(comms, 2, None) == 0
comm.value = comms[1]
count(held, 100)
Bucket().backward(free)
for _ in schritt_für_schritt(free):
    pass
thread = threading.Thread(target=lambda: count(free, 400))
thread.start()
thread.join()


# As torch.distributed makes its groups: the name that the program gave is an argument of this function only.
def _new_process_group_helper(ranks, group_name, unknown=None, group_desc=None):
    def inner():
        return ranks

    made = (ctypes.c_void_p * ranks)()
    assert free.ncclCommInitAll(made, inner(), None) == 0


_new_process_group_helper(1, "7", group_desc="mesh_größe")
_new_process_group_helper(1, "8", group_desc="undefined")
_new_process_group_helper(1, "9")
print("done")
