#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# own_shm.sh COMMAND...: runs a test with a /dev/shm of its own, where the machine permits it, so that it meets no segment of
# another test, nor what a killed one left behind.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
        exec unshare --mount sh -c 'mount -t tmpfs -o mode=1777 none /dev/shm 2>/dev/null; exec "$@"' sh "$@"
fi
exec "$@"
