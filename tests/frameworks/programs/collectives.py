# SPDX-License-Identifier: Apache-2.0
"""Every collective of torch.distributed, with the values it must give; async_op, batched sends, a coalescing manager."""
import torch
import torch.distributed as dist

from common import device, finish, rank, ranks, say, start, value

start(eager=False)
x = value(1000)
for _ in range(3):
    dist.all_reduce(x)
say("all_reduce", x)
for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT):
    x = value(100)
    dist.all_reduce(x, op=op)
    say(f"all_reduce {op}", x)
out = value(200 * ranks, 0)
dist.all_gather_into_tensor(out, value(200))
say("all_gather_into_tensor", sorted(set(out.cpu().tolist())))
out = value(300, 0)
dist.reduce_scatter_tensor(out, value(300 * ranks))
say("reduce_scatter_tensor", out)
parts = [value(50, 0) for _ in range(ranks)]
dist.all_gather(parts, value(50))
say("all_gather", [p.cpu()[0].item() for p in parts])
x = value(70)
dist.broadcast(x, 0)
say("broadcast", x)
x = value(80)
dist.reduce(x, 0)
say("reduce", x if rank == 0 else None)
out = value(16 * ranks, 0)
dist.all_to_all_single(out, value(16 * ranks))
say("all_to_all_single", sorted(set(out.cpu().tolist())))
parts = [value(12, 0) for _ in range(ranks)]
dist.all_to_all(parts, [value(12) for _ in range(ranks)])
say("all_to_all", [p.cpu()[0].item() for p in parts])
parts = [value(21, 0) for _ in range(ranks)] if rank == 0 else None
dist.gather(value(21), parts, dst=0)
say("gather", [p.cpu()[0].item() for p in parts] if parts else None)
x = value(31, 0)
dist.scatter(x, [value(31, 7) for _ in range(ranks)] if rank == 0 else None, src=0)
say("scatter", x)

if rank == 0:
    dist.send(value(90), 1)
elif rank == 1:
    x = value(90, 0)
    dist.recv(x, 0)
    say("recv", x)
x = value(33, 0)
batch = [dist.P2POp(dist.isend, value(33), (rank + 1) % ranks), dist.P2POp(dist.irecv, x, (rank - 1) % ranks)]
for work in dist.batch_isend_irecv(batch):
    work.wait()
say("batch_isend_irecv", x)

with dist._coalescing_manager(device=device, async_ops=True) as manager:
    xs = [value(11 + i) for i in range(4)]
    for x in xs:
        dist.all_reduce(x)
manager.wait()
say("coalesced", [x.cpu()[0].item() for x in xs])
work = dist.all_reduce(x := value(40), async_op=True)
work.wait()
say("async_op", x)
dist.barrier()
finish()
