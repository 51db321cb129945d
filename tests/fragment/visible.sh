#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which GPUs capo topo takes on "this machine": CUDA_VISIBLE_DEVICES, MIG slices, containers. The machine is lstopo's XML
# of a DGX-2, the driver a file.
# usage: visible.sh CAPO SOURCE NVML_FOLDER
set -u
capo=$1
source=$2
nvml=$3
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "FAIL: $*"; bad=1; }

# hwloc 2 refuses the file of hwloc 3 by its number only
sed 's/<topology version="3.0"/<topology version="2.0"/' "$source/tests/fragment/data/dgx2-lstopo.xml" >"$tmp/machine.xml"
HWLOC_XMLFILE=$tmp/machine.xml "$capo" topo --json >"$tmp/out" 2>&1
status=$?
if [ $status != 0 ]; then
        cat "$tmp/out"
        [ $status = 1 ] && grep -q 'hwloc does not read it' "$tmp/out" && exit 77
        exit 1
fi

cat >"$tmp/all" <<'EOF'
gpu 00000000:34:00.0 GPU-d3977428-7a30-086b-2e20-5c1eeed647c6
gpu 00000000:36:00.0 GPU-5bfda7ef-6aec-a775-5ae1-a1c3dcaef094 mig
slice MIG-11111111-aaaa-0000-0000-000000000001 1 0
slice MIG-11111111-bbbb-0000-0000-000000000002 2 0
gpu 00000000:39:00.0 GPU-22344fb6-c824-994f-a244-d6cc78506ee9 mig
slice MIG-22222222-aaaa-0000-0000-000000000003 9 1
gpu 00000000:3B:00.0 GPU-22344fb7-c824-994f-a244-d6cc78506ee9
EOF
# a container that was given two of them
cat >"$tmp/two" <<'EOF'
gpu 00000000:59:00.0 GPU-aaaaaaaa-0000-0000-0000-000000000005
gpu 00000000:3B:00.0 GPU-22344fb7-c824-994f-a244-d6cc78506ee9
EOF

# try STATUS DRIVER "CUDA_VISIBLE_DEVICES" "WHAT MUST BE SAID"...
try() {
        want=$1 driver=$2 list=$3
        shift 3
        got=$(
                [ "$driver" = none ] || export CAPO_TEST_NVML="$tmp/$driver" LD_LIBRARY_PATH="$nvml"
                [ "$list" = unset ] || export CUDA_VISIBLE_DEVICES="$list"
                HWLOC_XMLFILE=$tmp/machine.xml "$capo" topo --wide 2>&1
        )
        status=$?
        [ $status = "$want" ] || fail "$driver $list: status $status: $got"
        for text; do
                case $got in *"$text"*) ;; *) fail "$driver $list: no \"$text\" in: $got" ;; esac
        done
}

# capo run records the machine beside the logs where a driver answers, once per host
CAPO_TEST_NVML=$tmp/all LD_LIBRARY_PATH=$nvml HWLOC_XMLFILE=$tmp/machine.xml "$capo" run --quiet --dir "$tmp/run" -- true || fail "capo run"
for file in "$tmp"/run/topology-*.xml; do
        "$capo" topo --topo "$file" >"$tmp/out" 2>&1 || fail "what capo run recorded is no topology: $(cat "$tmp/out")"
        grep -q '16 GPUs on 1 machine' "$tmp/out" || fail "recorded: $(cat "$tmp/out")"
done
[ "$(ls "$tmp/run")" = "topology-$(uname -n).xml" ] || fail "in the folder: $(ls "$tmp/run")"
HWLOC_XMLFILE=$tmp/machine.xml "$capo" run --quiet --dir "$tmp/none" -- true || fail "capo run without a driver"
[ -e "$tmp/none" ] && fail "without a driver something is left: $(ls "$tmp/none")"

# without a driver: only numbers
try 0 none 0,2 'allocation {0,2}' 'class pcie/2-' 'only the PCI tree is known'
try 0 none 2,0,-1,1 'allocation {2,0}'
try 0 none 1,99,2 'allocation {1}' '"99" is no GPU here: CUDA ends its list there'
try 1 none GPU-5bfd,GPU-d39 'but the UUIDs of the GPUs of this machine are not known here'
try 1 none '' 'leaves no GPU of this machine'
try 1 none -1 'leaves no GPU of this machine'
try 1 none 0,0 'names a device twice'
try 1 none MIG-11111111-aaaa-0000-0000-000000000001 'MIG slices of this machine are not known here'
# with one: what is open counts, and the driver knows slices
try 0 all unset 'allocation {0-3}' '16 GPUs are on the PCI bus, 4 of them are open to this process' \
        '2 of 4 devices are MIG slices'
try 0 all GPU-22344fb7 'allocation {3}'
try 1 all GPU-22344fb 'beginning of several UUIDs' 'leaves no GPU'
try 0 all 0,GPU-22344fb,3 'allocation {0}' 'beginning of several UUIDs: CUDA ends its list there'
try 0 all MIG-11111111-aaaa-0000-0000-000000000001,MIG-22222222 'allocation {1,2}' 'class pcie/2-mig' \
        'neither NVLink nor P2P reaches a slice' 'not connected over NVLink'
