# SPDX-License-Identifier: Apache-2.0
"""What the programs share. They know nothing of capo. Kernels are dropped on the stand-in, so a program prints only what came by
copies and by NCCL: values that are the same in each run."""
import os

import torch
import torch.distributed as dist

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.Tensor.__repr__ = lambda self, **_: "a tensor"  # its text would be made by kernels: sizes out of what is not there


def start(eager=True, store=None, **options):
    """The default group. A second one in a process wants a @store of its own: by the first's keys a quick rank would find the old id."""
    torch.cuda.set_device(device)
    where = {"store": store, "rank": rank, "world_size": ranks} if store else {}
    dist.init_process_group("nccl", device_id=device if eager else None, **where, **options)


def value(n, of=None):
    """A tensor of this rank's number plus one, made on the host."""
    return torch.full((n,), float(rank + 1 if of is None else of)).to(device)


def say(what, x=None):
    if isinstance(x, torch.Tensor):
        x = x.cpu().flatten().tolist()
        x = x if len(set(x)) > 1 else f"{len(x)} times {x[0]}"
    # one write: what the launchers pass on is not cut into pieces
    os.write(1, f"rank {rank}: {what}{'' if x is None else ' '}{'' if x is None else x}\n".encode())


def finish():
    torch.cuda.synchronize()
    say("done")
    dist.destroy_process_group()


def reduced(x):
    """It will be all-reduced: the referee reads these lines and looks for as many calls of that size."""
    say(f"reduces {x.numel() * x.element_size()} bytes")


def stops(why):
    """As far as it goes here: the rest cannot be had without a GPU, and the table says so."""
    say(f"stops: {why}")
