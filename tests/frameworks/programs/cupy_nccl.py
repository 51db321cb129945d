# SPDX-License-Identifier: Apache-2.0
"""CuPy's bindings of NCCL on PyTorch's tensors and streams. CuPy's own arrays stop earlier: it brings CUDA's runtime inside."""
import torch
import torch.distributed as dist
from cupy_backends.cuda.api import runtime
from cupy_backends.cuda.libs import nccl

from common import device, rank, ranks, say, stops, value

torch.cuda.set_device(device)
dist.init_process_group("gloo")
unique = [nccl.get_unique_id() if rank == 0 else None]
dist.broadcast_object_list(unique, src=0)
comm = nccl.NcclCommunicator(ranks, unique[0], rank)
stream = torch.cuda.Stream()
x, y, out = value(256), value(64), value(64 * ranks, 0)
torch.cuda.synchronize()
comm.allReduce(x.data_ptr(), x.data_ptr(), 256, nccl.NCCL_FLOAT, nccl.NCCL_SUM, stream.cuda_stream)
comm.allGather(y.data_ptr(), out.data_ptr(), 64, nccl.NCCL_FLOAT, stream.cuda_stream)
stream.synchronize()
say("allReduce", x)
say("allGather", sorted(set(out.cpu().tolist())))
nccl.groupStart()
comm.send(y.data_ptr(), 64, nccl.NCCL_FLOAT, (rank + 1) % ranks, stream.cuda_stream)
comm.recv(out.data_ptr(), 64, nccl.NCCL_FLOAT, (rank - 1) % ranks, stream.cuda_stream)
nccl.groupEnd()
comm.bcast(x.data_ptr(), 256, nccl.NCCL_FLOAT, 0, stream.cuda_stream)
stream.synchronize()
say("ring", out[:64])
pair = comm.commSplit(rank // 2, rank)
pair.reduceScatter(x.data_ptr(), y.data_ptr(), 64, nccl.NCCL_FLOAT, nccl.NCCL_SUM, stream.cuda_stream)
stream.synchronize()
say("pair", y)
pair.destroy()
comm.destroy()
try:
    say(f"CuPy sees {runtime.getDeviceCount()} devices")
except runtime.CUDARuntimeError as e:
    stops(f"CuPy's arrays: its runtime says {str(e).split(':')[0]}: it asks the driver for tables of functions that no header has")
dist.destroy_process_group()
