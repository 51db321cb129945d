# SPDX-License-Identifier: Apache-2.0
"""A rank of two whose data does not come: train.py LIBCUDA LIBNCCL FOLDER. Rank 1 waits in load_batch() until FOLDER/free is there."""
import ctypes
import os
import sys
import threading
import time

cuda, nccl, folder, rank = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2]), sys.argv[3], int(os.environ["RANK"])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result):
    assert result == 0, result


def wait_for(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.25)


def load_batch():
    wait_for("free")


def prefetch():
    threading.Event().wait(600)


def join():
    unique, comm, name = UniqueId(), ctypes.c_void_p(), os.path.join(folder, "id")
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        with open(name + ".new", "wb") as f:
            f.write(bytes(unique.internal))
        os.rename(name + ".new", name)
    wait_for("id")
    with open(name, "rb") as f:
        ctypes.memmove(unique.internal, f.read(), 128)
    check(nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, rank))
    return comm


def all_reduce(buffer, comm):
    check(nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(1000), 7, 0, comm, None))
    check(cuda.cuStreamSynchronize(None))


def main():
    context, buffer = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(4000)))
    comm = join()
    threading.Thread(target=prefetch, daemon=True).start()
    for step in range(2):
        if step and rank:
            load_batch()
        all_reduce(buffer, comm)
    check(nccl.ncclCommDestroy(comm))


main()
