# SPDX-License-Identifier: Apache-2.0
"""capo as a Python package: the command, and where its libraries are."""
import os
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree")


def preload():
    """The path for LD_PRELOAD."""
    return os.path.join(TREE, "lib", "libcapo.so")


def plugin():
    """The path for NCCL_TUNER_PLUGIN."""
    return os.path.join(TREE, "lib", "libnccl-tuner-capo.so")


def main():
    """The command capo; it replaces this process."""
    program = os.path.join(TREE, "bin", "capo")
    os.execv(program, [program] + sys.argv[1:])
