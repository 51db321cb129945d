#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo doctor: how a program reaches NCCL, and settings judged by release. A tiny libnccl.so.2 stands for each release.
set -u
capo=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
cd "$dir" || exit 1
unset NCCL_ALGO NCCL_PROTO NCCL_TUNER_PLUGIN NCCL_NET_PLUGIN NCCL_PROFILER_PLUGIN LD_PRELOAD
export HOME="$dir"
${CC:-cc} --version >/dev/null 2>&1 || { echo "no compiler to build the programs looked at"; exit 77; }

# expect STATUS PATTERN -- doctor's arguments
expect() {
        want=$1 pattern=$2
        shift 3
        out=$("$capo" doctor "$@" 2>&1)
        got=$?
        [ $got = "$want" ] || { echo "capo doctor $*: exit status $got, expected $want: $out"; bad=1; }
        echo "$out" | grep -q "$pattern" || { echo "capo doctor $*: no line like \"$pattern\": $out"; bad=1; }
}
fake_nccl() { # version code
        printf 'int ncclGetVersion(int *v) { *v = %d; return 0; } int ncclAllReduce(void) { return 0; }' "$1" >n.c
        ${CC:-cc} -shared -fPIC -Wl,-soname,libnccl.so.2 -o libnccl.so.2 n.c
}
export LD_LIBRARY_PATH="$dir"

fake_nccl 22809
echo 'int ncclAllReduce(void); int main(void) { return ncclAllReduce(); }' >p.c
${CC:-cc} -o linked p.c ./libnccl.so.2
expect 0 'ok *nccl *libnccl 2.28.9 .* is linked' -- -- ./linked
${CC:-cc} -o whole p.c n.c
expect 1 'FAIL *nccl .*linked in statically and hidden' -- -- ./whole
${CC:-cc} -rdynamic -o whole p.c n.c
expect 0 'linked in and exports it' -- -- ./whole
if echo 'int main(void) { return 0; }' | ${CC:-cc} -static -x c -o alone - 2>/dev/null; then
        expect 1 'FAIL *nccl .*statically linked' -- -- ./alone
fi
expect 1 'no such command' -- -- ./nothing
for there in logs . logs/of/a/job "$dir"; do # the recorder makes folders
        CAPO_DIR=$there expect 0 'is linked' -- -- ./linked
done
[ ! -e logs ] && [ -z "$(find . -name '.capo-*')" ] || { echo "capo doctor leaves a folder: $(ls -A)"; bad=1; }
for there in /proc /proc/a/b; do # where not even root writes
        CAPO_DIR=$there expect 1 "CAPO_DIR=$there: no log can be written there" -- -- ./linked
done
echo 'int main(void) { return 0; }' >q.c
${CC:-cc} -o other q.c
expect 0 'note *nccl *.*other does not name NCCL' -- -- ./other
# what can be ready is a program that something shows to call NCCL
expect 0 '^READY: ' -- -- ./linked
expect 0 '^UNKNOWN: .*[.] Whether other calls NCCL is only known after a run: capo run -- ./other --lr 1 '"'"'a b'"'"'$' -- -- ./other --lr 1 'a b'
expect 0 '^READY: ' --
[ ! -e alone ] || expect 1 '^NOT READY: ' -- -- ./alone
"$capo" doctor --json -- ./other | grep -q '"verdict": "unknown"' || { echo "JSON of an unknown program"; bad=1; }
printf '#!/bin/sh\n' >script && chmod +x script
expect 0 'UNKNOWN: .*Whether script calls' -- -- ./script
mkdir -p packages/vllm && : >packages/vllm/__init__.py
for first in "$(command -v python3)" '/usr/bin/env python3' '/usr/bin/env -S python3 -u' '/usr/bin/env -S -u NO A=1 python3 -u' '/usr/bin/env -Spython3'; do
        printf '#!%s\n' "$first" >script
        PYTHONPATH=$PWD/packages expect 0 'note *nccl *vllm opens libnccl' -- -- ./script
        PYTHONPATH=$PWD/packages expect 0 '^READY: ' -- -- ./script
done
"$capo" doctor -- ./linked | grep -q 'does not name NCCL' && { echo "a program that links NCCL does not name it"; bad=1; }
[ -e /proc/driver/nvidia ] || expect 0 'note *gpu *no NVIDIA GPU is here' --

