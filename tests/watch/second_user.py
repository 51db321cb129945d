#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What another user of the machine can do to root's capo watch, check, hang and report: second_user.py CAPO BUILD. 77: not root, or
nobody else may run this build. The other user is OTHER, and the programs that attack run as that user."""
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hang"))
from exposition import of, read
from job import BUILD, CAPO, Job, check

OTHER = 64998
TEXT = "$(id)"  # the name of their communicator
AS_OTHER = ["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups"]
PATIENCE = 40  # less than the 45 s for which the kernel lets the holder of a lease wait


def may_run(capo):
    """By a shell: setpriv itself still has root's capabilities, and finds a program in any folder."""
    command = [*AS_OTHER, "sh", "-c", 'exec "$0" --version', capo]
    return not os.geteuid() and shutil.which("setpriv") and not subprocess.run(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode


def elsewhere():
    """Runs the test on the same build where the other user may enter; its exit status."""
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        return 77
    with tempfile.TemporaryDirectory(prefix="capo-build-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        return subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" || exit 77; shift 2; exec "$@"', "sh", BUILD, folder, sys.executable,
                               __file__, folder + "/cli/capo", folder, "elsewhere"], env=dict(os.environ, TMPDIR="/tmp")).returncode


if not may_run(CAPO):
    if os.geteuid() or not shutil.which("unshare") or "elsewhere" in sys.argv:
        print("not root, or another user may not run this build")
        sys.exit(77)
    sys.exit(elsewhere())


