#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: scale.sh GEN_CSV SOURCE_ROOT [ROWS]    runs deploy/fleet/best_choice.sql on generated lines
# with a known answer. Default 200000 lines; the full size is 10000000. Skipped aloud (77) where there is no DuckDB: set
# CAPO_PYTHON to a python that has it (pip install duckdb), or CAPO_SCALE_INSTALL=1 to let a venv be made.
set -u
gen=$(realpath "$1") root=$(realpath "$2") rows=${3:-200000}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-scale.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
python=${CAPO_PYTHON:-python3}
if ! "$python" -c 'import duckdb' 2> /dev/null; then
        if [ "${CAPO_SCALE_INSTALL:-}" = 1 ] && python3 -m venv "$tmp/venv" && "$tmp/venv/bin/pip" -q install duckdb; then
                python=$tmp/venv/bin/python
        else
                echo "SKIPPED: no DuckDB: \"$python\" cannot import duckdb (CAPO_PYTHON, CAPO_SCALE_INSTALL=1)"
                exit 77
        fi
fi
"$gen" "$tmp/samples" "$rows" || exit 1
cd "$tmp" && "$python" - "$root/deploy/fleet/best_choice.sql" "$rows" <<'PY'
import sys, time, duckdb
sql = open(sys.argv[1]).read()
db = duckdb.connect()
db.execute("SET threads = 2")
t = time.monotonic()
db.execute(sql)
t = time.monotonic() - t
n = db.execute("SELECT sum(n) FROM cell").fetchone()[0]
assert n == int(sys.argv[2]), n
rows = db.execute("SELECT layout, bytes, algo, proto, gain, beyond_noise FROM answer").fetchall()
assert len(rows) == 3 * 20, len(rows)
for layout, size, algo, proto, gain, sure in rows:
    if size <= 65536:
        assert (algo, proto, sure) == ("Ring", "LL", True) and 0.17 < gain < 0.23, (layout, size, algo, proto, gain, sure)
    elif size >= 1 << 20:
        assert (algo, proto, sure) == ("Ring", "Simple", True) and 0.17 < gain < 0.23, (layout, size, algo, proto, gain, sure)
    else:
        assert gain < 0 and not sure, (layout, size, algo, proto, gain, sure)
print(f"{n:,} lines, {len(rows)} answers, {t:.1f} s in DuckDB {duckdb.__version__}")
PY
