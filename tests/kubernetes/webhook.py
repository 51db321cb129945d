#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The webhook by real AdmissionReview documents, over HTTP and HTTPS; the patched pods and all manifests against the schemas of
Kubernetes, where kubernetes-validate and PyYAML are installed.

usage: webhook.py SOURCE [--need-schemas] [--library libcapo.so]
"""
import base64
import copy
import glob
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import pod_rules
import pods

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = yaml = None
source = os.path.abspath(sys.argv[1])
here = f"{source}/deploy/kubernetes"
PRELOAD = "/$LIB/../../../../../../capo/lib/libcapo.so"
work = tempfile.mkdtemp(prefix="capo-webhook-")
if "--need-schemas" in sys.argv and not yaml:
    sys.exit("kubernetes_validate and yaml are not installed")


class Webhook:
    def __init__(self, *words):
        self.process = subprocess.Popen([sys.executable, f"{here}/webhook/webhook.py", "--image", "files:1", "--port", "0", *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.secure = "--certificate" in words

    def ask(self, path, body=None, headers=()):
        context = ssl.create_default_context(cafile=f"{work}/tls/tls.crt") if self.secure else None
        request = urllib.request.Request(f"http{'s' * self.secure}://localhost:{self.port}{path}", body, dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as r:
                return r.status, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def review(self, pod):
        """(patch, warnings); the answer is one that an API server takes."""
        uid = f"705ab4f5-6393-11e8-b7cc-{random.randrange(1 << 48):012x}"
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": uid, "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"}, "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "default", "operation": "CREATE", "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": pod, "oldObject": None, "dryRun": False, "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}}}
        status, text = self.ask("/mutate?timeout=5s", json.dumps(body).encode(), {"Content-Type": "application/json"})
        assert status == 200, (status, text)
        answer = json.loads(text)
        assert answer["apiVersion"] == body["apiVersion"] and answer["kind"] == "AdmissionReview", answer
        response = answer["response"]
        assert response["uid"] == uid and response["allowed"] is True, response
        assert ("patch" in response) == (response.get("patchType") == "JSONPatch"), response
        return json.loads(base64.b64decode(response.get("patch", "W10="))), response.get("warnings", [])

    def mutate(self, pod):
        patch, warnings = self.review(pod)
        return apply_patch(pod, patch), warnings

    def stop(self):
        self.process.kill()
        self.process.communicate()


def apply_patch(document, patch):
    """RFC 6902, as far as "add" and "replace" go."""
    document = copy.deepcopy(document)
    for operation in patch:
        *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        at = document
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if isinstance(at, list) and operation["op"] == "add":
            assert last == "-" or int(last) <= len(at), operation
            at.insert(len(at) if last == "-" else int(last), operation["value"])
        elif isinstance(at, list):
            at[int(last)] = operation["value"]
        else:
            assert operation["op"] == "add" or last in at, operation
            at[last] = operation["value"]
    return document


def pod(*containers, notes=None, labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"capo-nccl/record": "true", **(labels or {})}, "annotations": notes or {}},
            "spec": {"containers": list(containers), **spec}}


def values(container):
    return {v["name"]: v.get("value") for v in container.get("env", [])}


def validate(document):
    if yaml and document["apiVersion"].split("/")[0] in ("v1", "apps", "batch", "admissionregistration.k8s.io"):
        kubernetes_validate.validate(document, "1.32", strict=True)


def check(hook):
    train = {"name": "train", "image": "train:1"}
    # the least pod there is, and one that has everything already
    out, warnings = hook.mutate(pod(train, labels={"batch.kubernetes.io/job-name": "j1"}))
    validate(out)
    c = out["spec"]["containers"][0]
    assert values(c) == {"LD_PRELOAD": PRELOAD, "CAPO_DIR": "/capo-logs/j1", "NCCL_PROFILER_PLUGIN": "/capo/lib/libcapo.so"}, c
    assert [i["name"] for i in out["spec"]["initContainers"]] == ["capo-files"] and out["spec"]["initContainers"][0]["image"] == "files:1"
    assert {v["name"] for v in out["spec"]["volumes"]} == {"capo-files", "capo-logs", "capo-shm"} and not warnings, (out, warnings)
    assert {m["mountPath"] for m in c["volumeMounts"]} == {"/capo", "/capo-logs", "/dev/shm"}, c
    # once only: the API server asks again when another webhook has changed the pod
    assert hook.review(out) == ([], [])
    # without the label nothing, whatever else is there
    assert hook.review(pod(train, labels={"capo-nccl/record": "false"})) == ([], [])
    full = pod({**train, "env": [{"name": "A", "value": "b"}, {"name": "LD_PRELOAD", "value": "/x.so:/y.so"}, {"name": "NCCL_PROFILER_PLUGIN", "value": "other"}],
                "volumeMounts": [{"name": "s", "mountPath": "/dev/shm"}], "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},
               {"name": "helper", "image": "h:1"}, notes={"capo-nccl/containers": "train", "capo-nccl/ptrace": "true", "capo-nccl/profile": "/etc/p.json",
                                                         "capo-nccl/logs-claim": "mine", "capo-nccl/shm": "2Gi", "capo-nccl/watch": "true"},
               volumes=[{"name": "s", "emptyDir": {"medium": "Memory"}}], initContainers=[{"name": "first", "image": "i:1"}])
    out, warnings = hook.mutate(full)
    validate(out)
    c, other = out["spec"]["containers"]
    assert values(c) == {"A": "b", "LD_PRELOAD": PRELOAD + ":/x.so:/y.so", "CAPO_DIR": "/capo-logs/p", "NCCL_PROFILER_PLUGIN": "/capo/lib/libcapo.so",
                         "CAPO_CHAIN_PROFILER": "other", "CAPO_PROFILE": "/etc/p.json", "NCCL_TUNER_PLUGIN": "/capo/lib/libcapo.so"}, c
    assert len(c["env"]) == len(values(c)) and other == full["spec"]["containers"][1], out
    assert c["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "SYS_PTRACE"], c
    assert [m["mountPath"] for m in c["volumeMounts"]].count("/dev/shm") == 1, c
    assert [i["name"] for i in out["spec"]["initContainers"]] == ["capo-files", "first"], out
    assert [v for v in out["spec"]["volumes"] if v["name"] == "capo-logs"][0]["persistentVolumeClaim"]["claimName"] == "mine"
    assert any("no sidecar" in w for w in warnings), warnings  # it would not see the pod's own /dev/shm
    out, warnings = hook.mutate(pod(train, notes={"capo-nccl/watch": "true", "capo-nccl/ptrace": "true"}))
    validate(out)
    watch = out["spec"]["initContainers"][1]
    assert watch["command"][-2:] == ["--listen", "0.0.0.0:9401"] and watch["ports"] == [{"name": "capo-metrics", "containerPort": 9401}], watch
    assert watch["restartPolicy"] == "Always" and watch["command"][:2] == ["/capo/bin/capo", "watch"] and out["spec"]["shareProcessNamespace"], out
    # what cannot be joined is left alone, and said
    patch, warnings = hook.review(pod({**train, "env": [{"name": "LD_PRELOAD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}))
    assert not patch and "LD_PRELOAD" in warnings[0], (patch, warnings)
    patch, warnings = hook.review(pod({**train, "envFrom": [{"secretRef": {"name": "s"}}]}))
    assert not patch and "envFrom may set LD_PRELOAD" in warnings[0], (patch, warnings)
    out, warnings = hook.mutate(pod({**train, "envFrom": [{"secretRef": {"name": "s"}}]}, notes={"capo-nccl/preload": "/t.so"}))
    assert values(out["spec"]["containers"][0])["LD_PRELOAD"] == PRELOAD + ":/t.so" and not warnings, out
    source = {"configMapKeyRef": {"name": "m", "key": "k"}}
    out, warnings = hook.mutate(pod({**train, "env": [{"name": "NCCL_PROFILER_PLUGIN", "valueFrom": source}]}))
    env = {v["name"]: v for v in out["spec"]["containers"][0]["env"]}
    assert env["CAPO_CHAIN_PROFILER"]["valueFrom"] == source and env["NCCL_PROFILER_PLUGIN"] == {"name": "NCCL_PROFILER_PLUGIN", "value": "/capo/lib/libcapo.so"}, env
    out, warnings = hook.mutate(pod({**train, "name": "eval"}, train, notes={"capo-nccl/containers": "eval, train"}))
    assert all(values(c).get("LD_PRELOAD") for c in out["spec"]["containers"]) and not warnings, (out, warnings)
    out, warnings = hook.mutate(pod({**train, "volumeMounts": [{"name": "v", "mountPath": "/dev/shm/"}, {"name": "capo-logs", "mountPath": "/capo-logs/"}]},
                                    volumes=[{"name": "v", "emptyDir": {}}, {"name": "capo-logs", "hostPath": {"path": "/logs"}}]))
    assert [m["mountPath"] for m in out["spec"]["containers"][0]["volumeMounts"]] == ["/dev/shm/", "/capo-logs/", "/capo"] and not warnings, out
    patch, warnings = hook.review(pod({**train, "volumeMounts": [{"name": "v", "mountPath": "/capo"}]}, volumes=[{"name": "v", "emptyDir": {}}]))
    assert not patch and "a volume of its own at /capo" in warnings[0], warnings
    out, warnings = hook.mutate(pod(train, notes={"capo-nccl/shm": "lots", "capo-nccl/logs-claim": "No Claim"}))
    assert len(warnings) == 2 and all("expected" in w for w in warnings) and "8Gi" in json.dumps(out), warnings
    for key in ("hostPID", "hostNetwork", "hostIPC"):
        out, warnings = hook.mutate(pod(train, notes={"capo-nccl/watch": "true"}, **{key: True}))
        assert not pod_rules.refused(out) and len(out["spec"]["initContainers"]) == 2, out
        assert ("/dev/shm" in json.dumps(out)) == (key != "hostIPC"), out
    for user, has, mine in ((None, None, 0), (1000, None, 1000), (1000, 7, 7)):
        out, warnings = hook.mutate(pod({**train, "securityContext": {"runAsUser": has} if has else {}}, notes={"capo-nccl/watch": "true"},
                                        **({"securityContext": {"runAsUser": user}} if user else {})))
        assert out["spec"]["initContainers"][1]["securityContext"]["runAsUser"] == mine and not warnings, out
    out, warnings = hook.mutate(pod(*({**train, "name": f"u{user}", "securityContext": {"runAsUser": user}} for user in (1000, 2000)),
                                    notes={"capo-nccl/watch": "true"}))
    assert "set runAsUser on the pod; no sidecar" in warnings[0] and len(out["spec"]["initContainers"]) == 1, (out, warnings)
    patch, warnings = hook.review(pod(train, notes={"capo-nccl/watch": "true"}, securityContext={"runAsNonRoot": True}))
    assert "set runAsUser on the pod; no sidecar" in warnings[0], warnings
    patch, warnings = hook.review(pod(train, os={"name": "windows"}))
    assert not patch and "Windows" in warnings[0], warnings
    patch, warnings = hook.review(pod({**train, "name": "capo-watch"}))
    assert not patch and "the name" in warnings[0], warnings
    patch, warnings = hook.review(pod(train, notes={"capo-nccl/containers": "nobody"}))
    assert not patch and "no container" in warnings[0], (patch, warnings)
    # shapes that no pod has: allowed, unchanged, said
    for odd in ({}, None, {"metadata": {"labels": {"capo-nccl/record": "true"}}, "spec": {"containers": [7]}}, {"metadata": 7},
                {"metadata": {"labels": {"capo-nccl/record": "true"}}, "spec": {"containers": "x"}}):
        patch, warnings = hook.review(odd)
        assert not patch, odd
    # what is no review
    for body, status in ((b"", 400), (b"{", 400), (b"[]", 400), (b'{"kind": "Pod"}', 400), (b"[" * 200000, 400)):
        assert hook.ask("/mutate", body)[0] == status, body[:40]
    assert hook.ask("/healthz") == (200, b"ok\n") and hook.ask("/else")[0] == 404 and hook.ask("/else", b"x")[0] == 404


def check_sidecar(hook):
    """The rules of an API server of 1.29, and that they notice what breaks them."""
    out, _ = hook.mutate(pod({"name": "train", "image": "train:1"}, notes={"capo-nccl/watch": "true"}))
    validate(out)
    assert not pod_rules.refused(out), pod_rules.refused(out)
    files, watch = out["spec"]["initContainers"]
    for broken in ([watch, files], [files, {**watch, "restartPolicy": "OnFailure"}], [{**files, "livenessProbe": {}}, watch]):
        assert pod_rules.refused({**out, "spec": {**out["spec"], "initContainers": broken}}), broken
    assert pod_rules.refused({**out, "spec": {**out["spec"], "initContainers": [files], "containers": [*out["spec"]["containers"], watch]}})


def check_pods(hook, n, seed=1):
    """Of pods of all sorts: none that was accepted is refused afterwards, and what the user wrote stays."""
    changed = recorded = 0
    levels = {"baseline": 0, "restricted": 0, "Guaranteed": 0}
    for k in range(n):
        before = pods.made(random.Random(seed * 1000003 + k))
        if pod_rules.refused(before):
            continue
        out, warnings = hook.mutate(before)
        what = (k, before, out, warnings)
        assert out != before or warnings, what
        assert not pod_rules.refused(out), (pod_rules.refused(out), *what)
        if k % 10 == 0:
            validate(out)
        trace = before["metadata"]["annotations"].get("capo-nccl/ptrace") == "true"
        for level in ("baseline", "restricted"):
            if not pod_rules.violations(before, level) and not trace:
                assert not pod_rules.violations(out, level), (level, pod_rules.violations(out, level), *what)
                levels[level] += out != before
        if pod_rules.quality(before) == "Guaranteed":
            assert pod_rules.quality(out) == "Guaranteed", what
            levels["Guaranteed"] += out != before
        assert hook.review(out)[0] == [] or out == before, what
        changed += out != before
        for key in ("containers", "initContainers"):
            left = [c for c in out["spec"].get(key) or [] if not c["name"].startswith("capo-")]
            assert [c["name"] for c in left] == [c["name"] for c in before["spec"].get(key) or []], what
            for c, was in zip(left, before["spec"].get(key) or []):
                assert c["image"] == was["image"], what
                now, old = values(c), values(was)
                ours = {"LD_PRELOAD", "CAPO_DIR", "NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN"}
                assert all(now.get(name) == value for name, value in old.items() if name not in ours), what
                assert all(p in now["LD_PRELOAD"] for p in (old.get("LD_PRELOAD") or "").replace(":", " ").split()), what
                assert all(m in (c.get("volumeMounts") or []) for m in was.get("volumeMounts") or []), what
                recorded += now != old
        assert all(v in out["spec"].get("volumes", []) for v in before["spec"].get("volumes") or []), what
    assert changed > n / 4 and recorded > n / 4 and all(levels.values()), (changed, recorded, levels)
    print(f"{n} pods: {changed} changed, of them {levels}")


def check_preload():
    """The form of LD_PRELOAD: glibc finds the library, musl finds nothing, and the program runs with both."""
    library = sys.argv[sys.argv.index("--library") + 1]
    preload = PRELOAD.replace("/capo/lib/libcapo.so", os.path.abspath(library))
    maps = subprocess.run(["cat", "/proc/self/maps"], env={"LD_PRELOAD": preload, "CAPO_OFF": "1", "PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert "libcapo.so" in maps.stdout and not maps.stderr, maps
    if shutil.which("musl-gcc"):
        with open(f"{work}/m.c", "w") as f:
            f.write("int main(void) { return 7; }\n")
        subprocess.run(["musl-gcc", "-o", f"{work}/m", f"{work}/m.c"], check=True)
        assert subprocess.run([f"{work}/m"], env={"LD_PRELOAD": preload}).returncode == 7


def templates(node):
    """The pod templates of any resource."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for value in node.values():
            yield from templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from templates(value)


