# SPDX-License-Identifier: Apache-2.0
"""A rank of a PyTorch scene: scene_train.py SCENE FOLDER, under torchrun. It knows nothing of capo.

Kernels are dropped on the stand-in, so nothing here depends on a value that one computed."""
import ctypes
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER = sys.argv[2]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def write_whole(name, content):
    path = os.path.join(FOLDER, name)
    with open(path + ".%d.part" % rank, "w") as f:
        f.write(str(content))
    os.replace(path + ".%d.part" % rank, path)


def mark():
    write_whole("place.%d" % rank, os.getpid())


def until_stopped(step):
    """Rank 0 decides which turn is the last. A step waits for rank 0, so all see it in time."""
    turn, last = 0, None
    while last is None or turn <= last:
        if last is None and rank == 0 and os.path.exists(os.path.join(FOLDER, "stop")):
            write_whole("last", turn + 1)
        if last is None and os.path.exists(os.path.join(FOLDER, "last")):
            with open(os.path.join(FOLDER, "last")) as f:
                last = int(f.read())
        step(turn)
        turn += 1


def start(**options):
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device, **options)


def numbers(n=1000):
    return torch.ones(n).to(device)


def reduce_sum(n=1000, group=None):
    dist.all_reduce(numbers(n), group=group)
    torch.cuda.synchronize()


def warm_up():
    for _ in range(10):
        reduce_sum()


