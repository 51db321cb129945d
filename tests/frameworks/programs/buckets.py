# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with several bucket sizes, views, accumulated gradients, unused parameters and a static graph; a hook writes down each
bucket before it is reduced, and the referee looks for those sizes in what was recorded."""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from common import device, finish, reduced, say, start


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(96, 96) for _ in range(8))
        self.aside = torch.nn.Linear(96, 32)

    def forward(self, x, aside):
        for layer in self.layers:
            x = layer(x)
        return self.aside(x) if aside else x


def hook(group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    reduced(bucket.buffer())
    return allreduce_hook(group, bucket)


start()
data = torch.zeros(4, 96).to(device)
for megabytes, options in ((25, {}), (0.1, {"gradient_as_bucket_view": True}), (0.05, {"find_unused_parameters": True}),
                           (0.05, {"static_graph": True})):
    ddp = DistributedDataParallel(Net().to(device), device_ids=[device.index], bucket_cap_mb=megabytes, **options)
    ddp.register_comm_hook(None, hook)
    for step in range(3):
        aside = "find_unused_parameters" not in options or step == 1
        if "static_graph" not in options:  # which must not begin with it
            with ddp.no_sync():
                ddp(data, aside).sum().backward()
        ddp(data, aside).sum().backward()
        ddp.zero_grad()
    logged = ddp._get_ddp_logging_data()
    say(f"{megabytes} MB, {options}: {logged.get('rebuilt_bucket_sizes') or logged['bucket_sizes']}")
finish()
