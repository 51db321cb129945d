# SPDX-License-Identifier: Apache-2.0
"""What plugins of NCCL's look on at and choose for (plugins.py): each collective in four sizes, sends, and all-reduces in one group."""
import glob
import os
import time

import torch
import torch.distributed as dist

from common import device, finish, rank, ranks, say, start, value

start()
n_events = 0  # events of communication that a profiler gets
for n in (64, 4096, 65536, 262144):
    x = value(n)
    dist.all_reduce(x)
    out = value(n * ranks, 0)
    dist.all_gather_into_tensor(out, value(n))
    dist.reduce_scatter_tensor(y := value(n, 0), out)
    dist.broadcast(z := value(n), 0)
    dist.reduce(value(n), 0)
    n_events += 5
    say(f"{n} elements: {[t.cpu()[-1].item() for t in (x, out, y, z)]}")
x = value(33, 0)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, value(33), (rank + 1) % ranks), dist.P2POp(dist.irecv, x, (rank - 1) % ranks)]):
    work.wait()
with dist._coalescing_manager(device=device):
    for n in (100, 1000, 10000):
        dist.all_reduce(value(n))
n_events += 2 + 3
torch.cuda.synchronize()
say("ring", x)
folder = os.environ.get("NCCL_INSPECTOR_DUMP_DIR")
until = time.monotonic() + 300
while folder:  # Inspector writes now and then, and not what is left at the end
    lines = sum(len(open(path).readlines()) for path in glob.glob(f"{folder}/*-pid{os.getpid()}.log"))
    if lines >= n_events or time.monotonic() > until:
        break
    time.sleep(0.01)
finish()
