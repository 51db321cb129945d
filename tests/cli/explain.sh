#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo explain: which rule decides and why the others do not; with a libnccl at hand also costs, what runs and what blocked it.
set -u
capo=$(realpath "$1")
set -- "$1" "$(realpath "$2")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
cd "$dir" || exit 1
unset NCCL_ALGO NCCL_PROTO
cat >p.json <<'EOF'
{"capo_profile": 1, "rules": [
 {"when": {"nodes": 2, "layout": "3+5"},
  "allreduce": [{"upto": "256K", "algo": "tree", "proto": "ll128", "gain": 0.17},
                {"upto": "4M", "algo": "ring", "proto": "ll", "channels": 2}, {"upto": "max", "leave": true}]},
 {"when": {"ranks": 8}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]},
 {"when": {"nodes": 4}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}
]}
EOF
# expect PATTERN ARGS...
expect() {
        pattern=$1
        shift
        out=$("$capo" explain --wide "$@" 2>&1)
        echo "$out" | grep -Eq "$pattern" || { echo "capo explain $*: no line like \"$pattern\":"; echo "$out"; bad=1; }
}
shape="--ranks 8 --nodes 2 --profile p.json"
expect 'p.json:2 .*decides, line 4: Ring LL, up to 2 channels' allreduce 1M $shape --layout 5+3
expect 'p.json:5 .*holds, but line 2 is more specific: layout' allreduce 1M $shape --layout 5+3
expect 'p.json:6 .*does not hold: nodes' allreduce 1M $shape --layout 5+3
expect 'p.json:5 .*decides, line 5: Tree Simple' allreduce 1M $shape --layout 4+4
expect 'would answer: left to NCCL' allreduce 64M $shape --layout 3+5
expect 'no rule of it decides' broadcast 1M $shape
expect '"line": 4' allreduce 1M $shape --layout 3+5 --json
expect 'expected a release' allreduce 1M $shape --nccl-version x
expect 'expected a release' allreduce 1M $shape --nccl x
expect 'not a call NCCL asks' alltoall 1M $shape

# a recording is asked by the sizes that its page shows: 8,320 bytes are 8.1 KiB there
log=$2/tests/golden/sample-v1
expect 'AllReduce 8.1KiB in .* .recorded.' allreduce 8.1KiB --log "$log"
expect 'AllReduce 8.1 KiB in .* .recorded.' allreduce '8.1 KiB' --log "$log"
expect '"bytes": 8320' allreduce 8.1K --log "$log" --json
expect '"bytes": 8320' allreduce 8320 --log "$log" --json
expect 'nearest sizes are 16 and 1320 bytes' allreduce 1000 --log "$log"
expect 'nearest size is 8320 bytes$' allreduce 1G --log "$log"
expect 'nearest size is 16 bytes$' allreduce 8 --log "$log"
expect 'holds no Reduce$' reduce 1G --log "$log"
expect 'no communicator "nosuch" has AllReduce of 8320' allreduce 8320 --log "$log" --comm nosuch

if "$capo" plan --platform dgx1v --sizes 1M >/dev/null 2>&1; then
        machine="--platform dgx1v --gpus 0:1,2,3;1:0-4 --profile p.json"
        "$capo" explain allreduce 1M $machine >1M 2>&1
        "$capo" explain allreduce 64K $machine >64K 2>&1
        has() { grep -Eq "$2" "$1" || { echo "$1: no line like \"$2\":"; cat "$1"; bad=1; }; }
        has 1M 'layout 3\+5'
        has 1M '^Ring +LL +[0-9.]+ .*with the profile it runs \(2 channels\)'
        has 1M '^runs +Ring LL, 2 channels, by the profile'
        has 64K '^Tree +LL128 +not available +wanted by the profile, blocked'
        has 64K '^! blocked: Tree LL128'
        # the class and its ceiling: the same on the page and in JSON
        has 1M '^class +.*: its links allow [0-9.]+ GB/s busbw'
        "$capo" explain allreduce 1M $machine --json >json
        python3 - json 1M <<'PY' || bad=1
import json, re, sys
page, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
name, most = re.search(r"^class +(.*): its links allow ([0-9.]+) GB/s", text, re.M).groups()
assert page["class"] == name and f"{page['ceiling_busbw_gbs']:.1f}" == most, (page["class"], page["ceiling_busbw_gbs"], name, most)
PY
else
        echo "no libnccl to ask here: costs are not tested"
fi
exit $bad
