#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One grammar of GPUs: every way to write an allocation is the same allocation for every verb that takes one, and what
# pages print of one is taken back by all of them.
set -u
capo=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }
machine="--platform dgx1v"
nccl=
# shellcheck disable=SC2086
"$capo" plan $machine --gpus 0,1 --sizes 1M >plan 2>&1 && nccl=1

# shellcheck disable=SC2086
printed() { # --gpus or --alloc, text: what topo and plan and run say it is
        "$capo" topo $machine "$1" "$2" 2>&1 | sed -n 's/^capo topo   [^ ]*   allocation //p' >topo
        [ -s topo ] || fail "topo $1 '$2': $("$capo" topo $machine "$1" "$2" 2>&1 | head -1)"
        layout=$("$capo" run --quiet $machine "$1" "$2" -- sh -c 'echo "$CAPO_LAYOUT"' 2>&1)
        [ -n "$3" ] && { [ "$(cat topo)" = "$3" ] || fail "topo $1 '$2' is $(cat topo), not $3"; }
        [ -z "$4" ] || [ "$layout" = "$4" ] || fail "run $1 '$2' has layout $layout, not $4"
        [ -n "$nccl" ] || return
        "$capo" plan $machine "$1" "$2" --sizes 1M >plan 2>&1 || fail "plan $1 '$2': $(cat plan)"
        # topo shortens lists: what plan prints is the same allocation
        planned=$(sed -n 's/^GPUs //p' plan)
        again=$("$capo" topo $machine --gpus "$planned" 2>&1 | sed -n 's/^capo topo   [^ ]*   allocation //p')
        [ "$again" = "$(cat topo)" ] || fail "plan $1 '$2' is $planned, not $(cat topo): $(cat plan)"
}
both="{1-3} + {0-4}"
for text in 1,2,3+0-4 '{1,2,3}+{0-4}' '{1,2,3} + {0,1,2,3,4}' '0:1,2,3;1:0-4' '0:{1-3} ; 1:{0-4}' 1-3+0-4; do
        printed --gpus "$text" "$both" 3+5
done
printed --alloc '{1,2,3} + {0-4}' "$both" 3+5
printed --alloc 3+5 '{0-2} + {0-4}' 3+5
printed --gpus 3+5 '{3} + {5}' 1+1
printed --gpus 2x3 '{0-2} + {0-2}' 3+3
printed --alloc 2x3 '{0-2} + {0-2}' 3+3
printed --gpus 0-7 '{0-7}' 8
printed --gpus '5 x {3} + {0}' '5 x {3} + {0}' 6x1
for text in '5 x {0} + x' '5 x 0' '0 x {0}' '2 x {0,0}' '70000 x {0}'; do
        # shellcheck disable=SC2086
        "$capo" topo $machine --gpus "$text" >page 2>&1 && fail "$text is taken"
        grep -q 'allocation' page || fail "$text: $(cat page)"
done
printed --gpus 06:00.0,07:00.0 '{0,1}' 2

# What pages print: a whole machine, the sets of plan --every.
for name in dgx2 gb200-nvl36 gb200-nvl72; do
        text=$("$capo" topo --platform $name 2>/dev/null | sed -n 's/^capo topo   [^ ]*   allocation //p')
        "$capo" topo --platform $name --gpus "$text" >/dev/null 2>&1 || fail "$name: its own page is refused: $text"
done
text='{0,3,4}'
if [ -n "$nccl" ]; then
        # shellcheck disable=SC2086
        {
                "$capo" plan $machine --every 2 --sizes 1M | grep -oE '\{[0-9,]+\}' | sort -u | head -n 4 >sets
                while read -r set; do printed --gpus "$set" '' ''; done <sets
                [ -s sets ] || fail "no sets on the page of plan --every"
                "$capo" explain allreduce 1M $machine --gpus "$text" >page 2>&1 || fail "explain: $(cat page)"
                grep -qF "$text" page || fail "explain of $text: $(cat page)"
                "$capo" fit --model "$text" $machine --sizes 1M >page 2>&1 || fail "fit --model $text: $(cat page)"
        }
fi
exit $bad
