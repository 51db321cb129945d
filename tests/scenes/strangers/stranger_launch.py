#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stranger_launch.py LIKE RANKS UNRECORDED GPUS DRIVE NODES SET -- COMMAND... SCRIPT

As scene_launch.py, and: GPUS ranks in each process (DRIVE: each, one); NODES: 2+2, pretended hosts
by NCCL_HOSTID (- : one); SET: NAME=VALUE+NAME=VALUE in the environment (- : none). LIKE is
torchrun, kill, srun, or cancel:SECONDS (SIGTERM to all ranks so long after all marks are there,
SIGKILL 3 s later), cancel:SECONDS:GAP (the ranks of each further node GAP seconds behind those of
the node before), cancel:SECONDS:GAP:SIGNAL (that signal). How each process ended, and when
(CLOCK_MONOTONIC), is written to ended.RANK beside the script."""
import os
import signal
import subprocess
import sys
import time

GRACE_S = 3


class Launcher:
    def __init__(self, like, n, unrecorded, gpus, drive, nodes, settings, command):
        self.like, self.deadline, self.status = like, None, 0
        self.folder, self.n = os.path.dirname(command[-1]), n
        self.cancel_at, self.next_node = None, 0
        words = like.split(":") if like.startswith("cancel:") else []
        seconds, gap, number = (words[1:] + ["0", "0", "15"][len(words[1:]):])
        self.cancel_s, self.gap_s, self.signal = float(seconds), float(gap), int(number)
        places = [(node, i) for node, k in enumerate(nodes or [n // gpus]) for i in range(k)]
        self.ranks, self.over = [], set()
        self.nodes = [node for node, _ in places]
        for r in range(n // gpus):
            node, local = places[r]
            env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(local), WORLD_SIZE=str(n // gpus),
                       LOCAL_WORLD_SIZE=str((nodes or [n // gpus])[node]), GROUP_RANK=str(node))
            env.update(settings)
            if gpus > 1:
                env.update(SCENE_GPUS=str(gpus), SCENE_DRIVE=drive)
            if nodes:
                env["NCCL_HOSTID"] = "host-%s-%d" % (os.path.basename(self.folder), node)
            if r in unrecorded:
                env = {k: v for k, v in env.items() if k != "LD_PRELOAD" and k[:5] != "CAPO_"
                       and not k.endswith("_PLUGIN")}
            self.ranks.append(subprocess.Popen(command, env=env))

    def send(self, sig):
        for p in self.ranks:
            if p.poll() is None:
                p.send_signal(sig)

    def stop(self):
        if self.deadline is None:
            self.send(self.signal if self.cancel_at else signal.SIGTERM)
            self.deadline = time.monotonic() + GRACE_S

    def stop_node(self):
        """All ranks at once, or those of the next node."""
        if not self.gap_s:
            self.stop()
        elif time.monotonic() > self.cancel_at + self.next_node * self.gap_s:
            for node, p in zip(self.nodes, self.ranks):
                if node == self.next_node and p.poll() is None:
                    p.send_signal(self.signal)
            self.next_node += 1

    def note_endings(self):
        for r, p in enumerate(self.ranks):
            if r not in self.over and p.poll() is not None:
                self.over.add(r)
                with open(os.path.join(self.folder, "ended.%d" % r), "w") as f:
                    f.write("%d %.4f\n" % (p.returncode, time.monotonic()))

    def time_to_cancel(self):
        if not self.like.startswith("cancel:"):
            return False
        if self.cancel_at is None:
            if all(os.path.exists(os.path.join(self.folder, "place.%d" % r))
                   for r in range(self.n)):
                self.cancel_at = time.monotonic() + self.cancel_s
            return False
        return time.monotonic() > self.cancel_at

    def wait(self):
        while any(p.poll() is None for p in self.ranks):
            self.note_endings()
            failed = [p.returncode for p in self.ranks if p.poll()]
            if failed and not self.status:
                self.status = failed[0] if failed[0] > 0 else 128 - failed[0]
                if self.like == "kill":
                    self.send(signal.SIGKILL)
                elif self.like == "torchrun":
                    self.stop()
            if self.time_to_cancel():
                self.stop_node()
            if self.deadline and time.monotonic() > self.deadline:
                self.send(signal.SIGKILL)
            time.sleep(0.005)
        self.note_endings()
        return 0 if self.cancel_at else self.status


def main():
    like, n, unrecorded, gpus, drive, nodes, settings, dashes, *command = sys.argv[1:]
    if dashes != "--":
        sys.exit(__doc__)
    launcher = Launcher(like, int(n), {int(r) for r in unrecorded.split(",") if r != "-"},
                        int(gpus), drive, [int(k) for k in nodes.split("+") if k != "-"],
                        dict(s.split("=", 1) for s in settings.split("+") if s != "-"), command)
    signal.signal(signal.SIGTERM, lambda *_: launcher.stop())
    sys.exit(launcher.wait())


main()