NCCL_TREE_THRESHOLD=0 expect 0 'warn .*NCCL_TREE_THRESHOLD=0 .*no NCCL after 2.4.8' -- -- ./linked
CAPO_PROFIL=x expect 0 'warn .*CAPO_PROFIL is set: capo has no such setting' -- -- ./linked
NCCL_PROTO=Simple,LL128 expect 0 'warn .*LL128 skips' -- -- ./linked
# taking LL128 away is what one should do, whichever way it is written
for value in '^LL128' 'Simple' '^LL,LL128' 'allreduce:^LL128' '^LL128;allgather:Simple'; do
        out=$(NCCL_PROTO=$value "$capo" doctor -- ./linked 2>&1)
        echo "$out" | grep -q 'LL128 skips' && { echo "NCCL_PROTO=$value is called dangerous: $out"; bad=1; }
done
NCCL_PROTO='^LL;allgather:LL128' expect 0 'warn .*LL128 skips' -- -- ./linked
# what the library in the job would not understand, or refuse
CAPO_PROFILE=/nowhere.json expect 1 'FAIL .*CAPO_PROFILE=/nowhere.json: .*init of every communicator would fail' -- -- ./linked
CAPO_PROFILE=/nowhere.json CAPO_STRICT=0 expect 0 'warn .*goes on with NCCL' -- -- ./linked
CAPO_PROFILE=/nowhere.json CAPO_TUNER=off expect 0 'ok *settings' -- -- ./linked
CAPO_PROFILE=auto expect 0 'note .*tunes only under capo run' -- -- ./linked
echo '{"capo_profile": 1, "rules": []}' >good.json
CAPO_PROFILE=$dir/good.json expect 1 'FAIL .*good.json is not used: NCCL_TUNER_PLUGIN does not name' -- -- ./linked
CAPO_PROFILE=$dir/good.json NCCL_TUNER_PLUGIN=STATIC_PLUGIN expect 0 'ok *settings' -- -- ./linked
echo '{"capo_profile": 1, "rules": [' >broken.json
CAPO_PROFILE=$dir/broken.json expect 1 'FAIL .*broken.json:' -- -- ./linked
CAPO_RING=lots expect 0 'warn .*CAPO_RING=lots is not a size such as 64K' -- -- ./linked
CAPO_OFF=maybe expect 0 'warn .*CAPO_OFF=maybe is not 0 or 1' -- -- ./linked
CAPO_GPU_SAMPLE=often expect 0 'warn .*CAPO_GPU_SAMPLE=often is not a whole number' -- -- ./linked
CAPO_TRACE=some expect 0 'warn .*CAPO_TRACE=some is not understood: expected all' -- -- ./linked
CAPO_TUNER=perhaps expect 0 'warn .*expected on, only, chain, off' -- -- ./linked
CAPO_LAYOUT=3+x expect 0 'warn .*CAPO_LAYOUT=3+x: expected ranks per node' -- -- ./linked
CAPO_RING=1M CAPO_TRACE=all CAPO_LAYOUT=3+5 CAPO_QUIET=yes expect 0 'ok *settings' -- -- ./linked
NCCL_ALGO=foo expect 1 'FAIL .*"foo" is not a word' -- -- ./linked
NCCL_ALGO=allreduce:tree expect 0 'capo chooses among what they leave' -- -- ./linked
NCCL_ALGO='ring;tree' expect 1 'only the first list' -- -- ./linked
echo 'NCCL_RINGS=0 1 2 3' >.nccl.conf
expect 0 'warn .*NCCL_RINGS=0 1 2 3 is set (.*/.nccl.conf)' -- -- ./linked
rm .nccl.conf
NCCL_TUNER_PLUGIN=nothere expect 0 'warn .*NCCL_TUNER_PLUGIN=nothere is set, but' -- -- ./linked
echo 'int ncclTunerPlugin_v3, ncclTunerPlugin_v6;' | ${CC:-cc} -shared -fPIC -x c -o libnccl-net.so -
expect 0 'libnccl-net.so exports a tuner (v3, v6)' -- -- ./linked
rm libnccl-net.so
# capo's own plugin: whether this release finds it under that name, and if not the line that works
own=$(realpath "$(dirname "$capo")/../tuner/libnccl-tuner-capo.so")
NCCL_TUNER_PLUGIN=capo expect 1 "FAIL .*NCCL_TUNER_PLUGIN=capo: NCCL 2.28.9 would not load it .* Use NCCL_TUNER_PLUGIN=$own" -- -- ./linked
NCCL_TUNER_PLUGIN=$own expect 0 "ok .*capo's own plugin would be loaded: $own" -- -- ./linked
fake_nccl 22005
for value in capo libnccl-tuner-capo.so; do
        NCCL_TUNER_PLUGIN=$value expect 1 "FAIL .*NCCL 2.20.5 would not load it .*opens the value as a file. Use NCCL_TUNER_PLUGIN=$own" -- -- ./linked
