#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/env.md ends with the table the program prints. To rewrite it: CAPO_GOLDEN_REWRITE=1 tests/cli/env_doc.sh CAPO SOURCE
set -eu
capo=$(realpath "$1")
doc=$2/docs/env.md
made=$(mktemp)
trap 'rm -f "$made"' EXIT
{ sed -n '1,4p' "$doc"; "$capo" env --markdown; } >"$made"
[ -z "${CAPO_GOLDEN_REWRITE:-}" ] || cp "$made" "$doc"
diff -u "$doc" "$made" || { echo "docs/env.md is not what capo env prints: CAPO_GOLDEN_REWRITE=1 tests/cli/env_doc.sh build/cli/capo ."; exit 1; }
