#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo report --topo on a recorded job of the stand-in, whose devices have the bus ids of standin-dgx1v.xml.
set -u
capo=$(realpath "$1")
build=$(realpath "$(dirname "$1")/..")
source=$(realpath "$2")
export CAPO_STANDIN=1
. "$source/tests/e2e/job.sh"
topo=$source/tests/fragment/data/standin-dgx1v.xml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() { echo "report: $*"; bad=1; }

"$capo" run --quiet --trace all --sample 1 --dir "$work/logs" -- "$jobs/launch" -n 4 --timeout 600 -- \
        "$jobs/ddp_train" --epochs 2 >"$work/out" 2>"$work/err" || fail "the job fails: $(cat "$work/err")"
"$capo" report --wide --topo "$topo" "$work/logs" >"$work/page" 2>&1 || fail "no page: $(cat "$work/page")"
grep -q '^CEILINGS .*standin-dgx1v.xml' "$work/page" || fail "no ceilings: $(cat "$work/page")"
grep -q 'dgx1v/4-ring2 ' "$work/page" || fail "no class: $(cat "$work/page")"
"$capo" report --topo "$topo" --json "$work/logs" >"$work/json" || fail "no JSON"
python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
assert all("class" in c for c in r["comms"]), "a communicator without class"
world = max(r["comms"], key=lambda c: c["ranks"])
assert world["class"] == "dgx1v/4-ring2", world["class"]
rows = [x for x in r["rows"] if x["call"] == "AllReduce" and x["ceiling_busbw_gbs"]]
assert rows and all(abs(x["ceiling_busbw_gbs"] - 60 * 2 * 3 / 4) < .01 for x in rows), rows
' "$work/json" || fail "JSON"
"$capo" report --wide "$work/logs" | grep -q '^CEILINGS' && fail "ceilings of a machine that nobody named"
# What capo run left beside the logs is taken without being named; of machines that are not alike, or of others, none.
cp "$topo" "$work/logs/topology-one.xml"
"$capo" report --wide "$work/logs" >"$work/page" || fail "no page of a recorded machine"
grep -q '^CEILINGS .*topology-one.xml' "$work/page" || fail "the recorded machine is not used: $(cat "$work/page")"
grep -q '^ALLOCATION .*dgx1v/4-ring2: part of the machine' "$work/page" || fail "no allocation: $(cat "$work/page")"
sed 's/count="1"/count="2"/' "$topo" >"$work/logs/topology-two.xml"
"$capo" report --wide "$work/logs" | grep -q '^CEILINGS' && fail "machines that are not alike passed for one"
cp "$(dirname "$capo")/../profiles/data/hgxh100.xml" "$work/logs/topology-one.xml"
rm "$work/logs/topology-two.xml"
"$capo" report --wide "$work/logs" | grep -q '^CEILINGS' && fail "another machine's file was used"
rm "$work/logs/topology-one.xml"
"$capo" report --wide --platform hgxh100 "$work/logs" >"$work/page" 2>&1 || fail "another machine: $(cat "$work/page")"
grep -q 'which hgxh100.xml lacks' "$work/page" || fail "GPUs of another machine: $(cat "$work/page")"

# Switches that add: eight H100 with the stand-in's bus ids. Only AllReduce is added in the switch, and it says so.
h100=$(dirname "$capo")/../profiles/data/hgxh100.xml
sed -e 's/target="0000:0/target="0000:e/' -e s/0000:1b:00.0/0000:01:00.0/g -e s/0000:43:00.0/0000:02:00.0/g -e s/0000:52:00.0/0000:03:00.0/g -e s/0000:61:00.0/0000:04:00.0/g -e s/0000:9d:00.0/0000:05:00.0/g \
        -e s/0000:c3:00.0/0000:06:00.0/g -e s/0000:d1:00.0/0000:07:00.0/g -e s/0000:df:00.0/0000:08:00.0/g "$h100" >"$work/adding.xml"
