# SPDX-License-Identifier: Apache-2.0
"""What PyTorch gathers into one group of NCCL's: its coalescing manager over each kind it takes, functional collectives, lists, uneven parts."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from common import device, finish, rank, ranks, say, start, value

start()
group = dist.group.WORLD
sizes = (11, 12, 13)
with dist._coalescing_manager(device=device):
    xs = [value(n) for n in sizes]
    for x in xs:
        dist.all_reduce(x)
say("all_reduce", [x.cpu()[0].item() for x in xs])
with dist._coalescing_manager(device=device, async_ops=True) as manager:
    outs = [value(n * ranks, 0) for n in sizes]
    for n, out in zip(sizes, outs):
        dist.all_gather_into_tensor(out, value(n))
manager.wait()
say("all_gather_into_tensor", [sorted(set(out.cpu().tolist())) for out in outs])
with dist._coalescing_manager(device=device, async_ops=True) as manager:
    outs = [value(n, 0) for n in sizes]
    for n, out in zip(sizes, outs):
        dist.reduce_scatter_tensor(out, value(n * ranks))
manager.wait()
say("reduce_scatter_tensor", [out.cpu()[0].item() for out in outs])
with dist._coalescing_manager(device=device, async_ops=True) as manager:
    got = value(17, 0)
    dist.isend(value(17), (rank + 1) % ranks)
    dist.irecv(got, (rank - 1) % ranks)
manager.wait()
say("isend, irecv", got)
xs = functional.all_reduce_coalesced([value(n) for n in sizes], "sum", group)
say("functional all_reduce", [functional.wait_tensor(x).cpu()[0].item() for x in xs])
xs = functional.all_gather_into_tensor_coalesced([value(n) for n in sizes], group)
say("functional all_gather", [sorted(set(functional.wait_tensor(x).cpu().tolist())) for x in xs])
parts = [value(5 + i, 0) for i in range(ranks)]
dist.all_gather(parts, value(5 + rank))  # uneven: a broadcast for each rank, in one group
say("uneven all_gather", [p.cpu()[0].item() for p in parts])
out = value(3 + rank, 0)
dist.reduce_scatter(out, [value(3 + i) for i in range(ranks)])
say("uneven reduce_scatter", out)
out = value(sum(2 + i for i in range(ranks)), 0)
dist.all_to_all_single(out, value((2 + rank) * ranks), [2 + i for i in range(ranks)], [2 + rank] * ranks)
say("uneven all_to_all", sorted(set(out.cpu().tolist())))
finish()
