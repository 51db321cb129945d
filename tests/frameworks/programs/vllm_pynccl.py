# SPDX-License-Identifier: Apache-2.0
"""vLLM's own way to NCCL, its unmodified PyNcclCommunicator: libnccl opened by ctypes, the id sent by a group of hosts, its collectives, gathers of
uneven parts, a batch of sends, and a CUDA graph."""
import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator

from common import device, rank, ranks, say, value

torch.cuda.set_device(device)
torch.cuda.set_stream(torch.cuda.Stream())  # vLLM notes the stream as it is set
dist.init_process_group("gloo")
comm = PyNcclCommunicator(dist.group.WORLD, device)
say("available", comm.available)


def done(what, x):
    torch.cuda.synchronize()
    say(what, x)


done("all_reduce", comm.all_reduce(value(256)))
gathered, y = value(64 * ranks, 0), value(64)
comm.all_gather(gathered, y)
done("all_gather", sorted(set(gathered.cpu().tolist())))
comm.reduce_scatter(y, gathered)
done("reduce_scatter", y)
parts = [8 * (i + 1) for i in range(ranks)]
uneven = value(sum(parts), 0)
comm.all_gatherv(uneven, value(parts[rank]), parts)
done("all_gatherv", sorted(set(uneven.cpu().tolist())))
comm.broadcast(y := value(64), src=1)
done("broadcast", y)
ring, y = value(32, 0), value(32)
comm.group_start()
comm.send(y, (rank + 1) % ranks)
comm.recv(ring, (rank - 1) % ranks)
comm.group_end()
done("ring", ring)
x, out = value(128, 1), value(128, 0)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    comm.all_reduce(x, out, stream=torch.cuda.current_stream())
for _ in range(3):
    graph.replay()
done("replayed", out)
comm.destroy()
dist.destroy_process_group()
