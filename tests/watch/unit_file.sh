#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The unit of root's watch, as systemd reads it: unit_file.sh CAPO UNIT. 77: no systemd-analyze.
set -eu
command -v systemd-analyze >/dev/null || { echo "no systemd-analyze"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s#^ExecStart=[^ ]*#ExecStart=$(realpath "$1")#" "$2" >"$work/capo-watch.service"
systemd-analyze verify --man=no --recursive-errors=no "$work/capo-watch.service" 2>"$work/said"
cat "$work/said"
! grep capo-watch "$work/said"
# It stays off until root enables it: nothing that is packaged does.
top=$(cd "$(dirname "$0")/../.." && pwd)
! grep -rnE 'systemctl +(enable|start)|deb-systemd|\.preset|target\.wants' "$top/deploy/package" "$top/deploy/systemd/meson.build"
# Its command line is one of this capo.
sed -n 's/^ExecStart=[^ ]* \(.*\)/\1/p' "$2" | grep -qx 'watch --metrics ${METRICS}'
