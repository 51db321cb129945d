#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo profile, each action; and every profile this repository ships passes its own check and is in canonical form.
# usage: verb.sh CAPO SOURCE_ROOT
set -u
capo=$1 root=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/capo-verb.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset CAPO_PROFILE
export XDG_CONFIG_HOME="$work/config"
bad=0
# says STATUS TEXT COMMAND...
says() {
        status=$1 text=$2
        shift 2
        "$@" >"$work/out" 2>&1
        rc=$?
        if [ $rc != "$status" ] || ! grep -qF -- "$text" "$work/out"; then
                echo "FAIL: $*: status $rc, wanted $status and \"$text\":"
                cat "$work/out"
                bad=1
        fi
}
cat >"$work/a.json" <<END
{"capo_profile": 1, "name": "a", "provenance": {"who": "me"}, "rules": [
 {"when": {"nodes": 2}, "allreduce": [{"upto": "64K", "algo": "tree", "proto": "ll", "channels": 2}, {"upto": "max", "leave": true}]},
 {"when": {"layout": "3+5"}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "simple"}]},
 {"when": {"nodes": 2}, "allreduce": [{"upto": "max", "leave": true}]},
 {"when": {"nodes": 2, "reg_buff": true}, "broadcast": [{"upto": "max", "algo": "nvls", "proto": "ll"}]},
 {"when": {"layout": "3+5", "nodes": 3}, "reduce": [{"upto": "max", "leave": true}]}]}
END
printf 'allreduce,0,100,ring,ll,1,-1,-1\nallreduce,50,90,tree,ll,1,-1,-1\nallreduce,90,200,tree,ll,1,-1,-1\nallreduce,300,400,tree,ll,1,-1,-1\n' >"$work/b.csv"
mkdir -p "$XDG_CONFIG_HOME/capo/profiles"
cp "$root/profiles/data/b300-8-ring.json" "$XDG_CONFIG_HOME/capo/profiles/mine.json"

says 0 "usage: capo profile" "$capo" profile --help
says 2 'expected one of check, show, match, digest, export, list; found "frobnicate"' "$capo" profile frobnicate
says 2 "expected a file" "$capo" profile check
says 2 "unknown option" "$capo" profile check --frob x
says 1 "no profile \"nosuch\"" "$capo" profile check nosuch
printf '{"capo_profile": 1, "provenance": {"who": "me"}, "platform": {"gpu": "NVIDIA GB200"}, "rules": [{"when": {"nodes": 2, "ranks": 8, "layout": "4+4"}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "ll"}]}]}' > "$work/rack.json"
says 0 "NCCL counts its trays as one node" "$capo" profile check "$work/rack.json"
says 1 "none of 1 row can be said" "$capo" profile export --csv "$work/rack.json"
says 1 "line 2 always comes first" "$capo" profile check "$work/a.json"
says 1 "reg_buff may differ between ranks" "$capo" profile check "$work/a.json"
says 1 "broadcast has no NVLS with LL in any NCCL" "$capo" profile check "$work/a.json"
says 1 "layout 3+5 has 2 nodes" "$capo" profile check "$work/a.json"
says 1 "b.csv:2: error: the line cannot win" "$capo" profile check "$work/b.csv"
says 0 "1 rule, 3 rows" "$capo" profile check mine
says 0 "mine.json" "$capo" profile list
says 0 "h100-4of8-nvls.json" "$capo" profile list
says 0 "predicted, not measured: NCCL's model for 2 dgx1v nodes" "$capo" profile list
says 0 "64 KiB" "$capo" profile show "$work/a.json"
says 0 "Ring, Simple, NCCL's own channels" "$capo" profile match "$work/a.json" --layout 5+3 --coll allreduce --bytes 1K
says 0 "Tree, LL, at most 2 channels" "$capo" profile match "$work/a.json" --layout 4+4 --coll allreduce --bytes 64K
says 0 "left to NCCL" "$capo" profile match "$work/a.json" --ranks 8 --nodes 2 --coll allreduce --bytes 65537
says 0 "does not match: nodes" "$capo" profile match "$work/a.json" --ranks 8
# what the call is turned for, which NCCL's choice alone is not
cat >"$work/turns.json" <<END
{"capo_profile": 1, "provenance": {"who": "me"}, "rules": [{"when": {}, "allreduce": [{"upto": "max", "kernel": "symk AB", "ctas": 4}]},
 {"when": {"reg_buff": true}, "broadcast": [{"upto": "max", "ctas": 2}]}]}
