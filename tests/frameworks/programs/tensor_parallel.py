# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel (DTensor) inside data parallel: a mesh of 2 by ranks/2, named dimensions."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import device, finish, ranks, say, start, value

start()
mesh = init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).to(device)
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
for _ in range(3):
    model(torch.zeros(4, 32).to(device)).sum().backward()
say("parallelized", sum(p.to_local().numel() for p in model.parameters()))
fully_shard(model, mesh=mesh["dp"])
model(torch.zeros(4, 32).to(device)).sum().backward()
x = distribute_tensor(torch.arange(64.0).to(device), mesh["tp"], [Shard(0)])
say("full_tensor", x.full_tensor().cpu().sum().item())
finish()
