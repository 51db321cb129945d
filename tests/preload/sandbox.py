#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that shuts itself in after NCCL was called: what survives, and that the list of what does not is complete.

usage: sandbox.py LIBCAPO FOLDER-OF-THE-TEST-PROGRAMS RELIABILITY.MD
"""
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

lib, bins, page = sys.argv[1:4]
EPERM_CPU_MS = 100  # of 600 ms; a thread that spins for want of a nap uses more, one that naps 20
TSYNC = 1
# system calls of x86-64 that the recorder makes once it runs, and some that it does not
OURS = dict(read=0, close=3, mmap=9, munmap=11, pread64=17, pwrite64=18, madvise=28, getpid=39, exit=60, unlink=87, gettid=186,
            futex=202, sched_getaffinity=204, getdents64=217, openat=257, newfstatat=262, fallocate=285, rt_sigprocmask=14)
OTHERS = dict(write=1, lseek=8, pipe2=293, connect=42, fork=57, execve=59, ptrace=101, mount=165, unlinkat=263, statx=332)
bad = []
if re.search(r'lib[a-z]*san\.so', subprocess.run(['ldd', os.path.join(bins, 'app_sandbox')], capture_output=True, text=True).stdout):
    print('not tried: sandbox: a sanitizer makes system calls and needs more stack than is given here')
    sys.exit(77)


def run(tmp, *args, preload=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith('CAPO_') and k != 'LD_PRELOAD'}
    env.update(CAPO_DIR=tmp + '/logs', CAPO_SHM=tmp + '/shm', **({'LD_PRELOAD': lib} if preload else {}))
    os.makedirs(tmp + '/shm', exist_ok=True)
    return subprocess.run([os.path.join(bins, 'app_sandbox'), *map(str, args)], env=env, capture_output=True, text=True, timeout=300)


def check(good, *text):
    if not good:
        bad.append(' '.join(map(str, text)))
        print(bad[-1], flush=True)


def like_bare(tmp, *args):
    bare, with_capo = run(tmp, *args, preload=False), run(tmp, *args)
    if bare.returncode == 3:
        print('not tried:', *args, bare.stderr.strip())
        return None
    check(bare.returncode == with_capo.returncode == 0, *args, 'bare', bare.returncode, 'recorded', with_capo.returncode, with_capo.stdout)
    return with_capo


def documented():
    """The page's system calls whose filter ends the job: of all threads, of the calling thread alone."""
    text = ' '.join(open(page).read().split())
    row = re.search(r'kills at one of (.*?) \(`SECCOMP_FILTER_FLAG_TSYNC`\)', text)
    own = re.search(r'Without that flag: (.*?)\.', text)
    return [set(re.findall(r'`(\w+)`', m.group(1))) if m else set() for m in (row, own)]


with tempfile.TemporaryDirectory(prefix='capo-sandbox-') as tmp:
    like_bare(tmp, 'first')
    like_bare(tmp, 'unshare')
    if platform.machine() != 'x86_64':
        sys.exit(bool(bad))
    every, own = documented()
    check(every and own, 'the page has no list of system calls')
    check(set(OURS) <= every and own <= every, 'calls that the page does not name:', set(OURS) - every, own - every)
    if like_bare(tmp, 'filter', OTHERS['ptrace'], TSYNC, 'kill') is None:
        sys.exit(bool(bad))
    refused = [(name, number, TSYNC, 'refuse') for name, number in OURS.items()]
    killed = [(name, number, flags, 'kill') for flags, deadly in ((TSYNC, every), (0, own))
              for name, number in {**OURS, **OTHERS}.items() if name not in deadly]

    def outcome(case):
        there = run(tmp, 'filter', *case[1:])
        same = there.returncode == 0 or there.returncode == run(tmp, 'filter', *case[1:], preload=False).returncode
        return case, same, there.stdout

    with ThreadPoolExecutor(4) as pool:  # they mostly sleep
        for case, same, out in pool.map(outcome, refused + killed):
            check(same, *case, 'ends the job, and the page does not say so:', out)
            cpu = re.search(r'done (\d+)', out)
            check(case[3] == 'kill' or cpu and int(cpu[1]) < EPERM_CPU_MS, *case, 'the recorder spins:', out)
sys.exit(bool(bad))
