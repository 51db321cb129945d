# SPDX-License-Identifier: Apache-2.0
"""Pipeline parallel: one stage a rank, GPipe and 1F1B; activations and gradients go by batched sends and receives."""
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from common import device, finish, rank, ranks, say, start

# Up to 2.14 the stages first vote, by a product on the GPU, whether all were given their shapes: it is made on the host, as a kernel would make it.
times = torch.Tensor.__mul__
torch.Tensor.__mul__ = lambda x, y: times(x.cpu(), y.cpu()).to(device) if x.dtype == torch.int32 else times(x, y)
start()
for schedule in (ScheduleGPipe, Schedule1F1B):
    module = torch.nn.Linear(32, 32).to(device)
    # shapes are given: PyTorch would send them as pickled objects, through kernels
    shape = torch.empty(2, 32, device=device)
    activations = shape.clone().requires_grad_()  # that gradients come back for them is recognized by this
    stage = PipelineStage(module, rank, ranks, device, input_args=activations if rank else shape, output_args=activations)
    pipe = schedule(stage, n_microbatches=4, loss_fn=lambda out, target: out.sum())
    x, target = torch.zeros(8, 32).to(device), torch.zeros(8, 32).to(device)
    if rank == 0:
        pipe.step(x)
    elif rank == ranks - 1:
        pipe.step(target=target)
    else:
        pipe.step()
    say(schedule.__name__)
finish()
