# SPDX-License-Identifier: Apache-2.0
"""Groups made of a communicator that is there (eager: ncclCommSplit) and at their first call (lazy), by new_group, split_group and a mesh; subgroups of one
rank, and ranks that are in none."""
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from common import rank, ranks, say, start, value

store = None
for eager in (True, False):
    how = "eager" if eager else "lazy"
    start(eager=eager, store=store)
    store = store or dist.PrefixStore("again", _get_default_store())
    x = value(100)
    dist.all_reduce(x)
    say(f"{how}, all", x)
    first = dist.new_group(list(range(ranks // 2)), group_desc=f"{how}_first")  # the others have no part in it
    if rank < ranks // 2:
        x = value(200)
        dist.all_reduce(x, group=first)
        say(f"{how}, first half", x)
    pairs, _ = dist.new_subgroups(2, group_desc=f"{how}_pair")
    x = value(300)
    dist.all_reduce(x, group=pairs)
    say(f"{how}, pair", x)
    single = [dist.new_group([i], group_desc=f"{how}_single") for i in range(ranks)][rank]
    x = value(400)
    dist.all_reduce(x, group=single)
    say(f"{how}, alone", x)
    if eager:
        halves = dist.split_group(split_ranks=[list(range(0, ranks, 2)), list(range(1, ranks, 2))], group_desc="eager_split")
        x = value(500)
        dist.all_reduce(x, group=halves)
        say("eager, split", x)
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()
say("done")
