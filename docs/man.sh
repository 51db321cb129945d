#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints capo(1), made from what the command says of itself, so that page and program cannot differ.
# usage: man.sh CAPO
set -eu
capo=$1

escape() { sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/" -e 's/-/\\-/g'; }
section() { printf '.SH %s\n.nf\n' "$1"; escape; printf '.fi\n'; }

version=$("$capo" --version | cut -d' ' -f2)
printf '.TH CAPO 1 "" "capo %s" "User Commands"\n' "$version"
printf '.SH NAME\ncapo \\- record what NCCL collectives cost, and make NCCL choose better\n'
"$capo" --help | section SYNOPSIS
for verb in $("$capo" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
        "$capo" "$verb" --help | section "CAPO $(printf '%s' "$verb" | tr a-z A-Z)"
done
"$capo" env --markdown | sed -n '3,$p' | sed 's/^| `\([^`]*\)` | `\([^`]*\)` | \(.*\) |$/\1 (default "\2")\n    \3/' | section ENVIRONMENT
cat <<'EOF'
.SH EXIT STATUS
0 fine; 1 the answer is no, or something failed; 2 the command line is wrong. capo run ends with its command's own status.
.SH FILES
.nf
capo\-logs/                         logs of recorded jobs, one file a process, mode 0600
/dev/shm/capo\-UID\-PID\-START       a running process's last calls; taken up by capo report after kill \-9
.fi
EOF
