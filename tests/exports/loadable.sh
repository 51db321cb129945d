#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the loader is asked for by what is installed. Libraries for a job: nothing but glibc, no version of it above 2.28, little thread-local memory. All:
# relocations read-only and bound at the start, no executable stack, position-independent, stack protector, fortified calls.
# usage: loadable.sh job|program FILE
set -u
kind=$1 file=$2 bad=0
fail() { echo "$file: $*"; bad=1; }
command -v readelf >/dev/null || exit 77

if [ "$kind" = job ]; then
        for lib in $(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
                case $lib in
                libc.so.6 | libpthread.so.0 | libdl.so.2 | ld-linux-*) ;;
                *) fail "needs $lib" ;;
                esac
        done
        newest=$(readelf -VW "$file" | grep -oE 'Name: GLIBC_[0-9.]+' | sed 's/.*_//' | sort -Vu | tail -n 1)
        [ -n "$newest" ] || fail "no version of glibc named at all"
        [ "$(printf '%s\n2.28\n' "$newest" | sort -V | tail -n 1)" = 2.28 ] ||
                fail "needs GLIBC_$newest: $(readelf --dyn-syms -W "$file" | grep -oE "[a-z_0-9A-Z]+@GLIBC_$newest" | tr '\n' ' ')"
        # glibc 2.28 ends a process in which a weak reference names a version that its file lacks (core/base/old_glibc.h)
        weak=$(readelf --dyn-syms -W "$file" | awk '$5 == "WEAK" && $7 == "UND" && $8 ~ /@/ && $8 !~ /^__cxa_finalize@/ { print $8 }')
        [ -z "$weak" ] || fail "weak references with a version: $(echo "$weak" | tr '\n' ' ')"
        # initial-exec: glibc has 1664 bytes of it for all that a process loads late, as NCCL does with a tuner plugin
        tls=$(readelf -lW "$file" | awk '$1 == "TLS" { print $6 }')
        [ $((${tls:-0})) -le 1024 ] || fail "$((tls)) bytes of each thread's memory: loaded late there is no room for so many"
fi
case $file in # what each recorded job calls: pages of files come into memory 16 at a time
*/libcapo.so)
        [ "$(readelf -SW "$file" | grep -c ' \.text')" = 1 ] || fail "more than one section .text: valgrind takes symbols of one"
        order=$(dirname "$0")/../../shim/libcapo.order
        near=$({ sed -n '1,/besides/p' "$order" | tr ' (' '\n\n' | sed -nE 's/^\.text\.(unlikely\.)?([A-Za-z0-9_]+)\)?$/\2/p'
                echo --
                nm -n --defined-only "$file"; } | awk '
                /^--$/ { names = 1; next }
                !names { wanted[$1] = 1; next }
                $3 in wanted && ++found == 1 { first = $1 }
                $3 in wanted && found == 240 { last = $1 }
                END { print found + 0, "0x" first, "0x" last }')
        # shellcheck disable=SC2086
        set -- $near
        [ "$1" -ge 240 ] && [ $(($3 - $2)) -le 196608 ] || fail "the functions of shim/libcapo.order do not stand together: $near"
        ;;
esac
segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
echo "$segments" | grep -q GNU_RELRO || fail "no GNU_RELRO"
echo "$segments" | grep GNU_STACK | grep -q 'RW ' || fail "the stack may be executed"
echo "$segments" | grep -qE '^ *LOAD .* RWE ' && fail "a segment can be written and executed"
echo "$dynamic" | grep -qE 'BIND_NOW|FLAGS_1.* NOW' || fail "not bound at the start"
readelf -hW "$file" | grep -qE 'Type: +DYN' || fail "not position-independent"
symbols=$(readelf -sW "$file")
echo "$symbols" | grep -q __stack_chk_fail || fail "no stack protector"
echo "$symbols" | grep -qE '_chk@' || fail "no fortified call"
exit $bad
