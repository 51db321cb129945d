#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes for Spack and conda name this version, options that meson_options.txt has, and each library that meson.build asks for.
Neither spack nor rattler-build is needed: Spack's names are recorded by stand-ins.

usage: recipes.py SOURCE VERSION
"""
import os
import re
import sys
import types

source, version = sys.argv[1:3]
here = f"{source}/deploy/package/recipes"
# the name of each library in meson.build, in Spack, in conda
NAMES = {"jansson": ("jansson", "jansson"), "expat": ("expat", "expat"), "sqlite3": ("sqlite", "libsqlite"), "libxxhash": ("xxhash", "xxhash"),
         "libzstd": ("zstd", "zstd"), "zlib": ("zlib-api", "libzlib"), "hwloc": ("hwloc", "libhwloc"), "libfabric": ("libfabric", "libfabric"),
         "ncurses": ("ncurses", "ncurses")}


def text(path):
    with open(f"{source}/{path}") as f:
        return f.read()


asked = set(re.findall(r"^\w+_dep = dependency\('([\w.]+)'", text("meson.build") + text("cli/meson.build"), re.M)) - {"threads", "criterion"}
assert asked == set(NAMES), asked ^ set(NAMES)
options = set(re.findall(r"^option\('(\w+)'", text("meson_options.txt"), re.M))

said = {"depends_on": [], "version": [], "license": []}
spack = types.ModuleType("spack.package")
spack.__all__ = [*said, "MesonPackage"]
spack.MesonPackage = type("MesonPackage", (), {})
for name in said:
    setattr(spack, name, lambda what, name=name, **more: said[name].append(what))
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": spack})
scope = {}
exec(compile(text("deploy/package/recipes/spack/capo-nccl/package.py"), "package.py", "exec"), scope)
assert said["version"] == [version] and said["license"] == ["Apache-2.0"], said
libraries = {d.split("@")[0] for d in said["depends_on"]}
assert libraries - {"c", "meson", "pkgconfig"} == {s for s, _ in NAMES.values()}, libraries

conda = text("deploy/package/recipes/conda/recipe.yaml")
assert re.search(rf"^  version: {re.escape(version)}$", conda, re.M), "the version of the conda recipe"
host = {d.split()[0] for d in re.search(r"host: \[(.*)\]", conda).group(1).split(", ")}
assert host == {c for _, c in NAMES.values()}, host
assert os.path.samefile(f"{here}/conda/{re.search('path: (.*)', conda).group(1)}", source)

used = set(re.findall(r"-D(\w+)=", conda + " ".join(scope["CapoNccl"]().meson_args())))
assert used and used <= options, used - options
print(f"version {version}, {len(NAMES)} libraries, options {sorted(used)}")
