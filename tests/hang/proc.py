# SPDX-License-Identifier: Apache-2.0
"""What /proc says of a process that may be gone."""
import os


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def folders(pid, beginning):
    """What it has open whose name begins so."""
    found = set()
    try:
        for fd in os.listdir("/proc/%d/fd" % pid):
            name = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            if name.startswith(beginning):
                found.add(beginning + name[len(beginning):].split("/")[0])
    except OSError:
        pass  # it is through
    return found


def state(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""
