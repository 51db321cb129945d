# SPDX-License-Identifier: Apache-2.0
"""One rank that reaches NCCL by dlopen and calls AllReduce 20 times, half of it from a second thread: nccl_job.py LIBNCCL"""
import ctypes
import sys
import threading

nccl = ctypes.CDLL(sys.argv[1])


class Id(ctypes.Structure):
    _fields_ = [("b", ctypes.c_char * 128)]


p, n, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
nccl.ncclCommInitRank.argtypes = [p, i, Id, i]
nccl.ncclAllReduce.argtypes = [p, p, n, i, i, p, p]
nccl.ncclCommDestroy.argtypes = [p]
unique, comm, buffer = Id(), p(), (ctypes.c_char * 4096)()
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0


def work():
    for _ in range(10):
        assert nccl.ncclAllReduce(buffer, buffer, 100, 7, 0, comm, None) == 0


t = threading.Thread(target=work)
t.start()
t.join()
work()
assert nccl.ncclCommDestroy(comm) == 0