done
fake_nccl 22703
NCCL_TUNER_PLUGIN=$own expect 1 "FAIL .*NCCL 2.27.3 .*no path. Use LD_LIBRARY_PATH=.* NCCL_TUNER_PLUGIN=libnccl-tuner-capo.so" -- -- ./linked
LD_LIBRARY_PATH=$dir:$(dirname "$own") NCCL_TUNER_PLUGIN=libnccl-tuner-capo.so expect 0 'ok .*own plugin would be loaded' -- -- ./linked
LD_LIBRARY_PATH=$dir:$(dirname "$own") NCCL_TUNER_PLUGIN=capo expect 0 'ok .*own plugin would be loaded' -- -- ./linked
fake_nccl 22809
mkdir capo && NCCL_TUNER_PLUGIN=capo expect 1 "FAIL .*would not load it" -- -- ./linked
SLURM_NTASKS=8 SLURM_TASKS_PER_NODE=3,5 expect 0 'note .*SLURM_TASKS_PER_NODE: 3+5 ranks per node.*capo plan --alloc 3+5' -- -- ./linked
# An interpreter that has said all and does not end, one that never ends saying: neither is waited for.
mkdir wrapped
for says in 'echo /tmp; exec sleep 300 >&-' 'while :; do echo /tmp; sleep 1; done'; do
        printf '#!/bin/sh\n%s\n' "$says" >wrapped/python3
        chmod 755 wrapped/python3
        timeout 120 "$capo" doctor -- wrapped/python3 x.py >/dev/null 2>&1
        [ $? = 124 ] && { echo "an interpreter that does not end is waited for: $says"; bad=1; }
done
fake_nccl 2708
NCCL_ALGO=Tree expect 0 'AllReduce only' -- -- ./linked
NCCL_TUNER_PLUGIN=capo expect 0 'read from 2.19.1 on, this NCCL is 2.7.8' -- -- ./linked
fake_nccl 21805
NCCL_ALGO=Tree expect 1 'FAIL .*every other collective then fails' -- -- ./linked
NCCL_ALGO='ring;allreduce:tree' expect 0 'needs 2.24' -- -- ./linked
"$capo" doctor --json -- ./linked | python3 -c 'import json,sys; d=json.load(sys.stdin); assert d["nccl"] == 21805 and d["findings"], d' || bad=1

# A machine in a folder: an EFA device without provider, one without driver, a RoCE port that is down, translation, ACS.
sys=$dir/sys
mkdir -p "$sys/class/infiniband/mlx5_0/ports/1" "$sys/class/infiniband/mlx5_0/device/net/eth0" "$sys/class/infiniband/efa_0/device" \
        "$sys/bus/pci/devices/0000:00:01.0" "$sys/bus/pci/devices/0000:01:00.0" "$sys/bus/pci/devices/0000:02:00.0" \
        "$sys/module/nvidia" "$sys/kernel/iommu_groups/0" "$sys/class/iommu/dmar0"
echo '1: DOWN' >"$sys/class/infiniband/mlx5_0/ports/1/state"
echo Ethernet >"$sys/class/infiniband/mlx5_0/ports/1/link_layer"
echo 1500 >"$sys/class/infiniband/mlx5_0/device/net/eth0/mtu"
ln -s ../../../drivers/efa "$sys/class/infiniband/efa_0/device/driver"
for n in 1 2; do
        echo 0x1d0f >"$sys/bus/pci/devices/0000:0$n:00.0/vendor"
        echo 0xefa2 >"$sys/bus/pci/devices/0000:0$n:00.0/device"
