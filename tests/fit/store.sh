#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: store.sh CAPO SOURCE_ROOT    the store: add, list, query, fit, rm; many writers at once; each kind of bad file.
set -u
capo=$1
data=$2/tests/fit/data
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
db=$tmp/site.db
bad=0
fail() { echo "FAIL: $*"; bad=1; }
refuses() { # what, expected words, command...
        what=$1 words=$2
        shift 2
        "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null
        [ $? = 1 ] || fail "$what: exit status is not 1"
        grep -q "$words" "$tmp/err" || fail "$what: $(cat "$tmp/err")"
        [ "$(wc -l < "$tmp/err")" = 1 ] || fail "$what: more than one line"
}

"$capo" store add "$db" --cluster test --nic none --driver 580 "$data"/h100_g4_auto.log "$data"/h100_g4_Ring.log "$data"/h100_g4_NVLS.log > "$tmp/out" || fail add
grep -q 'import 1: 36 samples of 3 trials' "$tmp/out" || fail "add says: $(cat "$tmp/out")"
"$capo" store list "$db" | grep -q '  test  ' || fail list

# What went in comes out: the same fit from the store as from the files, but for the driver that was named to the store.
"$capo" fit "$data"/h100_g4_auto.log "$data"/h100_g4_Ring.log "$data"/h100_g4_NVLS.log | sed '1d; s/; driver [^;]*//' > "$tmp/a"
"$capo" store fit "$db" | sed '1d; s/; driver [^;]*//' > "$tmp/b"
cmp "$tmp/a" "$tmp/b" || fail "fit from the store differs"
"$capo" export "$data"/h100_g4_auto.log "$data"/h100_g4_Ring.log "$data"/h100_g4_NVLS.log > "$tmp/a"
"$capo" export "store:$db" > "$tmp/b"
cmp "$tmp/a" "$tmp/b" || fail "export from the store differs"
[ "$("$capo" store query "$db" --sql 'select count(*) from samples where algo = '"'NVLS'" | tail -1)" = 12 ] || fail "query --sql"
"$capo" store query "$db" --ranks 2 2>&1 | grep -q '^source' || fail "an empty query has its heads"
"$capo" store query "$db" --sql 'delete from sample' 2> "$tmp/err" && fail "a query may write"
grep -q 'only reads' "$tmp/err" || fail "query: $(cat "$tmp/err")"

# Questions that are asked often need no sort: of two million samples it would take a second or more.
for by in 'gpu, nccl' 'bytes' 'bytes, forced_algo, forced_proto' 'proto, bytes, algo' 'collective, bytes, algo, proto' \
        'collective, bytes, forced_proto, forced_algo' 'algo, proto' 'cluster, gpu' 'gpu, nccl, layout, collective, bytes, forced_algo, forced_proto'; do
        "$capo" store query "$db" --sql "explain query plan select $by, avg(us) from samples where place = 1 group by $by" > "$tmp/out" || fail "plan of $by"
        grep -q 'SCAN k USING INDEX' "$tmp/out" || fail "by $by: not by an index: $(cat "$tmp/out")"
        grep -q 'TEMP B-TREE' "$tmp/out" && fail "by $by: sorts: $(cat "$tmp/out")"
done

# Writers at once: 8 processes, 5 adds each; nothing lost, nothing torn.
for p in 1 2 3 4 5 6 7 8; do
        (for k in 1 2 3 4 5; do "$capo" store add "$db" --cluster "w$p" "$data"/algo_sweep.txt > /dev/null || exit 1; done) &
done
wait
[ "$("$capo" store query "$db" --sql 'select count(*), sum(n) from (select count(*) n from samples where cluster like '"'w%'"' group by import)' | tail -1)" = 40,720 ] ||
        fail "8 writers at once: $("$capo" store query "$db" --sql 'select cluster, count(*) from samples group by 1')"

# Two processes that make the same new store at once.
for p in 1 2 3 4; do "$capo" store add "$tmp/new.db" "$data"/algo_sweep.txt > /dev/null || fail "new store, writer $p" & done
wait
[ "$("$capo" store query "$tmp/new.db" --sql 'select count(*) from import' | tail -1)" = 4 ] || fail "4 writers of a new store"

"$capo" store rm "$db" 1 || fail rm
[ "$("$capo" store query "$db" --sql 'select count(*) from sample where trial in (select id from trial where import = 1)' | tail -1)" = 0 ] || fail "rm leaves samples"
refuses "rm twice" 'no import 1' "$capo" store rm "$db" 1

# A store where its reader may write neither the file nor its folder: a colleague's, or on a file system that is read-only.
mkdir "$tmp/theirs" "$tmp/theirs/50%?#"
cp "$db" "$tmp/theirs/s.db"
cp "$db" "$tmp/theirs/50%?#/s.db"
chmod 444 "$tmp/theirs/s.db" "$tmp/theirs/50%?#/s.db"
chmod 555 "$tmp/theirs" "$tmp/theirs/50%?#"
as_other() { "$@"; }
if [ "$(id -u)" = 0 ]; then
        chmod 755 "$tmp"
        as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
