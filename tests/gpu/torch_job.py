# SPDX-License-Identifier: Apache-2.0
"""A PyTorch job that knows nothing of capo: data-parallel training over the nccl backend, then a captured CUDA graph.

usage: torch_job.py [--steps N] [--width N] [--ddp] [--no-graph] [--dry]     (one process per rank: tests/jobs/launch, torchrun)

Everything printed to standard output is the same in every run with as many ranks: the seed is fixed and the losses are printed
with all their bits. At the end rank 0 prints what each rank issued, `issued call=AllReduce bytes=1048576 times=20 ranks=2`,
for check_counts.py. Step times go to standard error. Without --ddp the gradients are all-reduced in flat buckets by hand, so
every NCCL call of the job is counted; with --ddp torch's DistributedDataParallel does it, through a hook that counts. With --dry (no
GPU: kernels compute nothing) values are not printed.
"""
import argparse
import collections
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats itself bit for bit only so

import torch
import torch.distributed as dist

issued = collections.Counter()


def all_reduce(tensor):
    dist.all_reduce(tensor)
    issued["AllReduce", tensor.numel() * tensor.element_size()] += 1


def average_gradients(model, ranks):
    for parameter in model.parameters():
        all_reduce(parameter.grad)
        parameter.grad /= ranks


def counting_hook(ranks, bucket):
    """What DDP does by itself, counted: one all-reduce per bucket."""
    buffer = bucket.buffer().div_(ranks)
    issued["AllReduce", buffer.numel() * buffer.element_size()] += 1
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])


def train(args, rank, ranks, device):
    torch.manual_seed(20261120)
    model = torch.nn.Sequential(torch.nn.Linear(args.width, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, 64)).to(device)
    trained = model
    if args.ddp:
        trained = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
        trained.register_comm_hook(ranks, counting_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rows = torch.Generator().manual_seed(1 + rank)
    for step in range(args.steps):
        x = torch.randn(64, args.width, generator=rows).to(device)
        y = torch.randint(64, (64,), generator=rows).to(device)
        torch.cuda.synchronize()
        begin = time.monotonic()
        loss = torch.nn.functional.cross_entropy(trained(x), y)
        optimizer.zero_grad()
        loss.backward()
        if not args.ddp:
            average_gradients(model, ranks)
        optimizer.step()
        torch.cuda.synchronize()
        if rank == 0:
            print(f"torch_job: step {step + 1} of {args.steps}: {time.monotonic() - begin:.6f} s", file=sys.stderr)
            print(f"step {step + 1}" if args.dry else f"step {step + 1} loss {loss.item().hex()}")


def captured(args, rank, device):
    """Four all-reduces recorded into a graph that is launched three times: NCCL is called four times, not twelve."""
    data = torch.ones(1 << 16, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        all_reduce(data)  # the communicator must be warm before a capture
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    data.fill_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            all_reduce(data)
            data /= dist.get_world_size()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    if rank == 0:
        print("captured 4 launched 3" + ("" if args.dry else f" sum {data.sum().item()}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--no-graph", action="store_true")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl")
    train(args, rank, ranks, device)
    if not args.no_graph:
        captured(args, rank, device)
    if rank == 0:
        for (call, size), times in sorted(issued.items()):
            print(f"issued call={call} bytes={size} times={times} ranks={ranks}")
    dist.destroy_process_group()


main()
