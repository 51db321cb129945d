#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles by itself, so includes may stand in any order. wrap_set.h is none: it is a body that is included
# with its parameters defined. usage: alone.sh SOURCE CC-AND-FLAGS...
set -eu
cd "$1"
shift
find include core shim tuner analysis profiles cli tests -name '*.h' ! -name wrap_set.h | LC_ALL=C sort |
	xargs -P 2 -I {} "$@" -D_GNU_SOURCE -Iinclude -I. -Itests/standin/include -std=gnu11 -Wall -Werror -fsyntax-only -include {} -x c /dev/null
