# SPDX-License-Identifier: Apache-2.0
"""NCCL without the framework's process groups, as vLLM reaches it: libnccl opened by ctypes, the id sent by a group of hosts, calls on PyTorch's
tensors and streams, captured into a CUDA graph too."""
import ctypes

import torch
import torch.distributed as dist

from common import device, rank, ranks, say, value

torch.cuda.set_device(device)
dist.init_process_group("gloo")
nccl = ctypes.CDLL("libnccl.so.2")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result):
    assert result == 0, result


nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
nccl.ncclBroadcast.argtypes = nccl.ncclAllReduce.argtypes
nccl.ncclAllGather.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
nccl.ncclSend.argtypes = nccl.ncclRecv.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
version = ctypes.c_int()
check(nccl.ncclGetVersion(ctypes.byref(version)))

unique = UniqueId()
if rank == 0:
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
text = [bytes(unique.internal)] if rank == 0 else [None]
dist.broadcast_object_list(text, src=0)
ctypes.memmove(unique.internal, text[0], 128)
comm = ctypes.c_void_p()
check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank))
stream = torch.cuda.Stream()
FLOAT, SUM = 7, 0


def all_reduce(x, on):
    check(nccl.ncclAllReduce(x.data_ptr(), x.data_ptr(), x.numel(), FLOAT, SUM, comm, on.cuda_stream))


x = value(256)
all_reduce(x, stream)
stream.synchronize()
say("all_reduce", x)
out = value(64 * ranks, 0)
y = value(64)
check(nccl.ncclAllGather(y.data_ptr(), out.data_ptr(), 64, FLOAT, comm, stream.cuda_stream))
stream.synchronize()
say("all_gather", sorted(set(out.cpu().tolist())))
check(nccl.ncclBroadcast(x.data_ptr(), x.data_ptr(), 256, FLOAT, 0, comm, stream.cuda_stream))
check(nccl.ncclGroupStart())
check(nccl.ncclSend(y.data_ptr(), 64, FLOAT, (rank + 1) % ranks, comm, stream.cuda_stream))
check(nccl.ncclRecv(out.data_ptr(), 64, FLOAT, (rank - 1) % ranks, comm, stream.cuda_stream))
check(nccl.ncclGroupEnd())
stream.synchronize()
say("ring", out[:64])

x = value(256, 1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    all_reduce(x, torch.cuda.current_stream())
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
say("replayed", x)
check(nccl.ncclCommDestroy(comm))
dist.destroy_process_group()
