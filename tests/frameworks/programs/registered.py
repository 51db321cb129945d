# SPDX-License-Identifier: Apache-2.0
"""Buffers that NCCL knows of: a memory pool of its own allocator, registered with the communicator, and symmetric memory as far as it goes without
kernels."""
import ctypes
import os
import subprocess
import tempfile

import torch
import torch.distributed as dist

from common import device, finish, say, start, stops, value


def own_allocator():
    """The one of the documentation of torch.cuda.MemPool: two functions of one's own around NCCL's."""
    ctypes.CDLL("libnccl.so.2", mode=ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "allocator.so")
        subprocess.run(["cc", "-x", "c", "-fPIC", "-shared", "-o", library, "-"], check=True, text=True, input="""
            int ncclMemAlloc(void **, unsigned long), ncclMemFree(void *);
            void *take(unsigned long size, int device, void *stream) { void *p = 0; return ncclMemAlloc(&p, size) ? 0 : p; }
            void give(void *p, unsigned long size, int device, void *stream) { ncclMemFree(p); }""")
        return torch.cuda.memory.CUDAPluggableAllocator(library, "take", "give").allocator()


start()
x = value(10)
dist.all_reduce(x)
say("sum", x)
backend = dist.group.WORLD._get_backend(device)
try:
    allocator = backend.mem_allocator
except RuntimeError as e:  # up to 2.14 it is for GPUs with multicast, and says it is NCCL's release
    if "not supported in this NCCL version" not in str(e):
        raise
    allocator = own_allocator()
pool = torch.cuda.MemPool(allocator)
with torch.cuda.use_mem_pool(pool):
    x = torch.empty(1 << 18, device=device)
backend.register_mem_pool(pool)
x.copy_(torch.full((1 << 18,), 2.0))
dist.all_reduce(x)
say("in the pool", x)
torch.cuda.synchronize()
backend.deregister_mem_pool(pool)
try:
    import torch.distributed._symmetric_memory as symmetric

    symmetric.set_backend("NCCL")
    x = symmetric.empty(1 << 18, device=device)
    symmetric.rendezvous(x, dist.group.WORLD)
    x.copy_(torch.full((1 << 18,), 3.0))
    dist.all_reduce(x)
    say("symmetric", x)
except (RuntimeError, ImportError, AttributeError) as e:
    # what it asks for there are addresses for kernels (ncclGetPeerDevicePointer), which the stand-in refuses
    stops("symmetric memory where it wants the addresses of its peers for kernels" if "NCCLSymmetricMemory" in str(e) else str(e).splitlines()[0])
finish()
