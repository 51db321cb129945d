#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every verb explains itself, refuses what it does not know with exit status 2 and one line, and never touches stdout then.
set -u
capo=$(realpath "$1")
bad=0
fail() { echo "$*"; bad=1; }

for verb in $("$capo" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
        "$capo" "$verb" --help >/tmp/capo-help.$$ 2>&1 || fail "$verb --help: exit status $?"
        grep -q '^usage: capo' /tmp/capo-help.$$ || fail "$verb --help: no usage line"
        grep -qi 'exit status' /tmp/capo-help.$$ || fail "$verb --help: does not say its exit status"
        out=$("$capo" "$verb" --no-such-option 2>/tmp/capo-err.$$ </dev/null)
        [ $? = 2 ] || fail "$verb --no-such-option: exit status is not 2"
        [ -z "$out" ] || fail "$verb --no-such-option: wrote to stdout"
        [ "$(wc -l </tmp/capo-err.$$)" = 1 ] || fail "$verb --no-such-option: not one line: $(cat /tmp/capo-err.$$)"
        grep -q '^capo: ' /tmp/capo-err.$$ || fail "$verb --no-such-option: message does not start with capo:"
done
"$capo" nosuchverb 2>/dev/null && fail "an unknown verb is accepted"
rm -f /tmp/capo-help.$$ /tmp/capo-err.$$
exit $bad
