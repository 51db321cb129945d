# SPDX-License-Identifier: Apache-2.0
"""A communicator made without waiting for it (blocking=0), which PyTorch polls."""
import os

os.environ["TORCH_NCCL_USE_COMM_NONBLOCKING"] = "1"

import torch.distributed as dist

from common import finish, say, start, value

start()
x = value(100)
dist.all_reduce(x)
say("sum", x)
group = dist.new_group(group_desc="second")
dist.all_reduce(x, group=group)
say("sum", x)
finish()
