#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fleet.sh CAPO GEN_JOB SOURCE [JOBS RANKS]    deploy/fleet/slow_jobs.sql in DuckDB on generated jobs, of
# which one is slow; medians are compared with capo report's. Then the same from Parquet, and with Spark where there are Java and
# pyspark. Default 4 jobs of 8 ranks; the table of the page has 100 of 1000.
# Skipped aloud (77) without DuckDB: CAPO_PYTHON names a python that has it, or CAPO_SCALE_INSTALL=1 lets a venv be made.
set -u
capo=$(realpath "$1") gen=$(realpath "$2") root=$(realpath "$3") jobs=${4:-4} ranks=${5:-8}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/capo-fleet.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
python=${CAPO_PYTHON:-python3}
if ! "$python" -c 'import duckdb' 2>/dev/null; then
        if [ "${CAPO_SCALE_INSTALL:-}" = 1 ] && python3 -m venv "$tmp/venv" && "$tmp/venv/bin/pip" -q install duckdb; then
                python=$tmp/venv/bin/python
        else
                echo "SKIPPED: no DuckDB: \"$python\" cannot import duckdb (CAPO_PYTHON, CAPO_SCALE_INSTALL=1)"
                exit 77
        fi
fi
cd "$tmp" && mkdir samples || exit 1
i=0
while [ $i -lt "$jobs" ]; do
        slow=
        [ $i = 2 ] && slow=slow_ns=1500000
        mkdir job$i
        # shellcheck disable=SC2086
        "$gen" job$i layout=$((ranks / 8))x8 steps=20 sizes=1M,64M trace=1 gpu=2000 $slow >/dev/null || exit 1
        "$capo" export job$i -o samples/job$i.csv || exit 1
        i=$((i + 1))
done
# an export of an earlier release lacks the newest columns
cut -d, -f1-22 samples/job1.csv >old && head -1 old | grep -q ',us$' && mv old samples/job1.csv || { echo "the first 22 columns do not end with us: $(head -1 samples/job1.csv)"; exit 1; }
"$python" - "$root/deploy/fleet" "$capo" "$jobs" <<'PY'
import csv, glob, json, os, re, shutil, subprocess, sys, time, duckdb
folder, capo, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
question = open(f"{folder}/slow_jobs.sql").read()
db = duckdb.connect()
begin = time.monotonic()
db.execute(question)
took = time.monotonic() - begin
slow = db.execute("SELECT DISTINCT job FROM slow").fetchall()
assert slow == [("job2",)], slow
for job in ("job0", "job2"):
    report = json.loads(subprocess.run([capo, "report", "--json", job], capture_output=True, text=True, check=True).stdout)
    rows = {r["bytes"]: r for r in report["rows"] if r["call"] == "AllReduce"}
    found = db.execute("SELECT bytes, median(us), median(busbw_gbs) FROM call WHERE job = ? GROUP BY bytes", [job]).fetchall()
    assert len(found) == len(rows) == 2, (found, rows)
    for size, us, gbs in found:
        assert abs(us / rows[size]["p50_us"] - 1) < 0.01 and abs(gbs / rows[size]["busbw_gbs"] - 1) < 0.01, (job, size, us, gbs, rows[size])
print(f"{jobs} jobs, {db.execute('SELECT count(*) FROM call').fetchone()[0]} calls, {took:.1f} s in DuckDB {duckdb.__version__}; as capo report within 1 %")

begin = time.monotonic()
db.execute(open(f"{folder}/samples_parquet.sql").read())
stored = time.monotonic() - begin
again = duckdb.connect()
begin = time.monotonic()
again.execute(re.sub(r"read_csv\(.*?\}\)", "read_parquet('samples.parquet')", question, flags=re.S))
took = time.monotonic() - begin
rows = "SELECT job, bytes, calls, round(p50_us, 3) FROM slow ORDER BY ALL"
wanted = db.execute(rows).fetchall()
assert len(wanted) == 2 and again.execute(rows).fetchall() == wanted, (wanted, again.execute(rows).fetchall())
print(f"Parquet: written in {stored:.1f} s, the same rows in {took:.1f} s")

if not shutil.which("java"):
    print("Spark: not tried, no java")
    sys.exit(0)
try:
    import pyspark
except ImportError:
    print("Spark: not tried, no pyspark")
    sys.exit(0)
begin = time.monotonic()
subprocess.run([sys.executable, f"{folder}/slow_jobs_spark.py"], check=True, stderr=subprocess.DEVNULL, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"})
took = time.monotonic() - begin
found = []
for path in glob.glob("slow/*.csv"):
    with open(path) as table:
        found += [(r["source"], int(r["bytes"]), int(r["calls"]), round(float(r["p50_us"]), 3)) for r in csv.DictReader(table)]
assert sorted(found) == wanted, (sorted(found), wanted)
print(f"Spark {pyspark.__version__}: the same rows in {took:.0f} s")
PY
