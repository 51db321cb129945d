# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of its process groups, as far as its package brings them (torch.testing._internal.distributed.distributed_test), those that need
no kernel to have run: which pass, and which fail and why, must be the same with and without capo."""
import os
import tempfile
import unittest

os.environ["BACKEND"] = "nccl"
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())

import torch
import torch.distributed as dist
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.distributed import distributed_test

from common import finish, rank, ranks, say, start

# By the beginning of their names. Left out is what computes on the GPU before or after (averaging, batch norm, optimizers, complex numbers,
# objects, which are sized by a kernel), what profiles, what another backend is for, and what wants its launcher's files.
WANTED = ("test_get_", "test_Backend", "test_new_subgroups", "test_coalescing_manager", "test_batch_isend_irecv", "test_send_recv_nccl", "test_broadcast",
          "test_nccl_", "test_reduce_", "test_all_reduce", "test_scatter", "test_gather", "test_all_gather", "test_all_to_all", "test_barrier",
          "test_ddp_device", "test_ddp_bucket_cap")
UNWANTED = ("profiler", "object", "complex", "bool", "sparse", "timeout", "any_source", "high_priority", "test_get_rank", "gloo")
if [int(part) for part in torch.__version__.split(".")[:2]] < [2, 15]:
    UNWANTED += ("mixed_backend",)  # ranks outside a group of gloo's split the default group there, those inside do not, and the next split never ends


class Own(distributed_test.DistributedTest._DistTestBase, TestCase):
    """Their body without their launcher: the ranks are this job's."""

    rank, world_size = rank, ranks

    def _barrier(self, *args, **kwargs):
        dist.barrier(hosts)

    def assertEqual(self, x, y, *args, **kwargs):
        x, y = (a.cpu() if isinstance(a, torch.Tensor) else a for a in (x, y))  # a comparison there would be a kernel
        super().assertEqual(x, y, *args, **kwargs)


start()
hosts = dist.new_group(backend="gloo", group_desc="hosts")
counts = {}
for name in sorted(dir(Own)):
    if not name.startswith(WANTED) or any(word in name for word in UNWANTED):
        continue
    test = Own(name)
    dist.barrier(hosts)
    try:
        if getattr(getattr(test, name), "__unittest_skip__", False):
            raise unittest.SkipTest
        test.setUp()
        getattr(test, name)()
        how = "passes"
    except (unittest.SkipTest, SystemExit):  # the second where its ranks are too few
        how = "is skipped"
    except Exception as e:
        how = f"fails: {type(e).__name__}"  # most often what a kernel would have computed is not there
    torch.cuda.synchronize()
    counts[how.split(":")[0]] = counts.get(how.split(":")[0], 0) + 1
    if how != "is skipped":
        say(f"{name} {how}")
say("own tests: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
finish()