try 0 all MIG-11111111-a,MIG-11111111-b 'class pcie/2-mig1' 'NCCL before 2.30 refuses two ranks on one GPU' same
try 0 all MIG-11111111-a,MIG-11111111-b,MIG-2 'class pcie/3-mig2'
try 0 all MIG-GPU-22344fb6-c824-994f-a244-d6cc78506ee9/9/1,MIG-1111 'allocation {2}' 'beginning of several'
try 1 all MIG-GPU-22344fb6-c824-994f-a244-d6cc78506ee9/9/0 'is no device of this machine'
try 0 two unset 'allocation {5,3}' '2 of them are open'
try 0 two 1 'allocation {3}'
try 0 two 0,1,2 'allocation {5,3}' '"2" is no GPU here'
# NVLinks are the driver's: each GPU has one to each of six switches; in a container, to GPUs that it does not show
for gpu in 34 36 39 3b 57 59 5c 5e b7 b9 bc be e0 e2 e5 e7; do
        echo "gpu 00000000:$gpu:00.0 GPU-$gpu"
        for nvswitch in c1 c2 c3 c5 c6 c7; do echo "link 00000000:$nvswitch:00.0"; done
done >"$tmp/whole"
try 0 whole 0,2 'allocation {0,2}' 'class dgx2/2' '6sw'
try 0 whole unset 'class dgx2/16' 'one link 20 GB/s each way'
printf '%s\n' 'gpu 00000000:36:00.0 GPU-36' 'link 00000000:3B:00.0' 'link 00000000:39:00.0' 'gpu 00000000:39:00.0 GPU-39' \
        'link 00000000:36:00.0' >"$tmp/part"
try 0 part unset 'allocation {1,2}' '1xNV' '1 links lead to GPUs that the description leaves out'
# a driver that does not answer is none
try 0 nosuch 0,2 'allocation {0,2}'

# the slices' links are gone from the ceilings, the bus is not
got=$(CAPO_TEST_NVML="$tmp/all" LD_LIBRARY_PATH="$nvml" CUDA_VISIBLE_DEVICES=MIG-11111111-a,MIG-2 \
        HWLOC_XMLFILE=$tmp/machine.xml "$capo" topo --json)
printf '%s\n' "$got" | python3 -c '
import json, sys
p = json.load(sys.stdin)
assert not p["connected"] and p["broadcast_gbs"] == 0, p
assert p["hybrid"]["broadcast_gbs"] > 1 if isinstance(p.get("hybrid"), dict) else p["hybrid_broadcast_gbs"] > 1, p
assert all(r["mig"] for r in p["ranks"]) and "MIG" in p["seen"], p
' || fail "JSON of slices: $got"

# GPUs that differ: a number counts the fastest first, which only CUDA knows
sed '0,/\[10de:1db8\]/s//[10de:20b0]/' "$tmp/machine.xml" >"$tmp/mixed.xml"
got=$(HWLOC_XMLFILE=$tmp/mixed.xml CUDA_VISIBLE_DEVICES=1 "$capo" topo --wide 2>&1) && fail "mixed GPUs by number: $got"
case $got in *"CUDA_DEVICE_ORDER=PCI_BUS_ID"*) ;; *) fail "mixed GPUs: $got" ;; esac
CUDA_DEVICE_ORDER=PCI_BUS_ID HWLOC_XMLFILE=$tmp/mixed.xml CUDA_VISIBLE_DEVICES=1 "$capo" topo >/dev/null 2>&1 ||
        fail "mixed GPUs by bus"
# capo topo capture: compute capability and NVLinks are the driver's, counted by what they lead to
cat >"$tmp/linked" <<'EOF'
gpu 00000000:34:00.0 GPU-d3977428-7a30-086b-2e20-5c1eeed647c6
link 00000000:36:00.0
link 00000000:36:00.0
link 00000000:39:00.0
gpu 00000000:36:00.0 GPU-5bfda7ef-6aec-a775-5ae1-a1c3dcaef094
link 00000000:34:00.0
link 00000000:34:00.0
EOF
CAPO_TEST_NVML=$tmp/linked LD_LIBRARY_PATH=$nvml HWLOC_XMLFILE=$tmp/machine.xml "$capo" topo capture -o "$tmp/captured.xml" 2>"$tmp/out" ||
        fail "capture: $(cat "$tmp/out")"
grep -q 'NVIDIA GPUs 16, .* NVLinks 5$' "$tmp/out" || fail "capture said: $(cat "$tmp/out")"
[ "$(grep -c 'sm="70"' "$tmp/captured.xml")" = 2 ] || fail "capture: compute capability: $(grep '<gpu' "$tmp/captured.xml")"
grep -q '<nvlink target="0000:36:00.0" count="2"' "$tmp/captured.xml" || fail "capture: links: $(grep nvlink "$tmp/captured.xml")"
[ "$(grep -c '<nvlink' "$tmp/captured.xml")" = 3 ] || fail "capture: links: $(grep nvlink "$tmp/captured.xml")"
exit $bad
