# SPDX-License-Identifier: Apache-2.0
"""The layer loop of a mixture-of-experts model, then a transfer of weights, in Python: nccl.core, nccl.ep and nccl.m2n as their package
has them. Tokens that come back and weights that arrive are checked. RANK, WORLD_SIZE; SHARED: a folder of this job."""
import ctypes
import os
import time

import nccl.core as core
import nccl.ep as ep
import nccl.m2n as m2n
import numpy as np
from cuda.bindings import driver

TOKENS, WIDTH, EXPERTS, TOPK, LAYERS, SHARE = 6, 8, 8, 2, 5, 4
rank, ranks, shared = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["SHARED"]
Type = core.NcclDataType


def cuda(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]


class Array:
    """Device memory, and its copy here."""

    def __init__(self, shape, dtype, kind):
        self.here = np.zeros(shape, dtype)
        self.at = int(cuda(driver.cuMemAlloc(self.here.nbytes)))
        self.tensor = ep.Tensor(self.at, dtype=kind, shape=shape)

    def put(self):
        cuda(driver.cuMemcpyHtoD(self.at, self.here.ctypes.data, self.here.nbytes))

    def get(self):
        cuda(driver.cuMemcpyDtoH(self.here.ctypes.data, self.at, self.here.nbytes))
        return self.here


def share_id():
    path = os.path.join(shared, "id.%s" % os.environ.get("MASTER_PORT", "0"))
    if rank == 0:
        unique = core.get_unique_id()
        with open(path + ".part", "wb") as f:
            f.write(unique.as_bytes)
        os.rename(path + ".part", path)
        return unique
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as f:
        return core.UniqueId.from_bytes(f.read())


def main():
    cuda(driver.cuInit(0))
    n = cuda(driver.cuDeviceGetCount())
    cuda(driver.cuCtxSetCurrent(cuda(driver.cuDevicePrimaryCtxRetain(int(os.environ["LOCAL_RANK"]) % n))))
    stream = int(cuda(driver.cuStreamCreate(1)))
    comm = core.Communicator.init(ranks, rank, share_id())
    group = ep.Group.create(comm, ep.GroupConfig(algorithm=ep.Algorithm.LOW_LATENCY, num_experts=EXPERTS,
                                                 max_dispatch_tokens_per_rank=TOKENS, max_token_bytes=WIDTH * 4))
    tokens, back = Array((TOKENS, WIDTH), np.float32, Type.FLOAT32), Array((TOKENS, WIDTH), np.float32, Type.FLOAT32)
    rows = Array((TOKENS * ranks, WIDTH), np.float32, Type.FLOAT32)
    weight, got_weight = Array((TOKENS, TOPK), np.float32, Type.FLOAT32), Array((TOKENS * ranks, TOPK), np.float32, Type.FLOAT32)
    idx, got_idx = Array((TOKENS, TOPK), np.int64, Type.INT64), Array((TOKENS * ranks, TOPK), np.int64, Type.INT64)
    counts = Array((ranks,), np.int32, Type.INT32)
    gradient = Array((1,), np.float32, Type.FLOAT32)
    weight.here[:] = 0.5
    weight.put()
    handle = None
    for layer in range(LAYERS):
        for t in range(TOKENS):
            tokens.here[t] = 100 * rank + 10 * layer + t
            idx.here[t] = [(rank + layer + t + k * EXPERTS // TOPK) % EXPERTS for k in range(TOPK)]
        tokens.put()
        idx.put()
        if handle is None:
            handle = group.create_handle(ep.Layout.RANK_MAJOR, idx.tensor, stream=stream)
        handle.update(idx.tensor, stream=stream)
        handle.dispatch(ep.DispatchInputs(tokens=tokens.tensor, topk_weights=weight.tensor),
                        ep.DispatchOutputs(tokens=rows.tensor, topk_weights=got_weight.tensor, topk_idx=got_idx.tensor),
                        layout_info=ep.LayoutInfo(src_rank_counters=counts.tensor), stream=stream)
        handle.combine(ep.CombineInputs(tokens=rows.tensor), ep.CombineOutputs(tokens=back.tensor), stream=stream)
        cuda(driver.cuStreamSynchronize(stream))
        assert (back.get() == 2 * tokens.here).all(), (rank, layer, back.here)
        all_reduce(comm, gradient.at, stream)
    handle.destroy()
    group.destroy()

    half = ranks // 2
    tile = Array((SHARE, WIDTH), np.float32, Type.FLOAT32)
    trainers, rollouts = m2n.Mesh((half,), start_rank=0), m2n.Mesh((half,), start_rank=half)
    gives = rank < half
    m2n_handle = m2n.init()
    for turn in range(LAYERS):
        tile.here[:] = 1000 * turn + rank if gives else 0
        tile.put()
        src = m2n.DistTensor(tile.at if gives else None, (SHARE, WIDTH), Type.FLOAT32, mesh=trainers, placements=[m2n.Shard(0)])
        dst = m2n.DistTensor(None if gives else tile.at, (SHARE, WIDTH), Type.FLOAT32, mesh=rollouts, placements=[m2n.Shard(0)])
        m2n_handle.reshard(comm, src, dst, stream=stream)
        cuda(driver.cuStreamSynchronize(stream))
        assert gives or (tile.get() == 1000 * turn + rank - half).all(), (rank, turn, tile.here)
    m2n.finalize(m2n_handle)
    comm.destroy()


def all_reduce(comm, at, stream):
    """By the library's own function: a raw address needs no buffer object."""
    library = ctypes.CDLL("libnccl.so.2")
    r = library.ncclAllReduce(ctypes.c_void_p(at), ctypes.c_void_p(at), ctypes.c_size_t(1), 7, 0, ctypes.c_void_p(comm.ptr), ctypes.c_void_p(stream))
    assert r == 0, r
    cuda(driver.cuStreamSynchronize(stream))


main()
