# SPDX-License-Identifier: Apache-2.0
"""What capo adds to a pod: a JSON patch (RFC 6902), or nothing. A pod is never refused."""
import re

LABEL = "capo-nccl/record"  # "true": record; the webhook's configuration selects pods by it
FILES, LOGS = "/capo", "/capo-logs"
PRELOAD = f"{FILES}/lib/libcapo.so"
# Where the name of the job of a pod stands; its logs go to a folder of that name.
JOB_LABELS = ["training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster",
              "batch.kubernetes.io/job-name", "job-name"]


class Settings:
    """Of the site: the image with capo's files, the claim that keeps logs, the size of /dev/shm."""

    def __init__(self, image, claim="", shm="8Gi"):
        self.image, self.claim, self.shm = image, claim, shm


def job_of(meta):
    labels = meta.get("labels") or {}
    for label in JOB_LABELS:
        if labels.get(label):
            return labels[label]
    return meta.get("generateName", "").rstrip("-") or meta.get("name") or "pod"


def variable(container, name):
    return next((v for v in container.get("env") or [] if v.get("name") == name), None)


def take_plugin(container, name, chain):
    """As capo run does: capo's library takes the place of a profiler or tuner plugin and calls it."""
    before = variable(container, name)
    added = []
    if before and before.get("value") and not before["value"].endswith("libcapo.so"):
        added.append({"name": chain, "value": before["value"]})
    return added + [{"name": name, "value": PRELOAD}]


def environment(container, folder, profile):
    """Variables to set, by name; None: the preload cannot be joined."""
    preload = variable(container, "LD_PRELOAD")
    if preload and "valueFrom" in preload:
        return None
    parts = [PRELOAD] + [p for p in re.split("[: ]+", (preload or {}).get("value") or "") if p and p != PRELOAD]
    added = [{"name": "LD_PRELOAD", "value": ":".join(parts)}, {"name": "CAPO_DIR", "value": folder}]
    added += take_plugin(container, "NCCL_PROFILER_PLUGIN", "CAPO_CHAIN_PROFILER")
    if profile:
        added += [{"name": "CAPO_PROFILE", "value": profile}] + take_plugin(container, "NCCL_TUNER_PLUGIN", "CAPO_CHAIN_TUNER")
    return added


def mounts_of(container):
    return {m.get("mountPath") for m in container.get("volumeMounts") or []}


class Patch:
    def __init__(self):
        self.operations = []

    def append(self, path, there, values):
        """Values behind those of a list that may not be there."""
        if values and not there:
            self.operations.append({"op": "add", "path": path, "value": values})
        elif values:
            self.operations += [{"op": "add", "path": f"{path}/-", "value": v} for v in values]

    def set_variables(self, path, container, added):
        env = container.get("env") or []
        at = {v.get("name"): i for i, v in enumerate(env)}
        for v in added:
            if v["name"] in at:
                self.operations.append({"op": "replace", "path": f"{path}/env/{at[v['name']]}", "value": v})
        self.append(f"{path}/env", env, [v for v in added if v["name"] not in at])


def change_container(patch, path, container, added, ptrace):
    patch.set_variables(path, container, added)
    mounts = [{"name": "capo-files", "mountPath": FILES, "readOnly": True}, {"name": "capo-logs", "mountPath": LOGS}]
    if "/dev/shm" not in mounts_of(container):
        mounts.append({"name": "capo-shm", "mountPath": "/dev/shm"})
    patch.append(f"{path}/volumeMounts", container.get("volumeMounts"), mounts)
    if not ptrace:
        return
    context = container.get("securityContext")
    if context is None:
        patch.operations.append({"op": "add", "path": f"{path}/securityContext", "value": {"capabilities": {"add": ["SYS_PTRACE"]}}})
    elif context.get("capabilities") is None:
        patch.operations.append({"op": "add", "path": f"{path}/securityContext/capabilities", "value": {"add": ["SYS_PTRACE"]}})
    elif "SYS_PTRACE" not in (context["capabilities"].get("add") or []):
        patch.append(f"{path}/securityContext/capabilities/add", context["capabilities"].get("add"), ["SYS_PTRACE"])


def watch_container(settings, folder):
    """A sidecar (an init container that goes on, Kubernetes 1.29): verdicts beside the logs, metrics on port 9401."""
    return {"name": "capo-watch", "image": settings.image, "restartPolicy": "Always",
            "command": [f"{FILES}/bin/capo", "watch", "--dir", folder, "--listen", "0.0.0.0:9401"],
            "ports": [{"name": "capo-metrics", "containerPort": 9401}],
            "volumeMounts": [{"name": "capo-files", "mountPath": FILES, "readOnly": True}, {"name": "capo-logs", "mountPath": LOGS},
                             {"name": "capo-shm", "mountPath": "/dev/shm"}]}


def inject(pod, settings):
    """(JSON patch, warnings) of a pod."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    notes = meta.get("annotations") or {}
    patch, warnings = Patch(), []
    if (meta.get("labels") or {}).get(LABEL) != "true":
        return [], []
    if any(c.get("name") == "capo-files" for c in spec.get("initContainers") or []):
        return [], []  # the API server asks again when another webhook has changed the pod
    folder = f"{LOGS}/{job_of(meta)}"
    chosen = [n for n in (notes.get("capo-nccl/containers") or "").split(",") if n]
    shared = True
    changed = 0
    for i, container in enumerate(spec.get("containers") or []):
        if chosen and container.get("name") not in chosen:
            continue
        added = environment(container, folder, notes.get("capo-nccl/profile"))
        if added is None:
            warnings.append(f"capo: container {container.get('name')}: LD_PRELOAD comes from elsewhere (valueFrom); not recorded")
            continue
        shared = shared and "/dev/shm" not in mounts_of(container)
        change_container(patch, f"/spec/containers/{i}", container, added, notes.get("capo-nccl/ptrace") == "true")
        changed += 1
    if not changed:
        return [], warnings or ["capo: no container of this pod is named in capo-nccl/containers; not recorded"]
    first = [{"name": "capo-files", "image": settings.image, "volumeMounts": [{"name": "capo-files", "mountPath": FILES}]}]
    if notes.get("capo-nccl/watch") == "true" and shared:
        first.append(watch_container(settings, folder))
        patch.operations.append({"op": "add", "path": "/spec/shareProcessNamespace", "value": True})
    elif notes.get("capo-nccl/watch") == "true":
        warnings.append("capo: the pod has a /dev/shm of its own, which capo watch would not see; no sidecar")
    claim = notes.get("capo-nccl/logs-claim") or settings.claim
    if not claim:
        warnings.append("capo: no claim keeps the logs (capo-nccl/logs-claim); they end with the pod")
    volumes = [{"name": "capo-files", "emptyDir": {}},
               {"name": "capo-logs", "persistentVolumeClaim": {"claimName": claim}} if claim else {"name": "capo-logs", "emptyDir": {}},
               {"name": "capo-shm", "emptyDir": {"medium": "Memory", "sizeLimit": notes.get("capo-nccl/shm") or settings.shm}}]
    patch.append("/spec/volumes", spec.get("volumes"), volumes)
    there = spec.get("initContainers") or []
    if there:  # before the others, which may call NCCL already
        patch.operations += [{"op": "add", "path": f"/spec/initContainers/{i}", "value": c} for i, c in enumerate(first)]
    else:
        patch.operations.append({"op": "add", "path": "/spec/initContainers", "value": first})
    return patch.operations, warnings
