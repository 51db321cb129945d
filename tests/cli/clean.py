#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo clean removes what capo made and nothing else: clean.py CAPO GEN_JOB"""
import os
import subprocess
import sys
import tempfile
import time

capo, gen_job = map(os.path.abspath, sys.argv[1:3])


def run(*words, status=0):
    out = subprocess.run([capo, *words], capture_output=True, text=True, timeout=60)
    assert out.returncode == status, out
    return out.stdout + out.stderr


def age(path, days):
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)


def write(path, text, days):
    with open(path, "w") as f:
        f.write(text)
    age(path, days)


def make_job(folder, days):
    os.makedirs(folder, exist_ok=True)
    subprocess.run([gen_job, folder], check=True, capture_output=True)
    for name in os.listdir(folder):
        age(os.path.join(folder, name), days)
    return len(os.listdir(folder))


with tempfile.TemporaryDirectory() as top:
    logs = os.path.join(top, "logs")
    os.mkdir(logs)
    n = make_job(f"{logs}/old", 20)
    make_job(f"{logs}/young", 3)
    make_job(f"{logs}/mixed", 20)
    age(os.path.join(f"{logs}/mixed", sorted(os.listdir(f"{logs}/mixed"))[0]), 1)  # its job goes on
    make_job(f"{logs}/kept", 20)
    make_job(f"{top}/elsewhere", 20)
    os.symlink(f"{top}/elsewhere", f"{logs}/link")
    write(f"{logs}/old/hang.txt", "capo hang  job 7\n", 20)
    write(f"{logs}/old/hang.json", '{\n  "capo_hang": 1\n}\n', 20)
    write(f"{logs}/old/topology-a.xml", "<system/>", 20)
    # a user's own, with names like capo's
    mine = {"notes.capo.txt": "mine", "notes.capo": "mine", "hang.txt": "mine", "hang.json": "{}", "topology-x.xml": "mine", ".hidden.capo": "mine"}
    for name, text in mine.items():
        write(f"{logs}/kept/{name}", text, 20)
    os.mkfifo(f"{logs}/kept/pipe.capo")
    os.symlink(f"{top}/elsewhere/{os.listdir(f'{top}/elsewhere')[0]}", f"{logs}/kept/link.capo")
    everything = subprocess.run(["find", top], capture_output=True, text=True).stdout
    said = run("clean", "--older", "14d", "--list", logs)
    assert subprocess.run(["find", top], capture_output=True, text=True).stdout == everything, said
    assert f"{logs}/old/hang.txt\n" in said and "would remove" in said and "/mixed/" not in said and "/young/" not in said, said
    said = run("clean", "--older", "2w", logs)
    assert not os.path.exists(f"{logs}/old"), said
    assert f"removed {2 * n} logs, 3 other files, 1 folder: " in said and "notes.capo stays: it is no file of capo" in said, said
    assert set(os.listdir(f"{logs}/kept")) == {*mine, "pipe.capo", "link.capo"}, os.listdir(f"{logs}/kept")
    assert all(open(f"{logs}/kept/{name}").read() == text for name, text in mine.items())
    assert [len(os.listdir(f)) for f in (f"{logs}/young", f"{logs}/mixed", f"{top}/elsewhere")] == [n] * 3
    assert "expected a folder, found a link" in run("clean", "--older", "14d", f"{logs}/link", status=1)
    # logs directly in the folder: each by its own age
    flat = f"{top}/flat"
    make_job(flat, 20)
    young = sorted(os.listdir(flat))[0]
    age(os.path.join(flat, young), 1)
    run("clean", "--older", "24h", flat)
    assert os.listdir(flat) == [young], os.listdir(flat)
    # packed
    packed = f"{top}/packed"
    make_job(packed, 20)
    run("pack", "--all", packed)
    for name in os.listdir(packed):
        age(os.path.join(packed, name), 20)
    run("clean", "--older", "1h", packed)
    assert os.listdir(packed) == [], os.listdir(packed)
    for words in (["clean", logs], ["clean", "--older", "x", logs], ["clean", "--older", "5", logs], ["clean", "--older", "1d"]):
        run(*words, status=2)
print("ok")
