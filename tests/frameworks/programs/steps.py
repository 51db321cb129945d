# SPDX-License-Identifier: Apache-2.0
"""For `--cost`, by itself no check: 300 steps of training twelve layers, data-parallel with a bucket for each or fully sharded, and what they took.
The first rank writes it."""
import json
import os
import time

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from common import device, finish, rank, start

start()
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(12))).to(device)
if os.environ["STEPS_OF"] == "ddp":
    trained = DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=0.015)
else:
    for layer in model:
        fully_shard(layer)
    trained = fully_shard(model)
data = torch.zeros(4, 64).to(device)


def steps(n):
    for _ in range(n):
        trained(data).sum().backward()
        trained.zero_grad()
    torch.cuda.synchronize()


steps(20)
wall, cpu = time.monotonic(), time.process_time()
steps(300)
if rank == 0:
    with open(os.environ["STEPS_FILE"], "w") as f:
        json.dump({"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}, f)
finish()
