# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own Python bindings of NCCL (nccl4py, the lower half), which open the library themselves, on PyTorch's tensors and streams."""
import torch
import torch.distributed as dist
from nccl.bindings import nccl

from common import device, rank, ranks, say, value

torch.cuda.set_device(device)
dist.init_process_group("gloo")
unique = [bytes(nccl.get_unique_id()) if rank == 0 else None]
dist.broadcast_object_list(unique, src=0)
FLOAT, SUM = nccl.DataType.Float32, nccl.RedOp.Sum
comm = nccl.comm_init_rank(ranks, nccl.UniqueId.from_buffer(unique[0]), rank)
stream = torch.cuda.Stream().cuda_stream
x, y, out = value(256), value(64), value(64 * ranks, 0)
torch.cuda.synchronize()
nccl.all_reduce(x.data_ptr(), x.data_ptr(), 256, FLOAT, SUM, comm, stream)
torch.cuda.synchronize()
say("all_reduce", x)
nccl.all_gather(y.data_ptr(), out.data_ptr(), 64, FLOAT, comm, stream)
torch.cuda.synchronize()
say("all_gather", sorted(set(out.cpu().tolist())))
nccl.group_start()
nccl.send(y.data_ptr(), 64, FLOAT, (rank + 1) % ranks, comm, stream)
nccl.recv(out.data_ptr(), 64, FLOAT, (rank - 1) % ranks, comm, stream)
nccl.group_end()
torch.cuda.synchronize()
say("ring", out[:64])
nccl.comm_destroy(comm)
dist.destroy_process_group()