"$capo" report --wide --topo "$work/adding.xml" "$work/logs" >"$work/page" || fail "no page of switches that add"
grep -q ' AllReduce .* 445 NVLS  ' "$work/page" || fail "not said to add: $(grep -A9 '^CEILINGS' "$work/page")"
grep -q 'NVLS: the switches add and copy' "$work/page" || fail "NVLS is not explained"
grep -q 'above 100 %' "$work/page" && fail "more than 100 %, of the stand-in"
"$capo" report --topo "$work/adding.xml" --json "$work/logs" >"$work/json" || fail "no JSON of switches that add"
python3 -c '
import json, sys
rows = [x for x in json.load(open(sys.argv[1]))["rows"] if x["ceiling_busbw_gbs"]]
assert rows and {x["call"]: x["ceiling_on"] for x in rows}["AllReduce"] == "NVLink+NVLS", rows
assert all(x["ceiling_on"] == "NVLink" for x in rows if x["call"] != "AllReduce"), rows
' "$work/json" || fail "JSON of switches that add"
# NICs: the interface between the two nodes is made the one beside GPUs 2 and 3; the one beside GPUs 0 and 1 is idle.
nic() { # BUSID NAME NUMBER
        printf '<pci busid="%s" class="0x020700" vendor="0x15b3" device="0x1013" subsystem_vendor="0x15b3" subsystem_device="0x8" link_speed="8 GT/s" link_width="16"><nic><net name="%s" dev="%d" speed="100000" port="1" latency="0.0" guid="0x%d" maxconn="131072" gdr="1"/></nic></pci>' "$1" "$2" "$3" "$3"
}
sed -e "/busid=\"0000:f3:00.0\"/s|\$|$(nic 0000:0a:00.0 near0 7)|" -e "/busid=\"0000:f8:00.0\"/s|\$|$(nic 0000:0b:00.0 used0 8)|" "$topo" >"$work/nics.xml"
mkdir -p "$work/sys/class/net/lo" "$work/sys/devices/pci0000:00/0000:f8:00.0/0000:0b:00.0"
ln -s "$work/sys/devices/pci0000:00/0000:f8:00.0/0000:0b:00.0" "$work/sys/class/net/lo/device"
CAPO_SYSFS=$work/sys "$capo" run --quiet --dir "$work/nics" -- "$jobs/launch" --layout 1+3 --timeout 600 -- \
        "$jobs/ddp_train" --epochs 1 >"$work/out" 2>"$work/err" || fail "the job fails: $(cat "$work/err")"
"$capo" report --topo "$work/nics.xml" --json "$work/nics" >"$work/json" || fail "no JSON with NICs"
python3 -c '
import json, sys
used = {f["rank"]: f for f in json.load(open(sys.argv[1]))["fabric"] if f["nic"] and f["sent_bytes"]}
assert {0, 3} <= set(used) and all(f["nic"] == "0000:0b:00.0" for f in used.values()), used
for rank, f in used.items(): # rank 3 is on GPU 2 of its node, the others are on 0 and 1
    assert f["gpu_path"] == ("PIX" if rank == 3 else "PHB"), (rank, f["gpu_path"])
    assert f["nearer_nic"] == (None if rank == 3 else {"name": "near0", "path": "PIX", "idle": True}), (rank, f["nearer_nic"])
