# SPDX-License-Identifier: Apache-2.0
"""nccl-tests, each rank another of its programs on two GPUs of its own process. Their validation is off: kernels do it. NCCL_TESTS is the folder
they were built in, with CUDA's shared runtime."""
import os
import subprocess

rank = int(os.environ["RANK"])
name = ("all_reduce", "all_gather", "reduce_scatter", "sendrecv", "broadcast", "alltoall", "reduce", "hypercube")[rank]
done = subprocess.run([os.path.join(os.environ["NCCL_TESTS"], name + "_perf"), *"-g 2 -b 1024 -e 1048576 -f 4 -n 5 -w 1 -c 0".split()],
                      capture_output=True, text=True)
for line in done.stdout.splitlines():
    if line.split() and line.split()[0].isdigit():
        os.write(1, f"rank {rank}: {name} {' '.join(line.split()[:3])}\n".encode())  # bytes, elements, type; what follows are times
os.write(1, f"rank {rank}: {name} ends with {done.returncode}\n".encode())
os.write(2, done.stderr.encode())