END
says 0 "calls turned: symk AB, 4 CTAs (NCCL 2.31 on)" "$capo" profile match "$work/turns.json" --ranks 8 --nccl 2.28.9 --coll allreduce --bytes 4
says 0 "calls turned: symk AB, 4 CTAs" "$capo" profile match "$work/turns.json" --ranks 8 --nccl 2.31.2 --coll allreduce --bytes 4
grep -q "2.31 on" "$work/out" && bad=1
says 0 "calls not turned: 2 CTAs; a condition" "$capo" profile match "$work/turns.json" --ranks 8 --nccl 2.31.2 --coll broadcast --bytes 4 --reg-buff 1
awk 'BEGIN { print "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": ["
             for (i = 1; i < 66000; i++) printf "{\"upto\": %d, \"algo\": \"%s\", \"proto\": \"ll\"},\n", i * 10, i % 2 ? "ring" : "tree"
             print "{\"upto\": \"max\", \"leave\": true}]}]}" }' >"$work/many.json"
says 0 "many.json:65535)" "$capo" profile match "$work/many.json" --ranks 8 --coll allreduce --bytes 655335
says 0 "many.json:a row behind the 65534th)" "$capo" profile match "$work/many.json" --ranks 8 --coll allreduce --bytes 659000
says 0 "comes before line 5: its layout is more specific" "$capo" profile match "$work/a.json" --layout 3+5
printf '{"capo_profile": 1, "provenance": {"who": "me"}, "rules": [{"when": {"nccl": "2.28", "ranks": 8}, "allreduce": [{"upto": "max", "algo": "ring", "proto": "ll"}]}]}' > "$work/of28.json"
says 0 "no rule is known to hold: give --nccl" "$capo" profile match "$work/of28.json" --ranks 8
says 0 "not known without --nccl" "$capo" profile match "$work/of28.json" --ranks 8 --coll allreduce --bytes 1K
says 0 "does not match: nccl" "$capo" profile match "$work/of28.json" --ranks 8 --nccl 2.27.3
says 0 "does not match: ranks" "$capo" profile match "$work/of28.json" --ranks 4
says 0 "(no name)  $work/of28.json" "$capo" profile show "$work/of28.json"
says 1 "profiles/data" "$capo" explain allreduce 1M --platform dgx1v --gpus 0-4 --profile nosuch
COLUMNS=60 "$capo" doctor >"$work/out" 2>&1
awk 'length > 60 && / / { wide = 1 } END { exit !wide }' "$work/out" && { echo "FAIL: COLUMNS=60 into a pipe"; bad=1; }
printf '{"capo_profile": 1, "provenance": {"who": "me"}, "rules": []}' > "$work/empty.json"
says 0 "has no rules" "$capo" run --dir "$work/none" --profile "$work/empty.json" -- true
says 2 "match needs --ranks" "$capo" profile match "$work/a.json"
says 2 "--bytes needs --coll" "$capo" profile match "$work/a.json" --ranks 8 --bytes 8
says 2 "expected ranks per node" "$capo" profile match "$work/a.json" --layout x
says 0 "allreduce,50,90,tree,ll,1,-1,-1,-1,-1" "$capo" profile export --csv "$work/b.csv"
says 1 "is a CSV" "$capo" profile export "$work/b.csv"
says 0 "CSV cannot say layout=3+5" "$capo" profile export --csv "$work/a.json"
for f in "$root"/profiles/data/*.json; do
        says 0 ": good" "$capo" profile check "$f"
        "$capo" profile export "$f" | cmp - "$f" || { echo "FAIL: $f is not in canonical form"; bad=1; }
done
"$capo" profile digest - <"$work/a.json" >"$work/1"
"$capo" profile digest "$work/a.json" >"$work/2"
[ "$(cut -d' ' -f1 "$work/1")" = "$(cut -d' ' -f1 "$work/2")" ] || { echo "FAIL: digests differ"; bad=1; }
exit $bad
