#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Equal mistakes end with equal exit statuses, in every verb that reads a file or a folder: one that is not there, one that is
# something else, a folder with nothing in it. docs/stability.md has the statuses; options.sh tries what is no option.
# usage: statuses.sh CAPO
set -u
capo=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset CAPO_DIR CAPO_PROFILE
bad=0
fail() { echo "$*"; bad=1; }
mkdir nothing
echo hello >text

# THERE, OTHER, EMPTY: the status for a file that is not there, one that is something else, an empty folder
there() {
        verb=$1
        for case in "missing $2" "text $3" "nothing $4"; do
                # shellcheck disable=SC2046,SC2086 # words
                timeout 100 "$capo" $(echo "$verb" | sed "s/FILE/${case% *}/g") >out 2>err </dev/null
                status=$?
                [ $status = "${case#* }" ] || fail "capo $verb with ${case% *}: exit status $status, expected ${case#* }: $(cat out err)"
                [ -s err ] || [ -s out ] || fail "capo $verb with ${case% *}: no word why"
        done
}
sed 's/#.*//; /^ *$/d' >table <<'END'
1 1 1 report FILE
1 1 1 trace FILE
1 1 1 dump FILE
1 1 1 export FILE
1 1 1 fit FILE
1 1 1 profile check FILE
1 1 1 profile show FILE
1 1 1 profile digest FILE
1 1 1 profile export FILE
1 1 1 profile match --layout 3+5 FILE
1 1 1 store list FILE
1 1 1 store query FILE
1 1 1 store rm FILE 1
1 1 1 store fit FILE
1 1 1 store add new.db FILE
1 1 1 topo --topo FILE
1 1 1 check --merge FILE
1 1 1 explain allreduce 4M --log FILE
1 1 0 pack FILE              # nothing to do is no mistake
1 1 0 clean --older 14d FILE
1 1 1 watch --once --dir FILE
1 1 1 top --once --dir FILE
3 3 3 hang FILE              # verbs that judge: 1 is a verdict
3 3 3 diagnose FILE
3 3 3 expect FILE
3 3 3 diff FILE FILE
127 126 126 run -- ./FILE    # as of a shell
127 126 126 sweep -- ./FILE
END
while read -r missing other empty verb; do
        there "$verb" "$missing" "$other" "$empty"
done <table
# Every verb is in the table, or reads nothing that it is given.
for verb in $("$capo" help --options | cut -f 1 | sed 's/ .*//' | sort -u); do
        case $verb in
        completion | doctor | env | plan) ;;
        *) grep -q "^[0-9 ]* $verb " table || fail "$verb: not in the table" ;;
        esac
done
exit $bad
