#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The webhook behind a real API server: etcd and kube-apiserver as processes of this user, no kubelet.

usage: api_server.py SOURCE [--pods N]

etcd is Debian's package etcd-server. kube-apiserver stands in PATH or KUBE_APISERVER; build_api_server.sh makes one of Debian's source package.
Without either of them the test is skipped (77).
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pod_rules
import pods

source = os.path.abspath(sys.argv[1])
here = f"{source}/deploy/kubernetes"
n_pods = int(sys.argv[sys.argv.index("--pods") + 1]) if "--pods" in sys.argv else 300
programs = shutil.which("etcd"), os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver")
try:
    import yaml
except ImportError:
    yaml = None
if not all(programs) or not shutil.which("openssl") or not yaml:
    print("not tried: needs etcd, kube-apiserver, openssl and PyYAML")
    sys.exit(77)
work = tempfile.mkdtemp(prefix="capo-api-server-")
running = []
PODS = "/api/v1/namespaces/default/pods"


def die_with_parent():
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(*command, **more):
    name = os.path.basename(command[0] if "python" not in command[0] else command[1])
    running.append(subprocess.Popen(command, preexec_fn=die_with_parent, stderr=open(f"{work}/{name}.log", "w"), **more))
    return running[-1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(method, path, body=None):
    """(status, document, warnings)"""
    context = ssl._create_unverified_context()
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", json.dumps(body).encode() if body is not None else None,
                                     {"Authorization": "Bearer t", "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as r:
            return r.status, json.loads(r.read()), r.headers.get_all("Warning") or []
    except urllib.error.HTTPError as e:
        text = e.read()
        return e.code, json.loads(text) if text[:1] == b"{" else {"message": text.decode()}, e.headers.get_all("Warning") or []


def wait_for(what, ready):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if ready():
                return
        except OSError:
            pass
        if any(p.poll() is not None for p in running):
            break
        time.sleep(0.2)
    sys.exit(f"{what} does not start: {open(f'{work}/{what}.log').read()[-2000:]}")


def make_pod(pod):
    return ask("POST", PODS + "?dryRun=All", pod)


def without_label(pod):
    labels = {k: v for k, v in pod["metadata"]["labels"].items() if k != "capo-nccl/record"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def preload_of(pod):
    return [v.get("value", "") for c in pod["spec"]["containers"] for v in c.get("env", []) if v["name"] == "LD_PRELOAD" and "libcapo" in v.get("value", "")]


def create(document):
    kind = {"Namespace": "/api/v1/namespaces", "Service": "/api/v1/namespaces/capo/services", "Deployment": "/apis/apps/v1/namespaces/capo/deployments",
            "PodDisruptionBudget": "/apis/policy/v1/namespaces/capo/poddisruptionbudgets",
            "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"}[document["kind"]]
    return ask("POST", kind, document)


def check_manifests(hook_port):
    """webhook.yaml as it is, but for the address of the webhook, which runs here."""
    for document in yaml.safe_load_all(open(f"{here}/webhook/webhook.yaml")):
        if document["kind"] == "MutatingWebhookConfiguration":
            document["webhooks"][0]["clientConfig"] = {"url": f"https://localhost:{hook_port}/mutate", "caBundle": open(f"{work}/tls/ca.txt").read()}
        status, answer, _ = create(document)
        old = status == 404 and document["kind"] == "PodDisruptionBudget"  # policy/v1 is of 1.21
        assert status in (200, 201) or old, (status, answer)


def check_pods():
    """A pod that the server takes without the label, it takes with the label; it never depends on the webhook."""
    taken = changed = 0
    for k in range(n_pods):
        pod = pods.made(random.Random(7000003 + k))
        pod["metadata"]["name"] = f"p{k}"
        if not sidecars:
            pod["metadata"]["annotations"].pop("capo-nccl/watch", None)
        bare, answer, _ = make_pod(without_label(pod))
        status, out, warnings = make_pod(pod)
        assert (status == 201) == (bare == 201), (k, pod, bare, answer.get("message"), status, out.get("message"), warnings)
        assert (bare == 201) or pod_rules.refused(pod) or "message" in answer, (k, answer)
        if status != 201:
            continue
        taken += 1
        assert preload_of(out) or warnings, (k, pod, out)
        changed += bool(preload_of(out))
        assert not preload_of(answer), (k, answer)
    assert taken > n_pods / 4 and changed > n_pods / 8, (taken, changed)
    print(f"{n_pods} pods: the server takes {taken} with the label as without it, {changed} of them are recorded")


def check_one(hook):
    train = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"capo-nccl/record": "true"}},
             "spec": {"containers": [{"name": "train", "image": "train:1"}]}}
    wait_for("kube-apiserver", lambda: preload_of(make_pod(train)[1]))  # the configuration takes a moment to count
    status, out, warnings = ask("POST", PODS, train)
    assert status == 201 and [i["name"] for i in out["spec"]["initContainers"]] == ["capo-files"], out
    status, out, warnings = make_pod({**train, "metadata": {**train["metadata"], "name": "r", "annotations": {"capo-nccl/shm": "lots"}}})
    assert status == 201 and any("capo" in w for w in warnings), warnings
    check_pods()
    hook.kill()
    hook.wait()
    running.remove(hook)
    status, out, _ = make_pod({**train, "metadata": {**train["metadata"], "name": "q"}})
    assert status == 201 and not preload_of(out), (status, out)
    print("without the webhook a labelled pod is taken as it is")


try:
    os.makedirs(f"{work}/certificates")
    subprocess.run(["openssl", "genrsa", "-out", f"{work}/sa.key", "2048"], check=True, capture_output=True)
    subprocess.run([f"{here}/webhook/make_certificate.sh", f"{work}/tls", "localhost"], check=True)
    with open(f"{work}/tokens", "w") as f:
        f.write('t,admin,admin,"system:masters"\n')
    port, client, peer = free_port(), free_port(), free_port()
    start(programs[0], "--data-dir", f"{work}/etcd", "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls",
          f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", stdout=subprocess.DEVNULL, cwd=work)
    start(programs[1], "--etcd-servers", f"http://127.0.0.1:{client}", "--secure-port", str(port), "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
          "--cert-dir", f"{work}/certificates", "--service-cluster-ip-range", "10.0.0.0/24", "--token-auth-file", f"{work}/tokens", "--authorization-mode",
          "AlwaysAllow", "--service-account-key-file", f"{work}/sa.key", "--service-account-signing-key-file", f"{work}/sa.key", "--service-account-issuer",
          "https://localhost", "--disable-admission-plugins", "ServiceAccount", "--allow-privileged", stdout=subprocess.DEVNULL, cwd=work)
    hook = start(sys.executable, f"{here}/webhook/webhook.py", "--image", "files:1", "--logs-claim", "capo-logs", "--port", "0", "--certificate",
                 f"{work}/tls/tls.crt", "--key", f"{work}/tls/tls.key", stdout=subprocess.PIPE, text=True)
    hook_port = int(hook.stdout.readline().split()[-1])
    wait_for("kube-apiserver", lambda: ask("GET", "/api/v1/namespaces/default")[0] == 200)
    version = ask("GET", "/version")[1]["gitVersion"]
    sidecars = re.match(r"v1\.(29|[3-9]\d)\.", version)  # docs/kubernetes.md: before 1.29 the annotation for a sidecar stops a pod
    print("API server", version, "with sidecars" if sidecars else "without sidecars", flush=True)
    check_manifests(hook_port)
    check_one(hook)
finally:
    for process in running:
        process.kill()
        process.wait()
    shutil.rmtree(work)
