#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `meson install` puts into a folder is enough to write a reader with, in C and in C++, and such a reader sees what
# capo dump sees. usage: installed.sh CAPO SOURCE BUILD SAMPLE
set -eu
capo=$1 source=$2 build=$3 sample=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
DESTDIR=$dir/stage meson install -C "$build" --no-rebuild --quiet --tags devel >"$dir/said" || { cat "$dir/said"; exit 1; }
include=$(dirname "$(dirname "$(find "$dir/stage" -name log.h)")")
"$capo" dump "$sample" | awk '/^[0-9]+ [A-Z]+ [0-9]+$/ { print $2, $3 }' >"$dir/expect"
test -s "$dir/expect"
compile() {
	name=$1
	shift
	"$@" -Wall -Wextra -Wpedantic -Werror -I"$include" -o "$dir/$name" "$source/tests/headers/reader.c"
	"$dir/$name" "$sample" | sed '1d; s/ \([0-9]*\) .*/ \1/' >"$dir/got"
	cmp "$dir/expect" "$dir/got"
	"$dir/$name" "$sample" | grep -q '^CELL .* AllReduce$'
}
# CC may be two words (ccache gcc)
# shellcheck disable=SC2086
compile c ${CC:-cc} -std=c11
if command -v ${CXX:-c++} >"$dir/said"; then
	compile cxx ${CXX:-c++} -std=c++11 -x c++
else
	echo "no C++ compiler: C only"
fi