def check_component():
    """The Kustomize component keeps what a job has, for each kind."""
    if not shutil.which("kubectl"):
        return
    job = open(f"{here}/examples/job.yaml").read().replace("      initContainers:", '        - {name: other, image: "other:1"}\n      initContainers:')
    shutil.copytree(f"{here}/patch", f"{work}/patch", dirs_exist_ok=True)
    os.makedirs(f"{work}/made", exist_ok=True)
    with open(f"{work}/made/kustomization.yaml", "w") as f:
        f.write("resources: [job.yaml]\ncomponents: [../patch]\n")
    for kind, group in (("Job", "batch/v1"), ("StatefulSet", "apps/v1"), ("Deployment", "apps/v1")):
        with open(f"{work}/made/job.yaml", "w") as f:
            f.write(job.replace("kind: Job", f"kind: {kind}").replace("batch/v1", group))
        made = subprocess.run(["kubectl", "kustomize", f"{work}/made"], capture_output=True, text=True, check=True)
        spec = yaml.safe_load(made.stdout)["spec"]["template"]["spec"]
        assert [c["name"] for c in spec["initContainers"]] == ["capo-files", "data"] and spec["containers"][1] == {"name": "other", "image": "other:1"}, spec
        assert values(spec["containers"][0])["LD_PRELOAD"] == PRELOAD and len(spec["volumes"]) == 3, spec
        assert not pod_rules.refused({"spec": spec}), pod_rules.refused({"spec": spec})
    with open(f"{work}/made/job.yaml", "w") as f:
        f.write(job.replace('capo-nccl/record: "true"', 'capo-nccl/record: "false"'))
    made = subprocess.run(["kubectl", "kustomize", f"{work}/made"], capture_output=True, text=True, check=True)
    assert "kind: Job" in made.stdout and "libcapo" not in made.stdout and "capo-files" not in made.stdout, made.stdout


