# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO 1, 2 and 3 on PyTorch's own optimizer, two steps each. Its check for an overflow is off: it would decide by values
that kernels compute."""
import os

os.environ["DS_ACCELERATOR"] = "cuda"

import deepspeed
import torch

from common import device, finish, say

torch.cuda.set_device(device)
deepspeed.init_distributed("nccl")
for stage in (1, 2, 3):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config={"train_micro_batch_size_per_gpu": 4, "zero_allow_untested_optimizer": True, "steps_per_print": 1000000,
                "zero_optimization": {"stage": stage}, "bf16": {"enabled": True, "check_grad_overflow": False}})
    for _ in range(2):
        engine.backward(engine(torch.zeros(4, 64, dtype=torch.bfloat16).to(device)).sum())
        engine.step()
    say(f"stage {stage}", engine.zero_optimization_stage())
finish()
