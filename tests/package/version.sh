#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# capo --version: the version of meson.build, the commit, the compiler and the machine, on one line.
# usage: version.sh CAPO VERSION
said=$("$1" --version) || exit 1
echo "$said" | grep -qE "^capo $2 \(commit ([0-9a-f]{7,}\+?|unknown), (gcc|clang) [0-9.]+, [a-z0-9_]+\)\$" || { echo "expected the version, commit and compiler, found: $said"; exit 1; }
