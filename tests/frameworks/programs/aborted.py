# SPDX-License-Identifier: Apache-2.0
"""One rank leaves before the second collective; the other's times out and the watchdog aborts the communicator and the process."""
import datetime
import os
import time

import torch
import torch.distributed as dist

from torch.distributed.distributed_c10d import _set_pg_timeout

from common import rank, say, start, value

start()
x = value(10)
dist.all_reduce(x)
torch.cuda.synchronize()
say("sum", x)
if rank == 1:
    time.sleep(3600)  # the other's end is this one's
    os._exit(3)
_set_pg_timeout(datetime.timedelta(seconds=4))  # only now: until here a rank may be as slow as it likes
dist.all_reduce(x)
torch.cuda.synchronize()
say("not reached")
