# SPDX-License-Identifier: Apache-2.0
"""Horovod's collectives and its optimizer on NCCL; its ranks meet by its own HTTP server. Sums only: its averages are computed by kernels. HOROVOD is the
folder it was installed to."""
import os
import sys

import torch
import torch.distributed as dist

from common import device, finish, rank, ranks, reduced, say, value

os.environ["HOROVOD_BATCH_D2D_MEMCOPIES"] = "0"  # else tensors go into its buffer by a kernel
os.environ["HOROVOD_DISABLE_GROUP_FUSION"] = "1"  # else what goes together is what happens to be there at that moment
sys.path.append(os.environ["HOROVOD"])
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

torch.cuda.set_device(device)
dist.init_process_group("gloo")
port = [None]
if rank == 0:
    server = RendezvousServer()
    port = [server.start()]
    server.init(get_host_assignments(parse_hosts(f"localhost:{ranks}"), ranks))
dist.broadcast_object_list(port, src=0)
os.environ.update({"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "lo", "HOROVOD_HOSTNAME": "localhost",
                   "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port[0]), "HOROVOD_RANK": str(rank),
                   "HOROVOD_SIZE": str(ranks), "HOROVOD_LOCAL_RANK": str(rank), "HOROVOD_LOCAL_SIZE": str(ranks), "HOROVOD_CROSS_RANK": "0",
                   "HOROVOD_CROSS_SIZE": "1"})
import horovod.torch as hvd

hvd.init()
for n in (100, 10000):
    reduced(x := value(n))
    say("allreduce", hvd.allreduce(x, op=hvd.Sum, name=f"sum {n}"))
say("allgather", sorted(set(hvd.allgather(value(50), name="gather").cpu().tolist())))
say("broadcast", hvd.broadcast(value(60), 1, name="broadcast"))
say("reducescatter", hvd.reducescatter(value(70 * ranks), op=hvd.Sum, name="scatter"))
say("alltoall", sorted(set(hvd.alltoall(value(8 * ranks), name="all to all").cpu().tolist())))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(device)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
layers = [list(layer.parameters()) for layer in (model[0], model[2])]
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), op=hvd.Sum, groups=layers)
for _ in range(3):
    for layer in layers:
        reduced(torch.cat([p.detach().cpu().flatten() for p in layer]))
    optimizer.zero_grad()
    model(torch.zeros(4, 32).to(device)).sum().backward()
    optimizer.step()
say("trained", sum(p.numel() for p in model.parameters()))
dist.barrier()
hvd.shutdown()
finish()
