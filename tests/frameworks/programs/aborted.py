# SPDX-License-Identifier: Apache-2.0
"""One rank leaves before the second collective; the other's times out and the watchdog aborts the communicator and the process."""
import datetime
import os
import time

import torch
import torch.distributed as dist

from common import device, rank, say, value

torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device, timeout=datetime.timedelta(seconds=4))
x = value(10)
dist.all_reduce(x)
say("sum", x)
if rank == 1:
    time.sleep(8)
    os._exit(3)
dist.all_reduce(x)
torch.cuda.synchronize()
say("not reached")
