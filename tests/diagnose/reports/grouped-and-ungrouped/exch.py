if rank == 0:
    reqs = dist.batch_isend_irecv([dist.P2POp(dist.isend, a, 1), dist.P2POp(dist.irecv, b, 1)])
    for q in reqs: q.wait()
else:
    dist.send(a, 0)
    dist.recv(b, 0)
# a, b: 16 Mi float16 on both
