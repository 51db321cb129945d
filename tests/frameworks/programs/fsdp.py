# SPDX-License-Identifier: Apache-2.0
"""FSDP 2 (fully_shard, per layer) and FSDP 1, three steps each."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from common import device, finish, ranks, say, start

start()
mesh = init_device_mesh("cuda", (ranks,), mesh_dim_names=("dp",))
layers = [torch.nn.Linear(64, 64) for _ in range(4)]
model = torch.nn.Sequential(*layers).to(device)
for layer in layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.zeros(8, 64).to(device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
say("fully_shard", sum(p.to_local().numel() for p in model.parameters()))
model = FullyShardedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)).to(device), device_id=device)
for _ in range(3):
    model(torch.zeros(8, 64).to(device)).sum().backward()
say("FullyShardedDataParallel", sum(p.numel() for p in model.parameters()))
finish()