class Trainer:
    def __init__(self):
        layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        model = torch.nn.Sequential(*layers).to(device)
        self.model = DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=0.02)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train_step(self, turn=0):
        self.model(torch.zeros(8, 64).to(device)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        torch.cuda.synchronize()


def train_until_death(who, die):
    start()
    trainer = Trainer()
    for _ in range(5):
        trainer.train_step()
    mark()
    if rank == who:
        time.sleep(2)
        die()
    trainer.train_step()


def raise_error():
    raise RuntimeError("CUDA out of memory (planted)")


def ended_exception():
    train_until_death(1, raise_error)


def ended_exception_rank_0():
    train_until_death(0, raise_error)


def ended_sigkill():
    train_until_death(1, lambda: os.kill(os.getpid(), signal.SIGKILL))


def ended_exit():
    train_until_death(1, lambda: sys.exit(1))


def ended_segv():
    train_until_death(0, lambda: ctypes.string_at(0))


def start_named(prefix):
    """With keys of its own: by those of an earlier group a quick rank would find the old id."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), ranks, False)
    start(rank=rank, world_size=ranks, store=dist.PrefixStore(prefix, store))


def restarted():
    start_named("attempt" + os.environ["TORCHELASTIC_RESTART_COUNT"])
    warm_up()
    if rank == 1 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        sys.exit(1)
    warm_up()


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        while rank == 1 and i >= 16:  # a file system that does not answer
            time.sleep(0.1)
        return torch.zeros(64)


def hang_loader():
    start()
    loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1)
    for i, batch in enumerate(loader):
        if i == 3:
            mark()
        dist.all_reduce(batch.to(device))
        torch.cuda.synchronize()


def hang_host_loop():
    start()
    warm_up()
    mark()
    turns = 0
    while rank == 1:
        turns += 1
    reduce_sum()


def hang_skipped():
    """Rank 1 takes another branch and leaves out the all-reduce of the metric."""
    start()
    warm_up()
    mark()
    if rank != 1:
        reduce_sum(1)
    parts = [numbers(500) for _ in range(ranks)]
    dist.all_gather(parts, numbers(500))
    torch.cuda.synchronize()
    time.sleep(3600)


def hang_order():
    start()
    a, b = dist.new_group(), dist.new_group()
    for group in (a, b):
        reduce_sum(10, group)
    mark()
    for group in (b, a) if rank == 1 else (a, b):
        reduce_sum(10, group)


def hang_subgroup():
    start()
    odd, even = dist.new_group([1, 3]), dist.new_group([0, 2])
    mine = odd if rank % 2 else even
    for _ in range(5):
        reduce_sum(1000, mine)
    mark()
    if rank == 3:
        time.sleep(3600)
    reduce_sum(1000, mine)
    time.sleep(3600)


def hang_new_group_skipped():
    start()
    warm_up()
    mark()
    if rank == 2:
        time.sleep(3600)
    reduce_sum(10, dist.new_group())


def hang_count():
    start()
    warm_up()
    mark()
    reduce_sum(200000 if rank == 1 else 100000)
    time.sleep(3600)


def hang_wrong_peer():
    start()
    warm_up()
    mark()
    if rank == 0:
        dist.send(numbers(200000), 2)
    elif rank == 1:
        dist.recv(numbers(200000), 0)
    torch.cuda.synchronize()
    time.sleep(3600)


def hang_gloo():
    dist.init_process_group("gloo")
    for _ in range(5):
        dist.all_reduce(torch.ones(100))
    mark()
    if rank == 1:
        time.sleep(3600)
    dist.all_reduce(torch.ones(100))


def hang_abort():
    start()
    warm_up()
    mark()
    if rank == 1:
        dist.distributed_c10d._abort_process_group()
        time.sleep(3600)
    reduce_sum()


def hang_uneven_epoch():
    """Rank 2 has fewer batches and is at the barrier behind the epoch."""
    start()
    trainer = Trainer()
    for _ in range(10):
        trainer.train_step()
    mark()
    if rank != 2:
        trainer.train_step()
    dist.barrier()
    torch.cuda.synchronize()
    time.sleep(3600)


def slow_training(is_late):
    start()
    trainer = Trainer()

    def step(turn):
        if is_late(turn):
            time.sleep(0.3)
        trainer.train_step()

    for turn in range(25):
        step(turn)
    mark()
    until_stopped(step)


def slow_every_step():
    slow_training(lambda turn: rank == 1)


def slow_half_of_the_steps():
    slow_training(lambda turn: rank == 0 and turn % 2)


def slow_checkpoint():
    start()
    trainer = Trainer()
    for _ in range(5):
        trainer.train_step()
    mark()
    if rank == 0:
        time.sleep(6)
    for _ in range(10):
        trainer.train_step()


def healthy_ddp():
    start()
    trainer = Trainer()
    trainer.train_step()
    mark()
    until_stopped(trainer.train_step)


def healthy_pipeline():
    start()

    def step(turn):
        x = numbers(20000)
        if rank > 0:
            dist.recv(x, rank - 1)
        if rank < ranks - 1:
            dist.send(x, rank + 1)
        reduce_sum(10)

    step(0)
    mark()
    until_stopped(step)


def healthy_all_to_all():
    start()

    def step(turn):
        send = [1000 * (1 + (rank + peer) % 3) for peer in range(ranks)]
        # the matrix is symmetric: what is sent to a rank is as long as what comes from it
        dist.all_to_all_single(numbers(sum(send)), numbers(sum(send)), send, send)
        reduce_sum(10)

    step(0)
    mark()
    until_stopped(step)


def healthy_threads():
    """Each thread has a stream. On one stream the groups would wait for each other, and hang."""
    start()
    other = dist.new_group()
    reduce_sum(10, other)

    def reduce_many(n, group=None):
        torch.cuda.set_device(device)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(200):
                dist.all_reduce(numbers(n), group=group)
            torch.cuda.current_stream().synchronize()

    thread = threading.Thread(target=reduce_many, args=(100, other))
    mark()
    thread.start()
    reduce_many(200)
    thread.join()
    until_stopped(lambda turn: reduce_sum())


def healthy_again():
    """The process group is destroyed and made again."""
    for turn in range(3):
        start_named("turn%d" % turn)
        warm_up()
        if turn < 2:
            dist.destroy_process_group()
    mark()
    until_stopped(lambda turn: reduce_sum())


def healthy_accumulation():
    start()
    trainer = Trainer()
    trainer.train_step()

    def step(turn):
        with trainer.model.no_sync():
            for _ in range(3):
                trainer.model(torch.zeros(8, 64).to(device)).sum().backward()
        trainer.train_step()
        if rank == 0:
            time.sleep(0.002)  # evaluation on one rank
        reduce_sum(1)

    mark()
    until_stopped(step)


def healthy_fsdp():
    from torch.distributed.fsdp import fully_shard
    start()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).to(device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)

    def step(turn):
        model(torch.zeros(4, 64).to(device)).sum().backward()
        model.zero_grad()
        reduce_sum(10)

    step(0)
    mark()
    until_stopped(step)


globals()[sys.argv[1]]()
if dist.is_initialized():
    dist.destroy_process_group()
