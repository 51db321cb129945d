# SPDX-License-Identifier: Apache-2.0
"""capo plan with an environment of ours around the NCCL that it asks: what it sets itself for that process, these settings change."""
import os
import shutil


def tree(build, folder, env, libraries=()):
    """capo in a build tree of links below @folder (made, or empty), whose worker runs with @env, and @libraries before its other folders."""
    real, top = os.path.join(build, "profiles/plan/virtual"), os.path.join(folder, "build")
    tools, capo = os.path.join(top, "profiles/plan/virtual"), os.path.join(top, "cli/capo")
    os.makedirs(tools)
    os.makedirs(os.path.dirname(capo))
    shutil.copy(os.path.join(build, "cli/capo"), capo)
    os.symlink(os.path.join(build, "profiles/data"), os.path.join(top, "profiles/data"))
    os.symlink(os.path.join(real, "capo-plan-virtual.so"), os.path.join(tools, "capo-plan-virtual.so"))
    worker = os.path.join(tools, "capo-plan-worker")
    with open(worker, "w") as f:
        f.write("#!/bin/sh\n" + "".join(f"export {k}='{v}'\n" for k, v in env.items()))
        if libraries:
            f.write(f'export LD_LIBRARY_PATH="{":".join(libraries)}:$LD_LIBRARY_PATH"\n')
        f.write(f'exec {real}/capo-plan-worker "$@"\n')
    os.chmod(worker, 0o755)
    return capo
