#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every option of every verb, by the list the program prints of itself (capo help --options): a new one is tried without
# a line here. -h and --help answer; what a verb does not know, a value that is missing and one that is too much are each
# one line that names the verb and the option, and exit status 2; --opt=VALUE and --opt VALUE are taken.
set -u
capo=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "$*"; bad=1; }

# refused WORDS...: what the verb says of them; the way to see that a value is taken is that the next word is refused
refused() {
        out=$("$capo" "$@" 2>err </dev/null)
        [ $? = 2 ] || fail "capo $*: exit status is not 2: $(cat err)"
        [ -z "$out" ] || fail "capo $*: wrote to stdout"
        [ "$(wc -l <err)" = 1 ] || fail "capo $*: not one line: $(cat err)"
}
says() { grep -qF -e "$1" err || fail "capo says no \"$1\": $(cat err)"; }

"$capo" help --options >options || fail "no list of options"
[ "$(wc -l <options)" -gt 100 ] || fail "the list of options is short"
tab=$(printf '\t')
while IFS="$tab" read -r verb option letter valued example; do
        # shellcheck disable=SC2086 # a verb may be two words
        if [ "$option" = help ]; then
                for word in -h --help; do
                        "$capo" $verb $word >page 2>err || fail "capo $verb $word: exit status $?"
                        grep -q '^usage: capo' page || fail "capo $verb $word: no usage line"
                        grep -q '^Exit status: ' page || fail "capo $verb $word: does not say its exit status"
                done
                refused $verb --no-such-option
                says "capo: $verb: unknown option \"--no-such-option\""
                refused $verb -Z
                says "capo: $verb: unknown option \"-Z\""
                refused $verb --help=yes
                says "capo: $verb: --help takes no value, or all"
                "$capo" $verb --help=all >page 2>err || fail "capo $verb --help=all: exit status $?"
                continue
        fi
        grep -qE -- "--$option( |\$)" page || fail "capo $verb --help does not show --$option"
        if [ "$valued" = 0 ]; then
                refused $verb "--$option" --no-such-option
                says 'unknown option "--no-such-option"'
                refused $verb "--$option=1"
                says "capo: $verb: --$option takes no value"
                continue
        fi
        refused $verb "--$option=$example" --no-such-option
        says 'unknown option "--no-such-option"'
        refused $verb "--$option" "$example" --no-such-option
        says 'unknown option "--no-such-option"'
        refused $verb "--$option"
        says "capo: $verb: --$option needs a value"
        [ "$letter" = - ] && continue
        refused $verb "-$letter" "$example" --no-such-option
        says 'unknown option "--no-such-option"'
        refused $verb "-$letter"
        says "capo: $verb: -$letter needs a value"
done <options

# The manual page and the completion know every option.
"$capo" help --man | sed 's/\\-/-/g' >man
for shell in bash zsh fish; do
        "$capo" completion $shell >$shell && grep -q ' completion words -- ' $shell || fail "completion $shell: $(cat $shell)"
done
cut -f 1 options | sort -u | while read -r verb; do
        "$capo" completion words -- $verb >words # two words, of a verb in a group
        awk -F '\t' -v verb="$verb" '$1 == verb {print $2}' options | while read -r option; do
                grep -qE -- "--$option( |\$)" man || [ "$option" = help ] || echo "capo(1) has no --$option"
                grep -q -- "^--$option	" words || echo "the completion of $verb has no --$option"
        done
done >missing
[ -s missing ] && fail "$(cat missing)"
bash -c 'set -e; source ./bash # by a path, where no capo is in PATH
        COMP_WORDS=("$1/capo" re) COMP_CWORD=1; _capo; [ "${COMPREPLY[*]}" = report ]; PATH=$1:$PATH
        COMP_WORDS=(capo re) COMP_CWORD=1; _capo; [ "${COMPREPLY[*]}" = report ]
        COMP_WORDS=(capo topo cap) COMP_CWORD=2; _capo; [ "${COMPREPLY[*]}" = capture ]
        COMP_WORDS=(capo report --js) COMP_CWORD=2; _capo; [ "${COMPREPLY[*]}" = --json ]' bash "$(dirname "$capo")" ||
        fail "bash does not complete"
refused completion tcsh
says 'expected bash, zsh or fish'
refused completion bash zsh
says 'unexpected "zsh"'
refused completion tcsh
says 'expected bash, zsh or fish'

# A name nearly right is suggested, a beginning of a name is not taken for it.
refused report --jsno
says 'is it --json?'
refused report --comm=x --no-such-option
says 'unknown option "--no-such-option"'
refused report --c x
says 'may be --c'
refused report --top 3
says 'is it --topo?'
refused run -profile x
says 'is it --profile?'
refused explain 4M allreduce
says 'Try: capo explain allreduce 4M'
refused explain allredcue 4M
says 'is it allreduce?'
refused plan --platform h100
says 'is it hgxh100'
refused topo --platform dgxh100
says 'is it hgxh100'
refused store frob
says 'expected one of add, list, query, fit, rm; found "frob"'
refused store
says 'found "nothing"'
refused nosuchverb

# A machine or an address that cannot be is a wrong command line, whoever asks.
refused plan
refused watch --listen foo
for verb in plan topo check 'expect --busbw 1' 'explain allreduce 4M'; do
        # shellcheck disable=SC2086 # a verb and its words
        refused $verb --platform nope
        says nope
done
exit $bad