def capo(*words, status=None, env=None):
    try:
        run = subprocess.run([CAPO, *words], capture_output=True, text=True, timeout=PATIENCE, env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise AssertionError("capo %s does not end" % " ".join(words))
    check("%s: %s" % (words, run), run.returncode >= 0 and (status is None or run.returncode == status))
    return run


class Attack:
    """A Python program of the other user, that runs until the end of the block. It prints a line when it has begun."""

    def __init__(self, code, *words):
        self.process = subprocess.Popen([*AS_OTHER, sys.executable, "-c", "import fcntl, os, socket, sys, time\n" + code + "\nprint(1, flush=True)\n" +
                                         "try:\n    step\nexcept NameError:\n    time.sleep(600)\nwhile True:\n    step()\n", *map(str, words)], stdout=subprocess.PIPE)

    def __enter__(self):
        check("the attack begins", self.process.stdout.readline() == b"1\n")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def their_job(script, n, **settings):
    command = ["sh", "-c", "chmod 755 FOLDER; chown -R %d:%d FOLDER; exec %s %s FOLDER/script" % (OTHER, OTHER, " ".join(AS_OTHER), os.path.join(BUILD, "tests/hang/player"))]
    return Job(script, n, command=command, CAPO_HANG="0", **settings)


def segments():
    return ["/dev/shm/" + name for name in os.listdir("/dev/shm") if name.startswith("capo-%d-" % OTHER)]


# The kernel refuses the lease while somebody reads the file, as any root's watch on this machine may.
LEASE = """f = open(sys.argv[1], 'r+b')
import signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
end = time.monotonic() + 100
while True:
    try:
        fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except BlockingIOError:
        if time.monotonic() > end:
            raise
        time.sleep(0.01)"""
STUCK = "0 coll 0 allreduce 4000 7 0 0 0\n0 mark\n0 sync 0\n1 mark\n1 until end\n1 coll 0 allreduce 4000 7 0 0 0\n1 sync 0\n"


def read_all(job, name):
    """All that read what lies beside the logs go on, and see the job."""
    found = read(capo("watch", "--once", "--dir", job.logs, "--hang", "0.1", status=0).stdout)
    check("the job is seen: %s" % name, of(found, "capo_ranks", state="alive") == [2])
    capo("hang", "--flight", job.logs)
    capo("hang", job.logs)
    capo("report", job.logs)
    capo("top", "--once", "--dir", job.logs)


def check_planted(job):
    """A FIFO, a device and a file without end, for all that are read beside the logs."""
    open(os.path.join(job.logs, "hang.watch"), "w").close()  # another watch is elected: what it wrote is read
    for name in ("hang.json", "hang.txt", "topology-x.xml", "x.capo", "y.capo.zst"):
        with Attack("os.mkfifo(sys.argv[1])", os.path.join(job.logs, name)):
            read_all(job, name)
        os.unlink(os.path.join(job.logs, name))
        if name not in ("hang.json", "x.capo"):
            continue
        try:  # /dev/zero, which has no end
            os.mknod(os.path.join(job.logs, name), stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except PermissionError:
            print("not tried: a device: root may make none here")
            continue
        os.chown(os.path.join(job.logs, name), OTHER, OTHER)
        read_all(job, "device " + name)
        os.unlink(os.path.join(job.logs, name))
    forged = json.dumps({"verdict": "missing", "since": time.time(), "still_s": 1000, "culprits": [{"rank": 77, "host": "x", "why": "late"}]})
    for what, data, owner, believed in (("theirs", forged, OTHER, True), ("too long", forged + " " * (2 << 20), OTHER, False), ("of a third user", forged, 64999, False)):
        path = os.path.join(job.logs, "hang.json")
        with open(path, "w") as f:
            f.write(data)
        os.chown(path, owner, owner)
        os.chmod(path, 0o644)
        culprits = of(read(capo("watch", "--once", "--dir", job.logs, "--hang", "0.1", status=0).stdout), "capo_hang_culprit", rank=77)
        check("hang.json %s: %s" % (what, culprits), bool(culprits) == believed)
        os.unlink(path)
    os.unlink(os.path.join(job.logs, "hang.watch"))
    os.symlink("/dev/zero", os.path.join(job.logs, "z.capo"))
    os.lchown(os.path.join(job.logs, "z.capo"), OTHER, OTHER)
    said = capo("report", job.logs)
    check("a link is not followed: %s" % said, "is a link of user %d, which is not followed" % OTHER in said.stdout + said.stderr)
    os.unlink(os.path.join(job.logs, "z.capo"))


def check_segments(job):
    """A lease on a segment, a segment that becomes shorter while it is read, one that is no segment."""
    own = segments()[0]
    with Attack(LEASE, copy_of(own, "lease")):
        found = read(capo("watch", "--once", "--dir", job.logs, status=0).stdout)
        check("the others are seen", of(found, "capo_ranks", state="alive") == [2])
        capo("top", "--once")
    twice = copy_of(own, "twice")
    read(capo("watch", "--once", "--dir", job.logs, status=0).stdout)  # fails where a series is there twice
    os.unlink(twice)
    shrinks = copy_of(own, "shrinks")
    with Attack("f = open(sys.argv[1], 'r+b')\nsize = os.fstat(f.fileno()).st_size\nbytes = f.read()\n"
                "def step():\n    os.truncate(sys.argv[1], 8192)\n    os.pwrite(f.fileno(), bytes, 0)\n    time.sleep(0.002)", shrinks):
        for _ in range(20):
            capo("watch", "--once", "--dir", job.logs, status=0)
    huge = copy_of(own, "huge")
    os.truncate(huge, 1 << 45)
    before = capo("watch", "--once", "--dir", job.logs, status=0)
    check("one of 32 TiB", of(read(before.stdout), "capo_ranks", state="alive")[0] >= 2)
    for path in segments():
        if "-other-" in path:
            os.unlink(path)


def check_alarm(job):
    """A verdict is the user's own file of mode 600, and goes through no link. --on-hang gets text of the user on its standard input only."""
    folder = tempfile.mkdtemp(prefix="capo-alarm-")
    victim, said = os.path.join(folder, "victim"), os.path.join(folder, "said")
    with open(victim, "w") as f:
        f.write("root's")
    for name in os.listdir(job.logs):  # what the samples before have written
        if name.startswith("hang."):
            os.unlink(os.path.join(job.logs, name))
    for name in ("hang.txt", "hang.json"):
        os.symlink(victim, os.path.join(job.logs, name))
        os.lchown(os.path.join(job.logs, name), OTHER, OTHER)
    command = "env >%s.env; tr '\\0' ' ' </proc/$$/cmdline >%s.words; cat >%s.new; mv %s.new %s" % (said, said, said, said, said)
    watch = subprocess.Popen([CAPO, "watch", "--dir", job.logs, "--hang", "0.5", "--every", "0.3", "--on-hang", command], stderr=subprocess.PIPE, text=True)
    try:
        job.wait("the command", lambda: os.path.exists(said))
        verdict = json.loads(open(said).read())
        check(verdict, verdict["verdict"] == "missing" and verdict["communicator"] == TEXT)
        words = open(said + ".words").read()
        check(words, words.strip().endswith(command) and TEXT not in words + open(said + ".env").read())
        check("the file of root is as it was", open(victim).read() == "root's")
        for name in ("hang.txt", "hang.json"):
            path = os.path.join(job.logs, name)
            st = os.lstat(path)
            check("%s: %s" % (name, st), stat.S_ISREG(st.st_mode) and (st.st_uid, st.st_mode & 0o777) == (OTHER, 0o600))
    finally:
        watch.terminate()
        watch.communicate()
        shutil.rmtree(folder)


def copy_of(segment, name):
    path = "%s-other-%s" % (segment, name)
    shutil.copyfile(segment, path)
    os.chown(path, OTHER, OTHER)
    return path


def check_names():
    """Two jobs whose names differ in a letter that a file's name cannot have."""
    jobs = [their_job("0 mark\n0 until end\n", 1, SLURM_JOB_ID=name) for name in ("a b", "a_b")]
    metrics = jobs[0].path("metrics")
    os.mkdir(metrics)
    try:
        for job in jobs:
            job.wait("place", lambda: os.path.exists(job.path("script.place.0")))
        jobs[0].wait("two files", lambda: capo("watch", "--once", "--metrics", metrics) and len(os.listdir(metrics)) == 2)
        names = sorted(os.listdir(metrics))
        check(names, all(name.startswith("capo-%d-a_b" % OTHER) for name in names))
        ids = {dict(labels)["job_id"] for name in names for _, labels in read(open(os.path.join(metrics, name)).read())}
        check(ids, ids == {"a b", "a_b"})
        for job in jobs:
            job.go("end")
        check("both end well", [job.ranks[0].wait() for job in jobs] == [0, 0])
    finally:
        for job in jobs:
            job.end()


def claim_of(watch):
    """Its claim, once it waits for SIGTERM. Other watches of this machine may have claims, too."""
    waits = int(re.search("SigBlk:\\s*(\\w+)", open("/proc/%d/status" % watch).read())[1], 16) >> (signal.SIGTERM - 1) & 1
    folder = "/proc/%d/fd" % watch
    for fd in os.listdir(folder):
        try:
            to = os.readlink(os.path.join(folder, fd))
        except FileNotFoundError:
            continue
        if waits and to.startswith("/dev/shm/capo-metrics-0-"):
            return os.path.basename(to)


def check_claims(folder):
    """Another user cannot make root's watch end, nor hold what it holds."""
    metrics = os.path.join(folder, "metrics")
    os.mkdir(metrics)
    first = subprocess.Popen([CAPO, "watch", "--metrics", metrics, "--dir", folder], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 100
    while not (name := claim_of(first.pid)):
        check("the first watch has its claim", time.monotonic() < end)
        time.sleep(0.05)
    check("mode", os.stat("/dev/shm/" + name).st_mode & 0o777 == 0o600)
    second = capo("watch", "--metrics", metrics, "--once", status=1).stderr
    check(second, "another capo watch of this user writes there: process %d" % first.pid in second)
    first.send_signal(signal.SIGTERM)
    check("it ends", first.wait(100) == 0)
    check("the claim goes with it", not os.path.exists("/dev/shm/" + name))
    with Attack("s = socket.socket(socket.AF_UNIX)\ns.bind('\\0' + sys.argv[1])\nf = open('/dev/shm/' + sys.argv[1], 'w')\nfcntl.lockf(f, fcntl.LOCK_EX)", name):
        said = capo("watch", "--metrics", metrics, "--dir", folder, "--once").stderr
        check(said, "belongs to user %d" % OTHER in said and "another capo watch" not in said)
        until = subprocess.Popen(["sleep", "600"])
        ends = subprocess.Popen([CAPO, "watch", "--metrics", metrics, "--dir", folder, "--until", str(until.pid)], stderr=subprocess.DEVNULL)
        time.sleep(1)
        check("the watch of capo run stays", ends.poll() is None)
        until.kill()
        until.wait()
        check("and ends with its command", ends.wait(100) == 0)
    os.unlink("/dev/shm/" + name)


def check_meeting(folder):
    """capo check --dir in a folder where everybody can write."""
    meet = os.path.join(folder, "meet")
    os.mkdir(meet)
    os.chmod(meet, 0o1777)
    victim = os.path.join(folder, "victim")
    with open(victim, "w") as f:
        f.write("root's")
    os.chmod(folder, 0o755)
    clean = {k: "" for k in ("SLURM_JOB_ID", "SLURM_STEP_ID")}
    for key in clean:
        os.environ.pop(key, None)
    with Attack("for name in ('capo-check-begin0.new', 'capo-check-node1.new'):\n    os.symlink(sys.argv[1] + '/../victim', sys.argv[1] + '/' + name)\n"
                "open(sys.argv[1] + '/capo-check-node1', 'w').write('{\"run\": 1, \"node\": \"forged\", \"findings\": [], \"facts\": {}}')", meet):
        out = capo("check", "--dir", meet, "--nodes", "2", "--node", "0", "--wait", "1", "--limit", "30")
        check(out, out.returncode == 1 and "forged" not in out.stdout and "node 1 did not answer" in out.stdout)
        check(out, "belongs to user %d, expected user 0: not read" % OTHER in out.stderr)
    check("the file of root is as it was", open(victim).read() == "root's")
    with Attack("open(sys.argv[1] + '/capo-check-begin0', 'w').write('{\"run\": 7}')", meet):
        out = capo("check", "--dir", meet, "--nodes", "2", "--node", "1", "--wait", "1", "--limit", "30", status=1)
        check(out, "node 0 did not begin" in out.stderr and not [n for n in os.listdir(meet) if n.startswith("capo-check-node1.") and n != "capo-check-node1.new"])
    made = os.path.join(folder, "made")
    capo("check", "--dir", made, "--nodes", "2", "--node", "0", "--wait", "0.1", "--limit", "30", status=1)
    check("the folder is this user's alone", os.stat(made).st_mode & 0o777 == 0o700)
    waits = subprocess.Popen([CAPO, "check", "--dir", made, "--nodes", "2", "--node", "0", "--wait", "600", "--limit", "30"], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 100
        while not os.path.exists(os.path.join(made, "capo-check-begin0")):
            check("it begins", time.monotonic() < end)
            time.sleep(0.02)
        mode = os.stat(os.path.join(made, "capo-check-begin0")).st_mode & 0o777
        check("what it writes is this user's alone: %o" % mode, mode == 0o600)
    finally:
        waits.kill()
        waits.wait()
    # names that would print lines of their own
    page = json.loads(capo("check", "--json").stdout)
    nodes = []
    for name in ("a\nREADY: all\x1b]0;x\x07", "b"):
        node = dict(page["nodes"][0], node=name, facts={"kernel": name + "\x1b[2J", "k\nREADY: 1 node": name})
        nodes.append(dict(page, nodes=[dict(node, findings=[{"level": "warn", "topic": "gpu\nREADY", "text": "x\nREADY: 2 nodes\x9b"}])]))
    with open(os.path.join(folder, "nodes"), "w") as f:
        f.writelines(json.dumps(node) + "\n" for node in nodes)
    out = capo("check", "--merge", os.path.join(folder, "nodes")).stdout
    lines = out.splitlines()
    check(out, len(lines) > 3 and not any(line.startswith("READY") for line in lines[:-1]) and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out))


def get(port, path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), headers=headers), timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def check_listen(folder):
    """Idle connections of another user, a page in a browser, a token."""
    kept = socket.socket()  # nobody else is given its port; the watch reuses it
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port = kept.getsockname()[1]
    token = os.path.join(folder, "token")
    with open(token, "w") as f:
        f.write("s3cret\n")
    os.chmod(token, 0o644)
    refused = capo("watch", "--listen", "127.0.0.1:%d" % port, "--token", token, status=1)
    check(refused, "has mode 644, expected 600" in refused.stderr)
    os.chmod(token, 0o600)
    served = subprocess.Popen([CAPO, "watch", "--listen", "127.0.0.1:%d" % port, "--token", token, "--dir", folder], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 100
        while True:
            try:
                check("alive", get(port, "/healthz") == (200, "ok\n"))
                break
            except urllib.error.URLError:
                check("it listens", time.monotonic() < end)
                time.sleep(0.05)
        with Attack("all = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(100)]\nfor s in all[::2]:\n    s.send(b'GET /metrics HT')", port):
            check("answered beside 100 idle ones", get(port, "/metrics", Authorization="Bearer s3cret")[0] == 200)
        check("no token", get(port, "/metrics")[0] == 401)
        check("a wrong one", get(port, "/metrics", Authorization="Bearer s3creT")[0] == 401)
        check("another name", get(port, "/metrics", Host="evil.example", Authorization="Bearer s3cret")[0] == 421)
        check("this node's name", get(port, "/metrics", Host=os.uname().nodename + ".cluster:9401", Authorization="Bearer s3cret")[0] == 200)
        check("no such page", get(port, "/", Authorization="Bearer s3cret")[0] == 404)
        check("too long", b"" == talk(port, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 4000))
        check("no method of ours", talk(port, b"POST /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405"))
    finally:
        served.terminate()
        served.wait()
        kept.close()


def talk(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as s:
        answer = b""
        try:
            s.sendall(request)
            while got := s.recv(65536):
                answer += got
        except ConnectionError:
            pass
        return answer


def process_of(watch, user):
    """The process of root's watch for that user; None: it has none now."""
    with open("/proc/%d/task/%d/children" % (watch, watch)) as f:
        for pid in f.read().split():
            try:
                with open("/proc/%s/comm" % pid) as name:
                    if name.read() == "watch-%d\n" % user:
                        return int(pid)
            except OSError:
                pass


def check_users(folder):
    """What ends the reading of one user's jobs, ends no other's. Alone in this /dev/shm."""
    jobs = {OTHER: their_job("0 mark\n0 until end\n", 1), 0: Job("0 mark\n0 until end\n", 1, CAPO_HANG="0")}
    watch = subprocess.Popen([CAPO, "watch", "--metrics", folder, "--hang", "0", "--every", "0.3"], stderr=subprocess.PIPE, text=True)

    def file_of(user):
        return next((os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("capo-%d-" % user)), None)

    def written(user):
        name = file_of(user)
        try:
            return name and os.stat(name).st_mtime_ns
        except FileNotFoundError:  # it is being replaced
            return None
    try:
        for user, job in jobs.items():
            job.wait("metrics of %d" % user, lambda: written(user))
        victim, roots, before = process_of(watch.pid, OTHER), process_of(watch.pid, 0), written(0)
        check("one process each", victim and roots and victim != roots)
        os.kill(victim, signal.SIGKILL)
        jobs[0].wait("the other user's go on", lambda: (written(0) or before) > before and process_of(watch.pid, 0) == roots)
        jobs[OTHER].wait("another process", lambda: process_of(watch.pid, OTHER) not in (None, victim) and written(OTHER))
        # the next one finds no memory: its limit becomes what it has
        victim, before = process_of(watch.pid, OTHER), written(0)
        check("768 MiB each", [resource.prlimit(pid, resource.RLIMIT_AS) for pid in (victim, roots)] == [(768 << 20, 768 << 20)] * 2)
        resource.prlimit(victim, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        jobs[OTHER].wait("it ends, another begins", lambda: process_of(watch.pid, OTHER) not in (None, victim) and written(OTHER))
        jobs[0].wait("the other user's go on", lambda: (written(0) or before) > before and process_of(watch.pid, 0) == roots)
        watch.send_signal(signal.SIGTERM)
        said = watch.communicate(timeout=100)[1]
        check(said, watch.returncode == 0 and "the process for user %d ended (signal 9)" % OTHER in said and said.count("the process for user %d ended" % OTHER) == 2)
        check("no file is left", not os.listdir(folder))
        check("no process is left", not os.path.exists("/proc/%d" % roots))
        for job in jobs.values():
            job.go("end")
        check("both end well", [job.ranks[0].wait() for job in jobs.values()] == [0, 0])
    finally:
        watch.kill()
        watch.wait()
        for job in jobs.values():
            job.end()


if sys.argv[-1] == "users":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/dev/shm"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        check_users(folder)
    sys.exit(0)
for path in segments():  # of a run of this test that was killed
    if not os.path.exists("/proc/" + path.split("-")[2]):
        os.unlink(path)
names = tempfile.NamedTemporaryFile("w")
names.write("0 %s\n1 %s\n" % (TEXT, TEXT))
names.flush()
os.chmod(names.name, 0o644)
job = their_job(STUCK, 2, CAPO_COMM_NAMES=names.name)
try:
    job.wait("place", lambda: all(os.path.exists(job.path("script.place.%d" % r)) for r in range(2)))
    job.wait("both", lambda: of(read(capo("watch", "--once", "--dir", job.logs).stdout or "# EOF\n"), "capo_ranks", state="alive") == [2])
    check_planted(job)
    check_segments(job)
    check_alarm(job)
    job.go("end")
    check("it ends well", all(p.wait() == 0 for p in job.ranks))
finally:
    job.end()
check_names()
with tempfile.TemporaryDirectory() as folder:
    check_claims(folder)
    check_meeting(folder)
    check_listen(folder)
check("no segment is left: %s" % segments(), not segments())
if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/dev/shm"], stderr=subprocess.DEVNULL).returncode == 0:
    check("a process for each user", subprocess.run(["unshare", "--mount", sys.executable, *sys.argv, "users"]).returncode == 0)
else:
    print("not tried: a process for each user: no mounts of our own here")
print("ok")
