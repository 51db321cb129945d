#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of the player (player.c) that a test asks about while it stands: TEST CAPO BUILD."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CAPO, BUILD = map(os.path.abspath, sys.argv[1:3])


class Job:
    def __init__(self, script, n, command=None, also="", **settings):
        """The player of @script; or @command, each of whose words has FOLDER filled in. @also: a library that it has loaded, too."""
        self.folder = tempfile.mkdtemp(prefix="capo-watch-test-")
        self.logs = os.path.join(self.folder, "logs")
        self.watcher = None
        with open(os.path.join(self.folder, "script"), "w") as f:
            f.write(script)
        self.kept = socket.socket()  # nobody else is given its port; rank 0 reuses it
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept.bind(("127.0.0.1", 0))
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAPO_", "NCCL_"))}
        env.update(LD_LIBRARY_PATH=os.path.join(BUILD, "tests/standin"), LD_PRELOAD=os.path.join(BUILD, "shim/libcapo.so") + " " + also,
                   CAPO_DIR=self.logs, CAPO_GPU_SAMPLE="1", NCCL_MAX_NCHANNELS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.kept.getsockname()[1]),
                   WORLD_SIZE=str(n), **settings)
        self.ranks = []
        for r in range(n):
            with open(self.path("stderr.%d" % r), "w") as err:
                self.ranks.append(subprocess.Popen([w.replace("FOLDER", self.folder) for w in command] if command else
                                                   [os.path.join(BUILD, "tests/hang/player"), self.path("script")], stderr=err,
                                                   stdin=subprocess.DEVNULL, env=dict(env, RANK=str(r), LOCAL_RANK=str(r))))

    def watch(self, seconds, *also):
        """capo watch of this job, until its end: hang.txt after so long. Looks often, because a test waits for it."""
        self.watcher = subprocess.Popen([CAPO, "watch", "--dir", self.logs, "--until", str(os.getpid()), "--hang", str(seconds), "--every", "0.5", *also],
                                        stderr=open(self.path("watch.stderr"), "w"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def copy(self):
        """The logs as they are now, in a folder of which no process is to be looked at."""
        shutil.rmtree(self.path("copy"), ignore_errors=True)
        return shutil.copytree(self.logs, self.path("copy"), ignore=shutil.ignore_patterns("hang.*"))

    def lines(self, rank, call="AllReduce"):
        """What the watch said of that call. That of a communicator in the making is not asked for: a busy machine may be slow there."""
        return [line for line in self.read("stderr.%d" % rank).splitlines() if call in line and " has not moved for " in line]

    def go(self, word):
        open(self.path("script." + word), "w").close()

    def log(self, rank):
        name = [n for n in os.listdir(self.logs) if ".%d.capo" % self.ranks[rank].pid in n]
        return os.path.join(self.logs, name[0]) if name else ""

    def frames(self, rank):
        """The `nth` of each HANG frame."""
        if not os.path.isdir(self.logs) or not self.log(rank):
            return []
        text = subprocess.run([CAPO, "dump", self.log(rank)], capture_output=True, text=True).stdout
        return [line.split("\t")[1] for line in text.splitlines() if line.startswith("    nth\t")]

    def wait(self, what, true):
        end = time.monotonic() + 240
        while not true():
            if time.monotonic() > end or any(p.poll() for p in self.ranks):
                raise AssertionError("no %s; stderr: %s" % (what, [self.read("stderr.%d" % r) for r in range(len(self.ranks))]))
            time.sleep(0.05)

    def end(self):
        self.kept.close()
        if self.watcher:
            self.watcher.terminate()
            self.watcher.wait()
        for p in self.ranks:
            if p.poll() is None:
                p.kill()
            p.wait()
        subprocess.run([CAPO, "recover", self.logs], capture_output=True)
        shutil.rmtree(self.folder)


def check(what, true):
    if not true:
        raise AssertionError(what)
