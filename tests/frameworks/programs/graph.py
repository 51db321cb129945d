# SPDX-License-Identifier: Apache-2.0
"""All-reduces captured into a CUDA graph and replayed: NCCL is called at the capture, and moves data at each replay."""
import torch
import torch.distributed as dist

from common import finish, say, start, value

start()
x = value(1000, 1)
dist.all_reduce(x)
torch.cuda.synchronize()
x = value(1000, 1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(x)
    dist.all_reduce(x)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
say("replayed", x)
finish()
