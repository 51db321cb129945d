#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole pages against what they were when somebody last looked at them (expect/). After a change that is meant:
#     CAPO_GOLDEN_REWRITE=1 meson test -C build --suite golden      and read the diff
# usage: golden.sh CAPO GEN_JOB SOURCE_DIR
set -eu
capo=$(realpath "$1") gen=$(realpath "$2") here=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export TZ=UTC LC_ALL=C NO_COLOR=1
failed=0

# expect NAME COMMAND...: stdout, then stderr and status when there are any
expect() {
        name=$1
        shift
        status=0
        "$@" >out 2>err || status=$?
        if [ -s err ]; then { echo "-- stderr"; cat err; } >>out; fi
        if [ "$status" != 0 ]; then echo "-- status $status" >>out; fi
        if [ -n "${CAPO_GOLDEN_REWRITE:-}" ]; then
                cp out "$here/expect/$name"
        elif ! diff -u "$here/expect/$name" out; then
                echo "FAIL $name"
                failed=1
        fi
}

mkdir even uneven host killed mixed damaged empty many slow symk symk2
"$gen" uneven layout=3+5 steps=40 sizes=25M,4M,64K trace=1 gpu=1 late_rank=5 late_ns=88000 clock_ns=7654321 drift=1e-6 >/dev/null
"$gen" host layout=2+2 steps=20 sizes=1M trace=1 late_rank=3 late_ns=40000 >/dev/null
"$gen" killed layout=4+4 steps=20 sizes=1M,8 gpu=1 trace=1 missing=3 killed=1 >/dev/null
"$gen" many layout=16x8 steps=10 sizes=1M gpu=1 trace=1 late_rank=77 late_ns=300000 modelled=9 >/dev/null
"$gen" mixed mixed
"$gen" slow layout=2 steps=20 sizes=1M gpu=1 slow_ns=6000000000 >/dev/null # above 32 bits
"$gen" symk layout=4 steps=40 sizes=4M,64K,1M,16M gpu=1 trace=1 symk=1 late_rank=2 late_ns=30000 >/dev/null
"$gen" symk2 layout=4 steps=50 sizes=4M,64K,1M,16M gpu=1 trace=1 late_rank=1 late_ns=30000 >/dev/null

expect symk.txt "$capo" report symk
expect symk.json "$capo" report --json symk
expect symk.csv "$capo" report --csv symk
expect symk-explain.txt "$capo" explain allreduce 4M --log symk
expect symk-explain.csv "$capo" explain allreduce 4M --csv --log symk
expect symk-diff.txt "$capo" diff --wide symk symk2
expect symk-diff.csv "$capo" diff --csv symk symk2
expect symk-fit.txt "$capo" fit symk2 symk
expect symk-fit.csv "$capo" fit --csv symk2 symk
expect symk-fit.md "$capo" fit --markdown symk2 symk
expect uneven.txt "$capo" report uneven
expect uneven.json "$capo" report --json uneven
expect uneven.csv "$capo" report --csv uneven
expect uneven-call.txt "$capo" report --call allreduce --comm 'd*' uneven
expect host.txt "$capo" report host
expect killed.txt "$capo" report killed
expect killed-hang.md "$capo" hang --markdown killed
expect many.txt "$capo" report many
expect slow.txt "$capo" report slow
expect slow.csv "$capo" report --csv slow
expect mixed.txt "$capo" report mixed
expect mixed-narrow.txt env COLUMNS=60 "$capo" report mixed
expect mixed-all.txt "$capo" report --all mixed
expect mixed-notes.txt "$capo" report --notes --bytes --wide mixed
expect mixed.md "$capo" report --markdown mixed
expect mixed.json "$capo" report --json mixed
expect mixed.csv "$capo" report --csv mixed
"$capo" report --html page.html mixed >/dev/null
expect mixed.html cat page.html
expect dump.txt "$capo" dump --records host/node-a0.3000.capo
expect trace.json "$capo" trace host/node-a0.3000.capo host/node-b0.3002.capo

