# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the commands of the pages find: programs of the names that users have, and per page the files that it speaks of. To be
# sourced by commands.py; $BUILD, $SOURCE, $PYTHON are set, the working folder is the page's.

program() { # NAME: a script from standard input
        { echo '#!/bin/bash'; cat; } >"$1"
        chmod +x "$1"
}

# Launchers and interpreters, in PATH for all pages.
programs() {
        mkdir -p bin
        program bin/python <<<"exec $PYTHON \"\$@\""
        program bin/torchrun <<<'[ "$1" = --nproc-per-node ] && exec launch -n "$2" --timeout 100 -- python "${@:3}"'
        program bin/srun <<<'exec launch -n 2 --timeout 100 -- "$@"'
        program bin/mpirun <<'END'
n=2
while :; do case $1 in -n) n=$2; shift 2 ;; --mca) shift 3 ;; *) break ;; esac; done
exec launch -n "$n" --timeout 100 -- "$@"
END
        # The page starts the server and at once the client, as a person would after a moment: the client tries until it is there.
        # They meet on a port of their own, since other tests, and people, have theirs on the usual one. The server tells which: one that
        # nobody has as it starts, below those that the system hands out.
        real=$(command -v fi_pingpong) && program bin/fi_pingpong <<END
client() { case \${!#} in *.*.*.*) ;; *) return 1 ;; esac; }
for try in {1..200}; do
        if client "\$@"; then
                said=\$($real -P "\$(cat $PWD/port)" "\$@" 2>&1)
                s=\$?
                [ \$s = 0 ] && break
        else
                port=\$((10000 + RANDOM % 20000))
                echo \$port >$PWD/port
                said=\$($real -B \$port "\$@" 2>&1)
                s=\$?
                [[ \$said = *"in use"* ]] || break
        fi
        sleep 0.2
done
echo "\$said"
exit \$s
END
        return 0
}

# Jobs, in every page's folder. all_reduce_perf takes any sizes and tries small ones.
common() {
        cat >train.py <<'END'
import os
os.execvp("ddp_train", ["ddp_train", "--epochs", "1"])
END
        program train <<<'exec ddp_train --epochs 1'
        program ddp_train <<<'exec launch -n 4 --timeout 100 -- '"$BUILD"'/tests/jobs/ddp_train --epochs 4'
        program allreduce <<<'exec coll_perf allreduce -b 1K -e 4K -n 5'
        program all_reduce_perf <<'END'
perf="coll_perf allreduce -b 1K -e 64K -f 8 -n 20 -w 1"
[ -n "$RANK" ] && exec $perf
exec launch -n 2 --timeout 100 -- $perf
END
}

recorded() { # DIR RANKS PROGRAM...
        capo run --quiet --sample 1 --dir "$1" -- launch -n "$2" --timeout 100 -- "${@:3}" >/dev/null
}

swept() { # DIR
        capo sweep --quiet --coll all_reduce --dir "$1" -- launch -n 2 -- coll_perf allreduce -b 1K -e 64K -f 8 -n 20 >/dev/null
}

# Pages that others show without the command: what capo prints today.
reference() {
        capo run --quiet --dir reference -- launch --layout 1+3 --timeout 100 -- ddp_train --replay bert-large --scale 0.01 --steps 8 >/dev/null 2>&1
        capo report reference
        capo report --all --topo "$SOURCE/tests/fragment/data/standin-dgx1v.xml" reference
        mkdir late
        "$BUILD/tests/golden/gen_job" late layout=3+5 steps=40 sizes=25M,64K trace=1 gpu=1 late_rank=5 late_ns=88000 >/dev/null
        capo report late
}

measured_profile() { # FILE: rules of the size that the pages speak of
        cat >"$1" <<'END'
{"capo_profile": 1, "rules": [
 {"when": {"nodes": 2, "layout": "3+5"},
  "allreduce": [{"upto": "256K", "algo": "tree", "proto": "ll128", "gain": 0.17}, {"upto": "max", "leave": true}]},
 {"when": {"ranks": 8}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]},
 {"when": {"nodes": 4}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple"}]}
]}
END
}

old_nccl() { # RELEASE: a link to it, where this machine has it
        local at=${CAPO_NCCL_CACHE:-$SOURCE/.deps/nccl-releases}/$1
        at=$(find -L "$at" -name 'libnccl.so.2' 2>/dev/null | head -n 1)
        [ -z "$at" ] || { mkdir -p "nccl-$1" && ln -s "$at" "nccl-$1/libnccl.so.2"; }
}

page_compare() {
        for i in 1 2 3; do
                recorded auto/$i 4 coll_perf allreduce -b 1K -e 256K -f 16 -n 10
                NCCL_ALGO=Tree NCCL_PROTO=Simple recorded tree/$i 4 coll_perf allreduce -b 1K -e 256K -f 16 -n 10
        done
}

page_doctor() {
        ln -sf "$BUILD/tests/jobs/coll_perf" all_reduce_perf
}

page_explain() {
        measured_profile p.json
        mkdir -p capo-logs/48213
        "$BUILD/tests/golden/gen_job" capo-logs/48213 layout=3+5 steps=4 sizes=25M gpu=1 trace=1 >/dev/null
}

page_fabric() {
        cp "$SOURCE/tests/fragment/data/standin-dgx1v.xml" nics.xml
}

page_fit() {
        swept capo-logs
        swept sweep/1
}

page_fragments() {
        :
}

page_plan() {
        cat >mycluster.json <<'END'
{"capo_profile": 1, "rules": [
 {"when": {"nodes": 2, "layout": "3+5"},
  "basis": "modelled",
  "allreduce": [{"upto": "64K", "algo": "tree", "proto": "ll", "channels": 1}, {"upto": "1M", "leave": true}, {"upto": "max", "algo": "ring", "proto": "simple"}]}
]}
END
}

page_report() {
        ln -s "$SOURCE/tests" tests
        recorded logs 2 ddp_train --epochs 1
}
page_report_page() {
        ln -s "$SOURCE/tests" tests
        recorded topo 4 coll_perf allreduce -b 256K -e 4M -f 4 -n 10
}

page_scale() {
        recorded capo-logs/1 2 coll_perf allreduce -b 1K -e 4K -n 5
        recorded capo-logs/2 2 coll_perf allreduce -b 1K -e 4K -n 5
}

page_standin() {
        ln -s "$BUILD/tests" tests
}

page_store() {
        cp "$SOURCE"/tests/fit/data/h100_g4_*.log .
}

page_sweep() {
        :
}

page_tuner() {
        sed -n '/^```json/,/^```/p' "$SOURCE/docs/profile-format.md" | sed '/^```/{s/.*//;t end};p;d;:end;1d;q' >mycluster.json
        printf '%s\n' '{"capo_profile": 1, "rules": [{"when": {}, "allreduce": [{"upto": "max", "algo": "tree", "proto": "simple", "channels": 1}]}]}' >l.json
        cat >old.csv <<'END'
allreduce,0,1048576,tree,ll,2,-1,-1
allgather,0,4294967295,ring,simple,-1,2,-1
allreduce,0,65536,ring,ll,-1,2,8
allreduce,2097152,4194304,nvls,ll,-1,1,8
allreduce,1024,65536,tree,simple,-1,-1,8
END
}