done
echo DMA-FQ >"$sys/kernel/iommu_groups/0/type"
echo 0x060400 >"$sys/bus/pci/devices/0000:00:01.0/class"
acs() { # control word: at 0x100 a capability that points to 0x140, where ACS is
        { head -c 256 /dev/zero; printf '\001\000\001\024'; head -c 60 /dev/zero; printf '\015\000\001\000\000\000'"$1"; head -c 3768 /dev/zero; } \
                >"$sys/bus/pci/devices/0000:00:01.0/config"
}
acs '\035\000'
export CAPO_SYSFS="$sys"
expect 0 'warn .*2 EFA devices are on the PCI bus and 1 have a driver' -- -- ./linked
echo "$out" | grep -q 'warn .*no efa provider\|warn .*no libfabric.so.1\|ok .*libfabric providers: .*efa' || { echo "no provider: $out"; bad=1; }
rm -r "$sys/class/infiniband/efa_0" # asking libfabric takes a second
expect 0 'warn .*first port not active: mlx5_0' -- -- ./linked
expect 0 'note .*MTU below 4200.*mlx5_0 (1500)' -- -- ./linked
expect 0 'warn .*no GPUDirect RDMA\|GPUDirect RDMA by DMA-BUF' -- -- ./linked
expect 0 'warn .*IOMMU translates DMA (group type DMA-FQ)' -- -- ./linked
expect 0 'warn .*ACS redirects peer-to-peer traffic on 1 of 1 bridges (0000:00:01.0' -- -- ./linked
acs '\000\000'
expect 0 'ok .*ACS redirects nothing on 1 bridges' -- -- ./linked
head -c 64 /dev/zero >"$sys/bus/pci/devices/0000:00:01.0/config"
expect 0 'note .*only root can read it' -- -- ./linked
echo 4: ACTIVE >"$sys/class/infiniband/mlx5_0/ports/1/state"
echo identity >"$sys/kernel/iommu_groups/0/type"
mkdir "$sys/module/nvidia_peermem"
expect 0 'ok .*the peer memory module is loaded' -- -- ./linked
expect 0 'ok .*IOMMU: identity' -- -- ./linked
echo 0x10de >"$sys/bus/pci/devices/0000:02:00.0/vendor"
echo 0x030200 >"$sys/bus/pci/devices/0000:02:00.0/class"
rmdir "$sys/module/nvidia"
expect 0 'warn .*1 NVIDIA GPUs are on the PCI bus and the nvidia module is not loaded' -- -- ./linked
NCCL_NET=Foo expect 1 'FAIL .*NCCL_NET=Foo: .*no net plugin is found' -- -- ./linked
echo 'const char name[] = "Foo"; int ncclNetPlugin_v8;' | ${CC:-cc} -shared -fPIC -x c -o libnccl-net.so -
NCCL_NET=Foo expect 0 'net plugin: .*libnccl-net.so' -- -- ./linked
NCCL_NET=Bar expect 0 'warn .*NCCL_NET=Bar: .*does not contain this name' -- -- ./linked
(ulimit -s unlimited && "$capo" doctor -- ./linked 2>&1 | grep -q 'ulimit -s is unlimited') || ! (ulimit -s unlimited) 2>/dev/null || { echo 'ulimit -s unlimited: not said'; bad=1; }
# the order of the nodes: of unequal ones the best, or the command that names it; of equal and of two nodes there is none
SLURM_TASKS_PER_NODE='8,4,8(x2)' expect 0 'note *order *8+4+8+8 ranks per node (SLURM_TASKS_PER_NODE): .* capo fit --model 8+4+8+8 --' -- --wide
SLURM_TASKS_PER_NODE='8(x4)' "$capo" doctor | grep ' order ' && { echo "an order of equal nodes"; bad=1; }
SLURM_TASKS_PER_NODE='3,5' "$capo" doctor | grep ' order ' && { echo "an order of two nodes"; bad=1; }
# unequal InfiniBand devices: the setting that takes the fastest, unless one is set
for device in mlx5_0:400 mlx5_1:100 mlx5_2:400; do
        mkdir -p "rates/class/infiniband/${device%:*}/ports/1"
        echo "${device#*:} Gb/sec (4X)" >"rates/class/infiniband/${device%:*}/ports/1/rate"
        echo '4: ACTIVE' >"rates/class/infiniband/${device%:*}/ports/1/state"
done
CAPO_SYSFS=rates expect 0 'note *network *NCCL_IB_HCA==mlx5_0,mlx5_2 uses only the devices of 400 Gb/s' -- --wide
CAPO_SYSFS=rates NCCL_IB_HCA=mlx5_1 "$capo" doctor | grep 'uses only the devices' && { echo "a setting that is there already"; bad=1; }
exit $bad
