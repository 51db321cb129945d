# SPDX-License-Identifier: Apache-2.0
"""One rank does not come: a monitored barrier says which, a collective of the others times out in their Python, all abort their groups and go
on with new ones."""
import datetime
import os
import re
import time

os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group, _get_default_store, _set_pg_timeout

from common import finish, rank, ranks, say, start, value

late = ranks - 1
start()
stuck = dist.new_group(group_desc="stuck")
hosts = dist.new_group(backend="gloo")
store = _get_default_store()
x = value(10)
dist.all_reduce(x, group=stuck)
say("sum", x)
dist.barrier(hosts)
_set_pg_timeout(datetime.timedelta(seconds=3), stuck)  # only now: until here a rank may be as slow as it likes
if rank != late:
    try:
        dist.monitored_barrier(hosts, timeout=datetime.timedelta(seconds=10), wait_all_ranks=True)
    except RuntimeError as e:
        if rank == 0:  # the others' clocks end with rank 0's
            say("barrier: " + re.search(r"Ranks? [\d, ]+ failed to pass", str(e))[0])
    try:
        dist.all_reduce(x, group=stuck, async_op=True).wait()  # asynchronous: else 2.14 waits for it in no call that knows of a timeout
        torch.cuda.synchronize()
        say("not reached")
    except dist.DistBackendError as e:
        say("timed out" if "timed out" in str(e).lower() or "timeout" in str(e).lower() else str(e).splitlines()[0])
    store.add("given up", 1)
else:
    store.wait(["given up"])
    while store.add("given up", 0) < ranks - 1:
        time.sleep(0.1)
_abort_process_group()
start(store=dist.PrefixStore("again", store))
x = value(20)
dist.all_reduce(x)
say("again", x)
finish()
