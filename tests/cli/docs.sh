#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Nothing is without its page: docs/index.md leads to every page, no link leads nowhere, every verb is shown at work in
# docs/, the options shown there exist, and every CAPO_ word of the sources and of the pages is a setting.
set -u
capo=$(realpath "$1")
cd "$2" || exit 1
bad=0
fail() { echo "$*"; bad=1; }
verbs=$("$capo" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')

for page in docs/*.md docs/*.json docs/internals/*.md; do
        name=${page#docs/}
        [ "$name" = index.md ] || grep -q "]($name)" docs/index.md || fail "docs/index.md does not link $name"
done

for page in README.md HACKING.md docs/*.md docs/internals/*.md; do
        for link in $(grep -o ']([^)]*)' "$page" | sed 's/^](//; s/[)#].*//' | grep -v '^[a-z]*:'); do
                [ -e "$(dirname "$page")/$link" ] || fail "$page links $link, which does not exist"
        done
done

for verb in $verbs; do
        grep -lE "capo $verb( |\`|$)" docs/*.md | grep -qvE '^docs/(index|design)\.md$' || fail "no page in docs/ shows capo $verb"
done

# "capo VERB ... --option": what stands before a lone "--" (or a pipe, comment or quote) is ours. A verb of a group is
# two words: capo store add.
options=$("$capo" help --options | cut -f 1-3)
tab=$(printf '\t')
cat README.md HACKING.md docs/*.md docs/internals/*.md | sed -n 's/^[ $]*\(capo [a-z][a-z]* [^ ].*\)/\1/p; s/[^`]*`\(capo [a-z][a-z]* [^`]*\)`.*/\1/p' |
        sed 's/ -- .*//; s/[|#`].*//' | sort -u | while read -r _ verb word rest; do
        if printf '%s\n' "$options" | grep -q "^$verb $word$tab"; then
                verb="$verb $word"
        elif ! printf '%s\n' "$options" | grep -q "^$verb$tab"; then
                continue
        fi
        for option in $(printf '%s\n' "$word $rest" | grep -oE '(^| )--[a-z][a-z-]*' | sed 's/ *--//'); do
                printf '%s\n' "$options" | grep -q "^$verb$tab$option$tab" || echo "the pages show capo $verb --$option, which does not exist"
        done
done | grep . && bad=1
# Any option that a page names, wherever, is one of some verb's; these are other programs'.
for option in $(cat README.md HACKING.md docs/*.md docs/internals/*.md | grep -oE '`--[a-z][a-z-]*' | sed 's/`--//' | sort -u); do
        case $option in again | alike | bind | bucket | cap-add | capo | check | drop-caps | env-file | export | export-file | limit | list | logs-claim | mca | nccl-tests | node-rank | nproc-per-node | ntasks-per-node | only | parts | quick | replay | shm | tune | type | version) continue ;; esac
        printf '%s\n' "$options" | cut -f 2 | grep -qx -- "$option" || fail "the pages name --$option, which no verb has"
done

settings=$("$capo" env --all | grep -oE '^CAPO_[A-Z0-9_]+')
[ -n "$settings" ] || fail "capo env lists nothing"
for word in $(grep -rhoE '"CAPO_[A-Z0-9_]+"' core shim tuner analysis profiles cli include | tr -d '"' | sort -u); do
        printf '%s\n' "$settings" | grep -qx "$word" || fail "$word is read but is no row of include/capo/env.def"
done
for word in $(cat README.md HACKING.md docs/*.md docs/internals/*.md | grep -oE '\bCAPO_[A-Z0-9_]+' | sort -u); do
        case $word in
        CAPO_PROFIL) ;; # the wrong name that docs/doctor.md shows being found
        CAPO_GOLDEN_REWRITE) ;; # of the tests
        CAPO_STANDIN_*) grep -rq "\"$word\"" tests/standin || fail "the pages name $word, which the stand-in does not read" ;;
        *) printf '%s\n' "$settings" | grep -qx "$word" || fail "the pages name $word, which is no setting" ;;
        esac
done
for word in $(grep -rhoE '"CAPO_STANDIN_[A-Z0-9_]+"' tests/standin | tr -d '"' | sort -u); do
        grep -q "$word" docs/internals/standin.md || fail "docs/internals/standin.md does not name $word"
done
# Each format of measurements that capo reads has its row in docs/fit.md.
sed -n 's/^IMPORTER([a-z_]*, [a-z]*, "\(.*\)")$/\1/p' profiles/import/importers.def | {
        while read -r format; do
                grep -qF "| $format |" docs/fit.md || { echo "docs/fit.md, Inputs, has no row \"$format\""; bad=1; }
        done
        exit "$bad"
} || bad=1
exit $bad
