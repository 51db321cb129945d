import os, torch, torch.distributed as dist
dist.init_process_group('nccl')
dist.barrier()
print(f'rank {dist.get_rank()}: barrier passed')
dev = torch.device('cuda:0')      # one process per node
t = torch.ones(1, device=dev)
print(f'rank {dist.get_rank()}: all_reduce on cuda:0 ...')
dist.all_reduce(t)
