#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""victim.c's plain program in Python: NCCL by dlopen, its functions by dlsym. usage: client.py LIBNCCL LIBMISHAP"""
import ctypes, mmap, os, sys, time

with open(os.environ["VICTIM_TRUTH"], "w+b") as f:
    f.truncate(32)
    page = mmap.mmap(f.fileno(), 32)
begun, ended = ctypes.c_uint64.from_buffer(page, 0), ctypes.c_uint64.from_buffer(page, 8)
mishap = ctypes.PyDLL(sys.argv[2], ctypes.RTLD_GLOBAL)  # the fake NCCL asks for one of its functions
nccl = ctypes.CDLL(sys.argv[1])
its = (ctypes.c_void_p * 4)(*(ctypes.cast(f, ctypes.c_void_p) for f in (nccl.ncclGetUniqueId, nccl.ncclCommInitRank, nccl.ncclAllReduce, nccl.ncclCommDestroy)))
mishap.mishap_begin(its)
id, comm, stream = (ctypes.c_char * 128)(), ctypes.c_void_p(), ctypes.c_void_p(0x5000)
a, b = (ctypes.c_char * 4096)(), (ctypes.c_char * 4096)()


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def call(f, *args):
    begun.value += 1
    assert f(*args) == 0, f
    ended.value += 1


assert nccl.ncclGetUniqueId(id) == 0
call(nccl.ncclCommInitRank, ctypes.byref(comm), 2, Id.from_buffer_copy(id), 0)
for i in range(2000):
    call(nccl.ncclAllReduce, a, b, ctypes.c_size_t(100), 7, 0, comm, stream)
    if i == 100:
        mishap.mishap_middle()
    if i % 500 == 499:
        try:
            time.sleep(0.002)
        except OSError:  # its clock was set while it slept
            pass
call(nccl.ncclCommDestroy, comm)
print("done python")
