#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capo watch with the Prometheus and the node exporter of the distribution: scraped, queried, rules evaluated, the queries of the
dashboard run. prometheus.py CAPO BUILD SOURCE; 77: they are not installed."""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SOURCE = os.path.abspath(sys.argv[3])
sys.path[:0] = [os.path.join(SOURCE, "tests/watch"), os.path.join(SOURCE, "tests/hang")]
from exposition import of, read
from job import CAPO, Job, check

missing = [p for p in ("prometheus", "prometheus-node-exporter", "promtool") if not shutil.which(p)]
if missing:
    print("skipped: no %s (packages prometheus, prometheus-node-exporter)" % ", ".join(missing))
    sys.exit(77)
RULES, DASHBOARD = (os.path.join(SOURCE, "deploy/monitoring", n) for n in ("prometheus-alerts.yml", "grafana-dashboard.json"))
# calls for as long as the test wants, then rank 1 stays away until it is released
SCRIPT = "".join("%d coll 0 allreduce %d 7 0 0 0\n" % (r, 4000 + k % 3) for k in range(40) for r in range(2)) + """
0 sync 0
1 sync 0
0 coll 0 allreduce 5000 7 0 0 0
1 until first
1 coll 0 allreduce 5000 7 0 0 0
0 sync 0
1 sync 0
0 mark
0 until end
1 until end
"""


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def get(port, path, **headers):
    with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), headers=headers), timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def tool(*words, text=None):
    out = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, cwd=os.path.join(SOURCE, "tests/watch"))
    check("promtool %s: %s%s" % (words, out.stdout, out.stderr), out.returncode == 0 and not (words[1] == "metrics" and out.stderr))


class Servers:
    """watch, exporter, Prometheus: each ends with the test."""

    def __init__(self, job):
        self.job, self.processes = job, []
        self.watch_port, self.exporter_port, self.port = free_ports(3)
        os.mkdir(job.path("metrics"))
        self.start(CAPO, "watch", "--dir", job.logs, "--metrics", job.path("metrics"), "--listen", "127.0.0.1:%d" % self.watch_port, "--hang", "2",
                   "--every", "1", "--on-hang", "cat >>" + job.path("alarm"))
        self.start("prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory=" +
                   job.path("metrics"), "--web.listen-address=127.0.0.1:%d" % self.exporter_port)
        with open(job.path("prometheus.yml"), "w") as f:
            f.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n" % RULES)
            for name, port in (("node", self.exporter_port), ("capo", self.watch_port)):
                f.write("  - {job_name: %s, static_configs: [{targets: ['127.0.0.1:%d']}]}\n" % (name, port))
        tool("check", "config", job.path("prometheus.yml"))
        self.start("prometheus", "--config.file=" + job.path("prometheus.yml"), "--storage.tsdb.path=" + job.path("tsdb"),
                   "--web.listen-address=127.0.0.1:%d" % self.port)

    def start(self, *words):
        with open(self.job.path("server.%d" % len(self.processes)), "w") as out:
            self.processes.append(subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL))

    def query(self, expr):
        try:
            answer = json.loads(get(self.port, "/api/v1/query?" + urllib.parse.urlencode({"query": expr}))[1])
        except urllib.error.HTTPError as e:
            if e.code == 503:
                return []  # it listens and is not ready yet
            raise AssertionError("%s: %s" % (expr, e.read().decode()))
        except OSError:
            return []  # it is not up yet
        return [(r["metric"], float(r["value"][1])) for r in answer["data"]["result"]]

    def wait(self, expr, true=bool):
        end = time.monotonic() + 240
        while not true(result := self.query(expr)):
            check("%s: %s" % (expr, result), time.monotonic() < end)
            check("a server ended: " + self.said(), all(p.poll() is None for p in self.processes))
            time.sleep(0.2)
        return result

    def said(self):
        return "".join(self.job.read("server.%d" % i)[-1500:] for i in range(len(self.processes)))

    def end(self):
        for p in self.processes:
            p.terminate()
            p.wait()


def check_formats(servers):
    kind, text = get(servers.watch_port, "/metrics", Accept="application/openmetrics-text;version=1.0.0")
    check(kind, kind.startswith("application/openmetrics-text; version=1.0.0"))
    read(text, openmetrics=True)
    plain = get(servers.watch_port, "/metrics")[1]
    check("calls", sum(of(read(plain), "capo_calls_total", call="AllReduce")) >= 80)
    tool("check", "metrics", text=plain)
    check("the exporter has no error", "node_textfile_scrape_error 0" in get(servers.exporter_port, "/metrics")[1])


def check_dashboard(servers):
    """Every query is one, and those of what this job does have an answer."""
    board = json.load(open(DASHBOARD))
    # no network, no topology, no errors, nobody late, too few calls for steps and for a share of time
    none = {"Network", "Bus bandwidth over what the links allow", "Errors", "Waiting for late ranks", "Time in NCCL", "Seconds per step"}
    for panel in board["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$job_id", ".*").replace("$__rate_interval", "30s")
            if panel["title"] in none:
                servers.query(expr)
            else:
                servers.wait(expr)
    print("dashboard: %d panels, %d with data here" % (len(board["panels"]), len(board["panels"]) - len(none)))


tool("check", "rules", RULES)
tool("test", "rules", "alerts_test.yml")
job = Job(SCRIPT, 2, CAPO_HANG="0")
servers = None
try:
    job.wait("logs", lambda: os.path.isdir(job.logs) and len(os.listdir(job.logs)) == 2)
    servers = Servers(job)
    both = servers.wait('capo_calls_total{call="AllReduce",size="4KiB-16KiB"} or capo_calls_total{call="AllReduce"}', lambda r: len({m["job"] for m, _ in r}) == 2)
    check(both, {m["job"] for m, _ in both} == {"node", "capo"} and all(m["comm"] == "world" for m, _ in both))
    fired = servers.wait('ALERTS{alertname="NcclJobStuck",alertstate="firing"}')
    check(fired, fired[0][0]["job_id"] == "logs")
    check("the culprit", {m["rank"] for m, _ in servers.wait("capo_hang_culprit")} == {"1"})
    servers.job.wait("the command", lambda: '"verdict": "missing"' in job.read("alarm"))
    check_formats(servers)
    check_dashboard(servers)
    job.go("first")
    servers.wait('ALERTS{alertname="NcclJobStuck"}', lambda r: not r)
    servers.wait("max(capo_hang_seconds)", lambda r: r and r[0][1] == 0)
    job.go("end")
    check("it ends well", all(p.wait() == 0 for p in job.ranks))
    servers.wait("capo_ranks", lambda r: not r)
    check("no file is left", os.listdir(job.path("metrics")) == [])
    check("the command ran once", job.read("alarm").count('"capo_hang"') == 1)
finally:
    if servers:
        servers.end()
    job.end()
print("ok")
