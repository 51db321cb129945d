#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb that reads logs opens each of them once, whatever it finds in them.
usage: opens.py CAPO GEN_JOB

The kernel counts (inotify): nothing of capo takes part in that."""
import collections
import ctypes
import os
import struct
import subprocess
import sys
import tempfile

IN_ACCESS, IN_CLOSE, IN_OPEN, IN_Q_OVERFLOW = 0x1, 0x18, 0x20, 0x4000
IN_NONBLOCK = 0o4000
capo, gen_job = (os.path.realpath(p) for p in sys.argv[1:3])
libc = ctypes.CDLL(None, use_errno=True)
bad = 0


def count_opens(folders, command):
    """Opens of each log below FOLDERS while COMMAND runs. Reads come between two opens of one file, so that the kernel
    does not make one event of both."""
    fd = libc.inotify_init1(IN_NONBLOCK)
    if fd < 0:
        print('no inotify here:', os.strerror(ctypes.get_errno()))
        sys.exit(77)
    watched = {}
    for folder in folders:
        wd = libc.inotify_add_watch(fd, folder.encode(), IN_ACCESS | IN_CLOSE | IN_OPEN)
        if wd < 0:
            sys.exit(f'{folder}: {os.strerror(ctypes.get_errno())}')
        watched[wd] = folder
    done = subprocess.run([capo] + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    opens, events = collections.Counter(), b''
    try:
        while chunk := os.read(fd, 1 << 20):
            events += chunk
    except BlockingIOError:
        pass
    os.close(fd)
    while events:
        wd, mask, _, length = struct.unpack_from('iIII', events)
        name = events[16:16 + length].rstrip(b'\0').decode()
        events = events[16 + length:]
        if mask & IN_Q_OVERFLOW:
            sys.exit('too many events for the kernel')
        if mask & IN_OPEN and name.endswith('.capo'):
            opens[f'{watched[wd]}/{name}'] += 1
    return opens, done


def check(folders, statuses, *command):
    global bad
    opens, done = count_opens(folders, list(command))
    logs = [f'{f}/{n}' for f in folders for n in os.listdir(f)]
    wrong = {n: opens[n] for n in logs if opens[n] != 1}
    if wrong:
        print(f'capo {" ".join(command)}: expected each of {len(logs)} logs to be opened once, found {wrong}')
        bad = 1
    if done.returncode not in statuses:
        print(f'capo {" ".join(command)}: status {done.returncode}: {done.stderr.decode()}')
        bad = 1


def make_job(folder, *words):
    os.makedirs(folder)
    subprocess.run([gen_job, folder, 'layout=2+2', 'sizes=4194304,1048576', *words], check=True, stdout=subprocess.DEVNULL)


with tempfile.TemporaryDirectory() as top:
    os.chdir(top)
    make_job('a', 'steps=200', 'trace=1', 'gpu=1', 'late_rank=1', 'late_ns=3000000')
    make_job('b', 'steps=100', 'trace=1', 'killed=1', 'kept=50')
    make_job('c', 'steps=100', 'gpu=1')  # of which only the cells are there
    for job in 'abc':
        first = f'{job}/{sorted(os.listdir(job))[0]}'
        every = sorted(f'{job}/{name}' for name in os.listdir(job))
        check([job], [0], 'report', job)
        check([job], [0], 'report', '--no-recover', '--json', *every)
        check([job], [0, 1, 3], 'hang', job)
        check([job], [0, 1, 3], 'hang', '--json', *every)
        check([job], [0], 'trace', '-o', 'trace.json', job)
        check([job], [0], 'dump', '--records', *every)
        check([job], [0, 1], 'explain', 'allreduce', '4M', '--log', job)
        check([job], [0, 1], 'export', job, '-o', 'samples.csv')
        check([job], [0, 1], 'fit', job, '-o', 'profile.json')
        check([job], [0, 1, 3], 'expect', job)
        check([job], [0, 1], 'store', 'add', 'store.db', job)
    check(['a', 'b'], [0], 'diff', 'a', 'b')
    os.makedirs('both')  # two jobs in one folder: which log is of which job is read from all of each
    for job in 'ac':
        for name in os.listdir(job):
            os.rename(f'{job}/{name}', f'both/{job}.{name}')
    check(['both'], [0], 'report', 'both')
    check(['both'], [0], 'diff', 'both', 'b')
sys.exit(bad)