fi
if as_other "$capo" --version > /dev/null 2>&1 && as_other test -r "$tmp/theirs/s.db"; then
        for f in s.db '50%?#/s.db'; do
                "$capo" store query "$db" --sql 'select count(*) from sample' > "$tmp/a"
                as_other "$capo" store query "$tmp/theirs/$f" --sql 'select count(*) from sample' > "$tmp/b" 2>&1
                cmp -s "$tmp/a" "$tmp/b" || fail "a store that may not be written, $f: $(cat "$tmp/b")"
                as_other "$capo" store list "$tmp/theirs/$f" 2>&1 | grep -q '  w1 ' || fail "list of a store that may not be written, $f"
        done
        chmod 755 "$tmp/theirs"
        echo 'a log that nobody has put into its store yet' > "$tmp/theirs/s.db-wal"
        chmod 444 "$tmp/theirs/s.db-wal"
        chmod 555 "$tmp/theirs"
        refuses "a killed writer's" 'left by a writer that was killed' as_other "$capo" store list "$tmp/theirs/s.db"
else
        echo "nobody else can read here: a store that may not be written is not tried"
fi
chmod -R u+w "$tmp/theirs"

refuses "no such store" 'No such file' "$capo" store list "$tmp/none.db"
echo 'this is not a database, it is a sentence that is long enough to be looked at as one' > "$tmp/text.db"
refuses "text" 'is not a store' "$capo" store list "$tmp/text.db"
cp "$tmp/new.db" "$tmp/cut.db"
size=$(wc -c < "$tmp/cut.db")
dd if=/dev/urandom of="$tmp/cut.db" bs=1 seek=4096 count=$((size - 4096)) conv=notrunc 2> /dev/null
refuses "corrupt" 'damaged' "$capo" store query "$tmp/cut.db" --ranks 3
if command -v python3 > /dev/null; then
        python3 - "$tmp" <<'PY'
import sqlite3, sys
d = sys.argv[1]
c = sqlite3.connect(d + "/newer.db"); c.execute("create table x (a)"); c.execute("pragma application_id = 1667330159"); c.execute("pragma user_version = 99"); c.commit(); c.close()
for name, version, table in ("negative", -1, "x"), ("none", 0, "x"), ("wrong", 1, "name"):
    c = sqlite3.connect(d + "/" + name + ".db"); c.execute("create table %s (a)" % table)
    c.execute("pragma application_id = 1667330159"); c.execute("pragma user_version = %d" % version); c.commit(); c.close()
c = sqlite3.connect(d + "/other.db"); c.execute("create table x (a)"); c.commit(); c.close()
PY
        refuses "newer" 'a newer capo wrote it' "$capo" store list "$tmp/newer.db"
        for name in negative none; do
                refuses "$name" 'damaged: there is no version' "$capo" store add "$tmp/$name.db" "$data"/algo_sweep.txt
        done
        refuses "wrong" 'no such table: import' "$capo" store add "$tmp/wrong.db" "$data"/algo_sweep.txt
        refuses "somebody else's" "not a store of capo's" "$capo" store add "$tmp/other.db" "$data"/algo_sweep.txt
        # a store of version 1, as the first release wrote it: readers leave it as it is, the next add brings it up to date
        python3 - "$tmp" "$2/profiles/store/store.c" <<'PY'
import re, sqlite3, sys
d, source = sys.argv[1:]
text = open(source).read()
step = text[text.index("steps[CAPO_STORE_VERSION] = {"):]
step = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', step[:step.index('",\n') + 1]))
c = sqlite3.connect(d + "/old.db"); c.executescript(step)
c.execute("insert into import values (1, '2026-01-01', 'old', 'f')"); c.execute("insert into trial values (1, 1, 'f', 1, 'G', 22902, '4', 1, 4, 50)")
c.execute("insert into sample values (1, 1, 1, 1024, 5.5, 1, 1, 7, 0, 0, 0, 0, 0)")
c.execute("pragma application_id = 1667330159"); c.execute("pragma user_version = 1"); c.commit(); c.close()
PY
        : >"$tmp/empty.db"
        refuses "empty, reading" 'is empty, not a store' "$capo" store list "$tmp/empty.db"
        cp "$tmp/old.db" "$tmp/kept.db"
        "$capo" store list "$tmp/old.db" | grep -q ' old ' || fail "list of an older store"
        [ "$("$capo" store query "$tmp/old.db" --sql "select cluster, collective, us from samples" | tail -1)" = old,AllReduce,5.5 ] || fail "query of an older store"
        cmp "$tmp/old.db" "$tmp/kept.db" || fail "a reader changed an older store"
        "$capo" store add "$tmp/old.db" "$data"/algo_sweep.txt > /dev/null || fail "migration"
        [ "$("$capo" store query "$tmp/old.db" --sql "select cluster, collective, us from samples where import = 1" | tail -1)" = old,AllReduce,5.5 ] || fail "migrated sample"
        # locked: another process holds the writer's place until it is asked to release it
        python3 - "$db" "$tmp/held" "$tmp/go" <<'PY' &
import os, sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=100); c.execute("begin exclusive"); open(sys.argv[2], "w")
while not os.path.exists(sys.argv[3]): time.sleep(0.05)
PY
        for _ in $(seq 500); do [ -e "$tmp/held" ] && break; sleep 0.1; done
        refuses "locked" 'locked by another process' "$capo" store add "$db" --wait 1 "$data"/algo_sweep.txt
        : > "$tmp/go"
        wait
fi
exit $bad
