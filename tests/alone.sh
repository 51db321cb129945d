#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# alone.sh COMMAND...: runs a test as if nothing else were on this machine. It meets no variable by which a user, a launcher or a CI
# changes what programs print or find, no profile or verdict that earlier jobs left in the user's home, and, where the machine
# permits it, a /dev/shm of its own: no segment of another test, nor what a killed one left behind.
for name in COLUMNS LINES NO_COLOR LANGUAGE LC_ALL RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT \
        http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY SOURCE_DATE_EPOCH \
        $(env | grep -oE '^(NCCL|FI|SLURM|OMPI|PMI|PMIX|LC|XDG)_[A-Za-z0-9_]+='); do
        unset "${name%=}"
done
export LANG=C.UTF-8
umask 022
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
        export XDG_CONFIG_HOME=/dev/shm/config
        exec unshare --mount sh -c 'mount -t tmpfs -o mode=1777 none /dev/shm 2>/dev/null; exec "$@"' sh "$@"
fi
# libfabric's shm provider ends a rank by SIGBUS where the /dev/shm that all tests share is as small as a container's 64 MB
[ "$(df -Pk /dev/shm 2>/dev/null | awk 'END { print $4 + 0 }')" -ge 1048576 ] || export FI_PROVIDER='tcp;ofi_rxm'
export XDG_CONFIG_HOME="${TMPDIR:-/tmp}/capo-test-config.$$"
rm -rf "$XDG_CONFIG_HOME" # of an earlier process of this number
exec "$@"
