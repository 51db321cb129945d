#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo profile layouts with real NCCL on virtual GPUs; and, with a libnccl of 2.22 to 2.27, which tell a tuner nothing
# of node sizes, that the plugin inside it tells every layout of 8 ranks on 2 nodes by the cost table alone.
# usage: layouts.sh CAPO [LIBNCCL]
set -u
capo=$1
lib=${2:-}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "FAIL: $*"; bad=1; }

row() { echo "{\"when\": {\"layout\": \"$1\"}, \"allreduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"simple\", \"channels\": $2}]}"; }
says() { # status, text, command
        want=$1 text=$2
        shift 2
        got=$("$@" 2>&1)
        status=$?
        [ $status = "$want" ] || fail "$*: status $status: $got"
        case $got in *"$text"*) ;; *) fail "$*: no \"$text\" in: $got" ;; esac
}

echo "{\"capo_profile\": 1, \"rules\": [$(row 1+2 1)]}" >"$tmp/small.json"
if [ -z "$lib" ]; then
        says 2 "expected one profile" "$capo" profile layouts
        says 2 "expected ranks/nodes" "$capo" profile layouts "$tmp/small.json" --platform gb200 --ranks 8
        says 1 "not one of those" "$capo" profile layouts "$tmp/small.json" --platform nosuch
        says 1 "no libnccl.so.2" "$capo" profile layouts "$tmp/small.json" --platform gb200 --nccl /nosuch
        says 1 "ranks that fit" "$capo" profile layouts "$tmp/small.json" --platform gb200 --ranks 9/2
        says 1 "more than 1 allocations" "$capo" profile layouts "$tmp/small.json" --platform gb200 --max 1
        "$capo" profile layouts "$tmp/small.json" --platform gb200 -o "$tmp/out.json" 2>"$tmp/err"
        case $? in
        0) ;;
        *) grep -q 'no libnccl' "$tmp/err" && { echo "no libnccl here"; exit 77; }
                fail "3 ranks on 2 nodes: $(cat "$tmp/err")" ;;
        esac
        grep -q 'of 1 layouts asked' "$tmp/err" || fail "not said what was asked: $(cat "$tmp/err")"
        [ "$(grep -c '"layout": "1+2", "nccl"' "$tmp/out.json")" -ge 1 ] || fail "no list: $(cat "$tmp/out.json")"
        says 0 "0 errors" "$capo" profile check "$tmp/out.json"
        # again: the list is replaced, not added to
        "$capo" profile layouts "$tmp/out.json" --platform gb200 -o "$tmp/again.json" 2>/dev/null
        cmp -s "$tmp/out.json" "$tmp/again.json" || fail "a second run writes something else"
        exit $bad
fi

layouts="1+7 2+6 3+5 4+4"
echo "{\"capo_profile\": 1, \"rules\": [$(row 1+7 1), $(row 2+6 2), $(row 3+5 3), $(row 4+4 4)]}" >"$tmp/p.json"
"$capo" profile layouts "$tmp/p.json" --platform hgxh100 --nccl "$lib" --all-nics -o "$tmp/q.json" || exit 1
for truth in $layouts; do
        for launcher in none $layouts; do
                [ $launcher = none ] || [ $launcher = $truth ] && want=$truth || want=
                "$capo" explain allreduce 64M --platform hgxh100 --alloc $truth --nccl "$lib" --profile "$tmp/q.json" \
                        --layout $launcher --json >"$tmp/json" || fail "$truth $launcher"
                # what capo works out, and what NCCL with the plugin in it really ran
                python3 - "$tmp/json" "$want" "$launcher" <<'EOF' || fail "$truth, launcher $launcher: $(grep layout "$tmp/json")"
import json, sys
p, want, launcher = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
assert p["layout"] == want, p["layout"]
assert p["layout_by"] == ("unknown" if not want else "table" if launcher == "none" else "launcher"), p["layout_by"]
ran = [c for c in p["candidates"] if c["runs"]]
ring = [c for c in ran if c["algo"] == "Ring" and c["proto"] == "Simple"]
assert bool(ring) == bool(want), ran
EOF
        done
done
exit $bad
