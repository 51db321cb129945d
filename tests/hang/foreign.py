#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo hang of jobs without capo: foreign.py CAPO. Real dumps of PyTorch's flight recorder (flight/), and a server that says what
NCCL's RAS has said (ras/), or what a stranger may say there."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

capo = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
failures = []


def check(what, ok, *seen):
    if not ok:
        failures.append(what)
        print("FAIL", what, *seen)


def hang(*arguments):
    env = dict(os.environ, TZ="UTC", COLUMNS="500")
    done = subprocess.run([capo, "hang", *arguments], capture_output=True, text=True, timeout=60, env=env)
    return done.returncode, done.stdout, done.stderr


class Server:
    """One answer per connection. An answer is the text behind the handshake, or a function of the socket."""

    def __init__(self, answers, json_known=True):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.answers, self.json_known, self.commands = answers, json_known, []
        threading.Thread(target=self.serve, daemon=True).start()

    def where(self):
        return "127.0.0.1:%d" % self.socket.getsockname()[1]

    def serve(self):
        for answer in self.answers:
            client, _ = self.socket.accept()
            try:
                answer(client) if callable(answer) else self.talk(client, answer)
            except OSError:
                pass
            client.close()

    def talk(self, client, answer):
        with client.makefile("rwb") as f:
            for line in f:
                command = line.decode().strip()
                self.commands.append(command)
                if command.endswith("STATUS"):
                    f.write(answer.encode())
                    return
                if command.startswith("CLIENT PROTOCOL"):
                    f.write(b"SERVER PROTOCOL 2\n")
                else:
                    f.write(b"OK\n" if self.json_known or "FORMAT" not in command else b"ERROR: Unknown command\n")
                f.flush()


def said(name):
    with open(os.path.join(here, "ras", name)) as f:
        return f.read()


def changed(text, change):
    look = json.loads(text)
    for comm in look["communicators"]:
        for rank in comm["ranks"]:
            change(rank)
    return json.dumps(look)


def more(rank):
    rank["collective_counts"]["AllReduce"] += 5


def level(rank):
    rank["collective_counts"]["AllGather"] = 2


def other(rank):
    if rank["rank"] == 2:
        rank["collective_counts"].update(AllGather=1, AllReduce=3)


def error(rank):
    level(rank)
    rank["status"]["async_error"] = 6 if rank["rank"] == 1 else 0


def being_made(rank):
    if rank["rank"] != 3:
        rank["status"]["init_state"] = 7


def steering(rank):
    rank["host"] = "\x1b]0;title\x07"


behind = said("behind-2.28.9.json")
CASES = [
    # what, answers, JSON known, status, verdict, ranks, why
    ("behind", [behind, behind], True, 1, "missing", {2}, "host"),
    ("behind, text by collective", [said("behind-2.27.7.txt")] * 2, False, 1, "missing", {2}, "host"),
    ("behind, text of all together", [said("behind-2.24.3.txt")] * 2, False, 1, "missing", {2}, "host"),
    ("gave no answer", [said("stopped-2.32.3.json")] * 2, True, 1, "missing", {2, 3}, "stopped"),
    ("gave no answer, text", [said("stopped-2.24.3.txt")] * 2, False, 3, "undecided", set(), None),
    ("taken to be dead", [said("stopped-2.32.3.json").replace('dead": false', 'dead": true')] * 2, True, 1, "missing", {2, 3}, "gone"),
    ("behind, but all go on", [behind, changed(behind, more)], True, 0, "slow", {2}, "host"),
    ("alike, and nothing goes on", [changed(behind, level)] * 2, True, 3, "undecided", set(), None),
    ("alike, and all go on", [changed(behind, level), changed(changed(behind, level), more)], True, 0, "healthy", set(), None),
    ("as many, but others", [changed(behind, other)] * 2, True, 1, "mismatch", {2}, "differs"),
    ("an error on one", [changed(behind, error)] * 2, True, 1, "missing", {1}, "error"),
]


def ras_cases():
    for what, answers, json_known, status, verdict, ranks, why in CASES:
        server = Server(answers, json_known)
        code, out, err = hang("--json", "--after", "0.5", "--ras", server.where())
        page = json.loads(out) if out.startswith("{") else {"verdict": err, "culprits": []}
        culprits = {c["rank"] for c in page["culprits"]}
        check(what, (code, page["verdict"], culprits) == (status, verdict, ranks), code, page["verdict"], culprits, err)
        check(what + ": why", {c["why"] for c in page["culprits"]} <= {why}, page["culprits"])
        check(what + ": never certain", page.get("certainty") != "certain" or verdict == "healthy", page)
    code, out, err = hang("--after", "0", "--ras", Server([behind]).where())
    check("one look", code == 1 and "RANK 2 IS MISSING from AllGather, operation #4 of 0x" in out and "returned is not known" in out, code, out, err)
    check("its process", re.search(r"rank 2: 127\.0\.0\.1 pid \d+: it has not launched", out), out)
    code, out, err = hang("--after", "0", "--ras", Server([changed(behind, being_made)]).where())
    check("being made", code == 1 and "INSIDE NCCL in CommInit" in out, code, out, err)
    code, out, err = hang("--after", "0", "--ras", Server([changed(behind, steering)]).where())
    check("text of others", "\x1b" not in out and "\x07" not in out and "?]0;title?" in out, repr(out))
    first = Server([behind])
    hang("--after", "0", "--ras", first.where())
    check("what is asked", first.commands == ["CLIENT PROTOCOL 2", "TIMEOUT 3", "SET FORMAT json", "VERBOSE STATUS"], first.commands)


