# SPDX-License-Identifier: Apache-2.0
# Spack: in a checkout of capo
#   spack repo add deploy/package/recipes/spack
#   spack dev-build capo-nccl@0.2.0
from spack.package import *


class CapoNccl(MesonPackage):
    """Records what the collectives of an unmodified NCCL job cost, explains hangs and slow ranks, and tunes NCCL as its tuner plugin."""

    license("Apache-2.0")
    version("0.2.0")

    depends_on("c", type="build")
    depends_on("meson@0.61.2:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("expat")
    depends_on("hwloc@2:")
    depends_on("jansson@2.13:")
    depends_on("libfabric", type="build")  # its headers: capo opens the job's own
    depends_on("ncurses")
    depends_on("sqlite@3:")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("zstd")

    def meson_args(self):
        return ["-Dtests=disabled"]
