# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel: two bucket sizes, no_sync and accumulated gradients, parameters that a step leaves out."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common import device, finish, rank, say, start, value

start()
x = value(1024)
dist.all_reduce(x)
say("sum", x)
for megabytes in (25, 0.02):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
    ddp = DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=megabytes)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(3):
        with ddp.no_sync():
            ddp(torch.zeros(8, 64).to(device)).sum().backward()
        ddp(torch.zeros(8, 64).to(device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
say("trained", sum(p.numel() for p in model.parameters()))


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.used(x)


partly = DistributedDataParallel(Halves().to(device), device_ids=[device.index], find_unused_parameters=True)
partly(torch.zeros(4, 16).to(device)).sum().backward()
dist.barrier()
finish()