' "$work/json" || fail "NICs in JSON"
"$capo" report --wide --topo "$work/nics.xml" "$work/nics" >"$work/page" || fail "no page with NICs"
grep -q '^0  .* 0000:0b:00.0 .*PHB from the GPU, near0 is PIX and idle' "$work/page" || fail "NICs: $(cat "$work/page")"
# 1+3: uneven. Four GPUs on one machine could do more, and the page says so.
cp "$topo" "$work/nics/topology-one.xml"
"$capo" report --wide "$work/nics" >"$work/page" || fail "no page of 1+3"
grep -q '^ALLOCATION .*uneven, part of the machine' "$work/page" || fail "1+3 is not uneven: $(cat "$work/page")"
grep -q '^this job  *1+3  *0\.[0-9]' "$work/page" || fail "1+3: $(grep -A4 '^ALLOCATION' "$work/page")"
"$capo" report --json "$work/nics" | python3 -c '
import json, sys
a = json.load(sys.stdin)["allocation"]
assert (a["layout"], a["uneven"], a["reduced"]) == ("1+3", True, True), a
assert [o["layout"] for o in a["instead"]] == ["2+2", "4"] or [o["layout"] for o in a["instead"]] == ["4"], a
assert a["instead"][-1]["best_busbw_gbs"] == 90, a' || fail "JSON of 1+3"
grep -q '^instead  *4  *90\.0' "$work/page" || fail "not compared with 4 on one machine: $(grep -A4 '^ALLOCATION' "$work/page")"
# The recorded machine serves explain and fit, too.
size=$("$capo" report --json "$work/nics" | python3 -c '
import json, sys
print(max(r["bytes"] for r in json.load(sys.stdin)["rows"] if r["call"] == "AllReduce"))')
"$capo" explain allreduce "$size" --log "$work/nics" --wide >"$work/page" || fail "explain: $(cat "$work/page")"
"$capo" explain allreduce "$size" --log "$work/nics" --json | grep -q '"gpus": "0:0;1:0,1,2"' || fail "the recorded GPUs are not in JSON"
grep -q "^  *capo explain AllReduce .* --topo .*topology-one.xml --gpus '0:0;1:0,1,2'\$" "$work/page" || fail "the recorded GPUs are not named: $(tail -n 4 "$work/page")"
"$capo" fit --model 1+3 "$work/nics" >"$work/page" 2>&1
grep -q 'topology-one.xml: no measurement\|needs --topo' "$work/page" && fail "fit does not know the recorded machine: $(cat "$work/page")"
rm "$work/nics/topology-one.xml"
# What NCCL's choice costs: of a made-up job whose calls are slower than the links.
mkdir "$work/cost"
"$build/tests/golden/gen_job" "$work/cost" layout=1+3 steps=20 sizes=1K gpu=1 bus=1 >/dev/null || fail "no made-up job"
cp "$topo" "$work/cost/topology-one.xml"
"$capo" report --wide "$work/cost" >"$work/page" || fail "no page of the made-up job"
grep -q '^cost: the links could save up to [0-9]* % of the time of these calls' "$work/page" || fail "no cost: $(grep -A6 '^ALLOCATION' "$work/page")"
# Larger jobs: up to 32 ranks as above, beyond that the class and the layout without a ceiling.
for layout in 3+4x4 1+9x4; do
        mkdir "$work/$layout"
        "$build/tests/golden/gen_job" "$work/$layout" layout=$layout steps=2 sizes=1K gpu=1 bus=1 >/dev/null || fail "no job of $layout"
        cp "$topo" "$work/$layout/topology-one.xml"
        "$capo" report --wide "$work/$layout" >"$work/page" || fail "no page of $layout"
        grep -q "^ALLOCATION .*dgx1v/.*: uneven, part of the machine" "$work/page" || fail "$layout: no allocation: $(cat "$work/page")"
        [ $layout = 3+4x4 ] && best='[0-9]' || best=-
        grep -q "^this job  *$layout  *$best" "$work/page" || fail "$layout: $(grep -A4 '^ALLOCATION' "$work/page")"
done
grep -q 'not known for .*: more than 32 ranks: --topo .*/topology-one.xml computes it' "$work/page" || fail "why no ceiling: $(cat "$work/page")"
# Where NCCL can be asked, the page and capo fit --model name the same order and experiment, and NEXT the same one.
asked() { env -u LD_LIBRARY_PATH "$capo" "$@"; } # the real NCCL, not the stand-in
if asked plan --topo "$topo" --gpus 0,1 --sizes 1M >/dev/null 2>&1; then
        for layout in 1+3 8+4+2x8; do
                [ $layout = 1+3 ] && size=64M || size=1G
                mkdir "$work/asked-$layout"
                "$build/tests/golden/gen_job" "$work/asked-$layout" layout=$layout steps=200 sizes=$size gpu=1 bus=1 >/dev/null || fail "no job of $layout"
                asked report --wide --topo "$work/adding.xml" "$work/asked-$layout" >"$work/page" || fail "no page of $layout"
                asked fit --wide --model $layout --topo "$work/adding.xml" --sizes $size >"$work/fit" || fail "fit --model $layout"
                python3 - "$work/page" "$work/fit" $layout <<'END' || fail "$layout: $(cat "$work/page" "$work/fit")"
import re, sys
page, fit, layout = open(sys.argv[1]).read(), open(sys.argv[2]).read(), sys.argv[3]
part = re.search(r"^AllReduce$.*?^AllGather$", fit, re.M | re.S).group(0)
sweeps = re.findall("capo sweep --coll .*COMMAND", part)
assert len(sweeps) == (layout == "1+3"), part
assert re.findall("(?:one experiment:|as NCCL chooses:) (capo sweep --coll .*COMMAND)", page) == 2 * sweeps, page
shared = re.findall("best order of the nodes .*?;|NCCL_[A-Z_]+=\\d+: .*|nothing to gain by choice [^:]*|not settled .*", part + fit[fit.index("\nORDER") if "\nORDER" in fit else fit.index("BEYOND"):])
assert len(shared) >= 2 and all(sentence in page for sentence in shared), (shared, page)
assert ("best order of the nodes 3x8+4" in page) == (layout != "1+3") and "names the best order and one experiment" not in page, page
END
        done
        asked report --json --topo "$work/adding.xml" "$work/asked-1+3" | python3 -c '
import json, sys
a = json.load(sys.stdin)["allocation"]
assert a["experiment"].startswith("capo sweep") and "one experiment: " + a["experiment"] in a["advice"], a' || fail "JSON of advice"
fi
# Where it cannot, the page has the command that names the order, for the machine as it was given.
mkdir "$work/order"
"$build/tests/golden/gen_job" "$work/order" layout=2+2+1 steps=20 sizes=1G gpu=1 bus=1 >/dev/null || fail "no job of 2+2+1"
CAPO_NCCL=/nosuch "$capo" report --wide --topo "$work/adding.xml" "$work/order" >"$work/page" 2>&1
grep -q "capo fit --model 2+2+1 --topo $work/adding.xml names the best order and one experiment" "$work/page" || fail "without NCCL: $(cat "$work/page")"
# A file that says less than the network carries, 8 Mb/s between the nodes: more than 100 % is explained. Of a made-up job, whose calls
# take the same time on any machine (8 KiB in 100 us, 82 times what that file says).
sed -e 's/ speed="[0-9]*"/ speed="8"/' "$topo" >"$work/slow.xml"
mkdir "$work/made"
"$build/tests/golden/gen_job" "$work/made" layout=1+3 steps=20 sizes=8K gpu=1 bus=1 >/dev/null || fail "no made-up job"
"$capo" report --wide --topo "$work/slow.xml" "$work/made" >"$work/page" || fail "no page of slow links"
grep -q ' PCIe+NIC  *816[0-9]\.[0-9] %' "$work/page" || fail "nothing is faster than that: $(grep -A9 '^CEILINGS' "$work/page")"
grep -q 'above 100 %: what the description says is less' "$work/page" || fail "more than 100 % is not explained: $(cat "$work/page")"
"$capo" report --wide --topo this "$work/nics" >"$work/page" 2>&1 # a machine without GPUs: said, no page; with: a page
[ $? -le 1 ] && [ -s "$work/page" ] || fail "this machine: $(cat "$work/page")"

"$capo" report --wide --topo /nosuch "$work/logs" >"$work/page" 2>&1 && fail "a topology that is not there"
# GPU timing off: the bus ids are there all the same
"$capo" run --quiet --sample 0 --dir "$work/untimed" -- "$jobs/launch" -n 4 --timeout 600 -- \
        "$jobs/ddp_train" --epochs 1 >"$work/out" 2>"$work/err" || fail "the untimed job fails: $(cat "$work/err")"
"$capo" report --topo "$topo" --json "$work/untimed" >"$work/json" || fail "no JSON of the untimed job"
grep -q '"dgx1v/4-ring2"' "$work/json" || fail "no class without GPU timing"
# MIG slices have no NVLink: one of each GPU; two of each
for each in 1 2; do
        CAPO_STANDIN_MIG=$each "$capo" run --quiet --dir "$work/mig$each" -- "$jobs/launch" -n 4 --timeout 600 -- \
                "$jobs/ddp_train" --epochs 1 >"$work/out" 2>"$work/err" || fail "the job on slices fails: $(cat "$work/err")"
        "$capo" report --topo "$topo" --json "$work/mig$each" >"$work/json" || fail "no JSON of slices"
        grep -q '4 of 4 processes run on MIG slices' "$work/json" || fail "the slices are not said"
        [ $each = 1 ] && class=dgx1v/4-mig || class=dgx1v/4-mig2
        grep -q "\"$class\"" "$work/json" || fail "slices, $each of a GPU: $(grep '"class"' "$work/json")"
done
exit $bad
