# SPDX-License-Identifier: Apache-2.0
"""A group goes on without its last rank: shrunk while all is well, and again while a collective of it is stuck for ever."""
import time

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import SHRINK_ABORT, _get_default_store

from common import rank, ranks, say, start, value

start()
store = _get_default_store()
x = value(100)
dist.all_reduce(x)
say("all", x)
torch.cuda.synchronize()
if rank < ranks - 1:
    dist.shrink_group([ranks - 1])  # it is the default group from now on
    x = value(200)
    dist.all_reduce(x)
    say("without the last", x)
    torch.cuda.synchronize()
else:
    dist.destroy_process_group()  # up to 2.14 the others shut the old group down, and that waits for all ranks of the host
if rank < ranks - 2:
    dist.all_reduce(value(300), async_op=True)  # the last of them does not come
    dist.shrink_group([ranks - 2], shrink_flags=SHRINK_ABORT)
    x = value(400)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    say("without the last two", x)
    store.add("over", 1)
while store.add("over", 0) < ranks - 2:
    time.sleep(0.1)
say("done")
