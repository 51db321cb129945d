# SPDX-License-Identifier: Apache-2.0
"""Several groups: named ones, split ones, a mesh of two dimensions; the same sizes in each, so that only the group tells them apart."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from common import device, finish, rank, ranks, say, start, value

start()
halves = [dist.new_group(list(range(i, ranks, 2)), group_desc=f"half_{i}") for i in range(2)]
mesh = init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
for group in (None, halves[rank % 2], mesh.get_group("dp"), mesh.get_group("tp")):
    x = value(500)
    dist.all_reduce(x, group=group)
    say("all_reduce", x)
split = dist.split_group(split_ranks=[list(range(ranks // 2)), list(range(ranks // 2, ranks))], group_desc="split")
x = value(500)
dist.all_reduce(x, group=split)
say("split", x)
finish()