def check_examples(hook):
    """Each pod template of the examples, as the controller would make it a pod."""
    seen = 0
    for path in sorted(glob.glob(f"{here}/examples/*.yaml") + glob.glob(f"{here}/webhook/webhook.yaml") + glob.glob(f"{here}/monitoring/*.yaml")):
        for document in yaml.safe_load_all(open(path)):
            if document["kind"] == "Kustomization":
                continue
            validate(document)
            if document["kind"] == "MutatingWebhookConfiguration":
                assert [w["failurePolicy"] for w in document["webhooks"]] == ["Ignore"], document
            if document["kind"] == "PodMonitor":  # the name of the sidecar's port
                assert [e["port"] for e in document["spec"]["podMetricsEndpoints"]] == ["capo-metrics"], document
            for template in templates(document):
                made = {"apiVersion": "v1", "kind": "Pod", "metadata": {**(template.get("metadata") or {}), "name": "p"}, "spec": template["spec"]}
                validate(made)
                if path.endswith("webhook.yaml"):
                    assert not pod_rules.violations(made, "restricted"), pod_rules.violations(made, "restricted")
                out, warnings = hook.mutate(made)
                validate(out)
                wanted = (made["metadata"].get("labels") or {}).get("capo-nccl/record") == "true"
                assert (out != made) == wanted and not warnings, (path, warnings)
                seen += wanted
    assert seen >= 4, seen
    check_component()
    for folder in ("examples", "webhook"):
        if shutil.which("kubectl"):
            made = subprocess.run(["kubectl", "kustomize", f"{here}/{folder}"], capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
            for document in yaml.safe_load_all(made.stdout):
                validate(document)
                if document["kind"] == "Job":
                    assert values(document["spec"]["template"]["spec"]["containers"][0])["LD_PRELOAD"], document
    print(f"{seen} pod templates of the examples changed and valid")


hook = Webhook("--logs-claim", "capo-logs")
try:
    check(hook)
    check_sidecar(hook)
    check_pods(hook, 1000)
    if "--library" in sys.argv:
        check_preload()
    if yaml:
        check_examples(hook)
finally:
    hook.stop()
hook = Webhook()
try:
    assert any("no claim" in w for w in hook.review(pod({"name": "a", "image": "b"}))[1])
finally:
    hook.stop()
if shutil.which("openssl"):
    subprocess.run([f"{here}/webhook/make_certificate.sh", f"{work}/tls", "localhost"], check=True)
    assert base64.b64decode(open(f"{work}/tls/ca.txt").read()) == open(f"{work}/tls/tls.crt", "rb").read()
    hook = Webhook("--logs-claim", "capo-logs", "--certificate", f"{work}/tls/tls.crt", "--key", f"{work}/tls/tls.key")
    try:
        check(hook)
    finally:
        hook.stop()
shutil.rmtree(work)
print(f"AdmissionReviews over HTTP{' and HTTPS' if shutil.which('openssl') else ''}; schemas: {'1.32' if yaml else 'not installed'}")