# A byte of one log flipped, another cut, a third of the future, a fourth that is something else.
"$gen" damaged layout=5 steps=20 sizes=1M gpu=1 trace=1 >/dev/null
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
poke damaged/node-a0.3000.capo 800 X
head -c 1000 damaged/node-a0.3001.capo >damaged/cut && mv damaged/cut damaged/node-a0.3001.capo
poke damaged/node-a0.3002.capo 12 '\011\000\010\000'
echo "not a log" >damaged/node-a0.3003.capo
expect damaged.txt "$capo" report damaged
expect damaged-dump.txt "$capo" dump damaged/node-a0.3000.capo
expect empty.txt "$capo" report empty
mkdir -p beside/capo-logs
cp host/*.capo beside/capo-logs
echo "no log" >beside/y.capo
"$capo" report host >out 2>err
"$capo" report beside 2>err | diff -u out - || { echo "FAIL a file that is no log hides the logs below it"; failed=1; }
expect foreign.txt "$capo" report damaged/node-a0.3003.capo
expect newer.txt "$capo" dump damaged/node-a0.3002.capo

# The same pages come from packed logs.
mkdir -p jobs/.hidden && cp -r uneven jobs/1 && cp -r uneven jobs/2 && cp -r uneven jobs/.hidden/3 # as capo run makes them
"$capo" pack --all jobs >/dev/null || failed=1
[ "$(ls jobs/1 jobs/2 | grep -c 'capo[.]zst$')" = 4 ] && [ "$(ls jobs/.hidden/3)" = "$(ls uneven)" ] || { echo "FAIL jobs are not packed: $(ls -R jobs)"; failed=1; }
[ "$("$capo" pack --all jobs)" = "nothing to pack" ] || { echo "FAIL packed jobs are packed again"; failed=1; }
"$capo" pack --all uneven killed >/dev/null || failed=1
[ "$(ls uneven | wc -l)" = 2 ] || { echo "FAIL uneven is not packed: $(ls uneven)"; failed=1; }
expect uneven.txt "$capo" report uneven
expect uneven.csv "$capo" report --csv uneven
expect killed.txt "$capo" report killed

# Logs that earlier releases wrote stay readable for ever.
for sample in "$here"/sample-*; do
        [ -d "$sample" ] || continue
        ln -s "$sample" "$(basename "$sample")"
        expect "$(basename "$sample").txt" "$capo" report --no-recover "$(basename "$sample")"
        expect "$(basename "$sample")-narrow.txt" env COLUMNS=60 "$capo" report --no-recover "$(basename "$sample")"
        expect "$(basename "$sample").json" "$capo" report --no-recover --json "$(basename "$sample")"
done
# So do profiles of every format: the same digest, the same rules in capo's own words, the same choices.
match() { # FILE LAYOUT NCCL COLLECTIVE BYTES OPTION...
        file=$1 layout=$2 nccl=$3 coll=$4 bytes=$5
        shift 5
        "$capo" profile match "$file" --layout "$layout" --nccl "$nccl" --coll "$coll" --bytes "$bytes" --allow-modelled "$@" | sed -n '/^[a-z]* of /,$p'
}
choices() {
        match "$1" 3+5 2.29.2 allreduce 8K
        match "$1" 3+5 2.29.2 allreduce 1M
        match "$1" 5+3 2.30.3 allreduce 1G
        match "$1" 4+4 2.29.2 allgather 64K
        match "$1" 4+4 2.29.2 allreduce 64K
        match "$1" 4+4 2.28.9 allgather 64K --class 8-nvswitch
        match "$1" 8 2.31.0 allreduce 64K
        match "$1" 8 2.31.0 broadcast 64K
        match "$1" 1+5 2.27.3 reducescatter 64M --link nvlink --ring-gbs 40 --tree-gbs 90 --reg-buff 0
}
for kept in "$here"/profile-v*.json; do
        file=$(basename "$kept" .json)
        cp "$kept" .
        expect "$file-digest.txt" "$capo" profile digest "$file.json"
        expect "$file-export.txt" "$capo" profile export "$file.json"
        expect "$file-choices.txt" choices "$file.json"
done

# And stores of every version, which a reader leaves as they are: all of them have the same three runs.
for kept in "$here"/store-v*.db; do
        file=$(basename "$kept")
        cp "$kept" .
        expect store.csv "$capo" store query "$file"
        expect store-export.csv "$capo" export "store:$file"
        cmp "$kept" "$file" || { echo "FAIL a reader changed $file"; failed=1; }
done
exit $failed
