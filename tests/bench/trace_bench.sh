#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo trace of 10 million calls of 8 ranks, compressed: 1 call in 8 timed on the GPU would add a bar and an arrow for it.
# usage: trace_bench.sh BUILD
set -u
build=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-trace-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/logs"
"$build/tests/golden/gen_job" "$work/logs" layout=8 steps=416667 sizes=25M,1M,4K trace=1 >/dev/null
for _ in 1 2 3; do
        python3 - "$build/cli/capo" "$work" <<'PY'
import os, resource, subprocess, sys, time
capo, work = sys.argv[1:]
begin = time.monotonic()
subprocess.run([capo, "trace", "-o", work + "/t.json.gz", work + "/logs"], check=True, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"  10.0 M calls  {time.monotonic() - begin:5.1f} s  {used.ru_utime + used.ru_stime:5.1f} s of processors  "
      f"{os.path.getsize(work + '/t.json.gz') >> 20} MiB  peak memory {used.ru_maxrss >> 10} MiB")
PY
done