def strangers():
    silence = threading.Event()
    for what, answer, words in (
            ("a web server", lambda s: s.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not NCCL's RAS"),
            ("one that hangs up", lambda s: None, "closed the connection|reset"),
            ("one that talks without end", lambda s: s.sendall(b"a" * 100000), "not NCCL's RAS|reset"),
            ("one that is silent", lambda s: silence.wait(50), "no answer in time"),
            ("broken JSON", '{"communicators": [{"size": 4', "cannot be read"),
            ("other JSON", "{}", "no communicators"),
            ("another text", "hello\n", "no RAS of NCCL"),
            ("nothing", "", "without a word")):
        begin = time.monotonic()
        code, out, err = hang("--timeout", "1", "--ras", Server([answer]).where())
        check(what, code == 3 and not out and re.search(words, err) and err.count("\n") == 1, code, out, err)
        check(what + ": in time", time.monotonic() - begin < 40, time.monotonic() - begin)
    silence.set()
    with socket.create_server(("127.0.0.1", 0)) as s:
        nobody = "127.0.0.1:%d" % s.getsockname()[1]
    code, out, err = hang("--ras", nobody)
    check("nobody there", code == 3 and "Connection refused" in err, code, err)
    for wrong in ("host:", ":28028", "host:http", "[::1"):
        code, out, err = hang("--timeout", "1", "--ras", wrong)
        check("address " + wrong, code == 2 and err.count("\n") == 1, code, err)
    check("operands", hang("--ras", nobody, "DIR")[0] == 2 and hang("--flight")[0] == 2)


def flight_pages():
    for name, lines in (
            ("missing", ["capo hang  no progress since 18:57:43 (6 min 16 s)  4 ranks",
                         "RANK 2 IS MISSING from AllReduce #5 of default_pg (4 KiB): 3 of 4 ranks wait in it       certain",
                         "  rank 2: rank_2.json: in host code, in no call that capo records",
                         "    its last call: Recv from rank 1 of default_pg, returned 18:57:43"]),
            ("kind", ["capo hang  no progress since 18:59:12 (4 min 48 s)  4 ranks",
                      "RANK 1 DIFFERS from the others in AllReduce #5 of default_pg (4 KiB)       certain",
                      "  rank 1: rank_1.json: its call is not that of the others",
                      "    its call: Broadcast #5 of default_pg, 4 KiB, float, none; another collective",
                      "    at distributed_c10d.py:4049 broadcast <- c10d_logger.py:83 wrapper <- train.py:29 <module>"])):
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(4):
                path = os.path.join(folder, "rank_%d.json" % rank)
                shutil.copy(os.path.join(here, "flight", name, "rank_%d.json" % rank), path)
                os.utime(path, (1795374240, 1795374240))
            code, out, err = hang("--flight", folder)
            check("flight " + name, code == 1 and out.splitlines()[:len(lines)] == lines, code, out, err)
            with open(os.path.join(folder, "rank_9"), "wb") as f:
                f.write(b"\x80\x02}q\x00.")
            code, out, err = hang("--flight", os.path.join(folder, "rank_9"))
            check("pickle", code == 3 and "json.dump(pickle.load" in err, code, err)


ras_cases()
strangers()
def two_hangs():
    """Of two pairs one rank each never comes: each is missing from the call of its own pair, and of no other."""
    folder = tempfile.mkdtemp(prefix="capo-flight-test-")
    try:
        for rank in range(4):
            pair = rank // 2
            entry = {"collective_seq_id": 1, "input_dtypes": ["Float"], "input_sizes": [[1024]], "is_p2p": False, "op_id": 1,
                     "output_dtypes": ["Float"], "output_sizes": [[1024]], "p2p_seq_id": 0, "pg_id": pair, "process_group": [str(pair), "pair%d" % pair],
                     "profiling_name": "nccl:all_reduce", "record_id": 0, "retired": False, "state": "scheduled", "time_created_ns": (1795373863 + rank) * 10**9,
                     "time_discovered_completed_ns": 0, "time_discovered_started_ns": 0}
            ranks = [2 * pair, 2 * pair + 1]
            with open(os.path.join(folder, "rank_%d.json" % rank), "w") as f:
                json.dump({"version": "2.10", "entries": [entry] if rank % 2 == 0 else [], "pg_status": {},
                           "pg_config": {str(pair): {"desc": "pair%d" % pair, "name": str(pair), "ranks": str(ranks)}}}, f)
        code, out, err = hang("--flight", "--after", "0", folder)
        head = out.splitlines()[1:2]
        check("two hangs", code == 1 and head and head[0].startswith("RANK 1 IS MISSING from AllReduce #1 of pair0 (4 KiB): 1 of 2 ranks wait in it ") and
              "  rank 3: " in out and "    missing from AllReduce #1 of pair1: 1 rank waits in it\n" in out and out.count("    missing from") == 1, code, out, err)
        code, out, err = hang("--flight", "--after", "0", "--json", folder)
        who = json.loads(out)["culprits"]
        check("two hangs in JSON", [w["rank"] for w in who] == [1, 3] and who[0]["missing_from"] is None and
              who[1]["missing_from"] == {"call": "AllReduce", "number": 1, "communicator": "pair1", "waiting": 1}, out, err)
    finally:
        shutil.rmtree(folder)


flight_pages()
two_hangs()
print("%d failed" % len(failures))
sys.exit(1 if failures else 0)
