#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A launcher of ranks: scene_launch.py LIKE RANKS UNRECORDED -- COMMAND...

LIKE says what becomes of the others when one rank fails (torchrun also does so, after 30 s):
  torchrun  SIGTERM, and SIGKILL three seconds later
  kill      SIGKILL at once
  srun      they go on
UNRECORDED: ranks that run without capo, 2,3 or -. SIGTERM to the launcher ends all ranks."""
import os
import signal
import socket
import subprocess
import sys
import time

GRACE_S = 3


class Launcher:
    def __init__(self, like, n, unrecorded, command):
        self.like, self.deadline, self.status = like, None, 0
        self.kept = socket.socket()  # nobody else is given its port; rank 0 reuses it
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept.bind(("127.0.0.1", 0))
        port = str(self.kept.getsockname()[1])
        self.ranks = []
        for r in range(n):
            env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(n),
                       LOCAL_WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
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
            self.send(signal.SIGTERM)
            self.deadline = time.monotonic() + GRACE_S

    def wait(self):
        while any(p.poll() is None for p in self.ranks):
            failed = [p.returncode for p in self.ranks if p.poll()]
            if failed and not self.status:
                self.status = failed[0] if failed[0] > 0 else 128 - failed[0]
                if self.like == "kill":
                    self.send(signal.SIGKILL)
                elif self.like == "torchrun":
                    self.stop()
            if self.deadline and time.monotonic() > self.deadline:
                self.send(signal.SIGKILL)
            time.sleep(0.005)
        return self.status


def main():
    like, n, unrecorded, dashes, *command = sys.argv[1:]
    if like not in ("torchrun", "kill", "srun") or dashes != "--":
        sys.exit(__doc__)
    launcher = Launcher(like, int(n), {int(r) for r in unrecorded.split(",") if r != "-"}, command)
    signal.signal(signal.SIGTERM, lambda *_: launcher.stop())
    sys.exit(launcher.wait())


main()
