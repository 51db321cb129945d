# SPDX-License-Identifier: Apache-2.0
"""What capo adds to a pod: a JSON patch (RFC 6902), or nothing. docs/kubernetes.md says what can still stop such a pod."""
import re

LABEL = "capo-nccl/record"  # "true": record; the webhook's configuration selects pods by it
FILES, LOGS, SHM = "/capo", "/capo-logs", "/dev/shm"
LIBRARY = f"{FILES}/lib/libcapo.so"
# As of capo run: glibc replaces $LIB by a folder that exists, and musl, which could not load the library, finds no such file.
PRELOAD = f"/$LIB/../../../../../..{LIBRARY}"
NOBODY = 65534  # the user of the image
# Where the name of the job of a pod stands; its logs go to a folder of that name.
JOB_LABELS = ["training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster",
              "batch.kubernetes.io/job-name", "job-name"]
QUANTITY = re.compile(r"(?=.*[1-9])\d+(\.\d+)?([eE]\d+|[KMGTPE]i|[kMGTPE])?")
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


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
    """The last one of that name, which holds."""
    return next((v for v in reversed(container.get("env") or []) if v.get("name") == name), None)


def take_plugin(container, name, chain):
    """As capo run does: capo's library takes the place of a profiler or tuner plugin and calls it."""
    before = variable(container, name)
    added = []
    if before and "valueFrom" in before:
        added.append({"name": chain, "valueFrom": before["valueFrom"]})
    elif before and before.get("value") and not before["value"].endswith("libcapo.so"):
        added.append({"name": chain, "value": before["value"]})
    return added + [{"name": name, "value": LIBRARY}]


def environment(container, folder, notes):
    """(variables to set, why not)."""
    preload, of_image = variable(container, "LD_PRELOAD"), notes.get("capo-nccl/preload")
    if preload and "valueFrom" in preload:
        return None, "LD_PRELOAD comes from elsewhere (valueFrom)"
    if container.get("envFrom") and not preload and of_image is None:
        return None, "envFrom may set LD_PRELOAD; say what it sets in the annotation capo-nccl/preload"
    before = (preload or {}).get("value") or of_image or ""
    parts = [PRELOAD] + [p for p in re.split("[: ]+", before) if p and not p.endswith(LIBRARY)]
    added = [{"name": "LD_PRELOAD", "value": ":".join(parts)}, {"name": "CAPO_DIR", "value": folder}]
    added += take_plugin(container, "NCCL_PROFILER_PLUGIN", "CAPO_CHAIN_PROFILER")
    if notes.get("capo-nccl/profile"):
        added += [{"name": "CAPO_PROFILE", "value": notes["capo-nccl/profile"]}] + take_plugin(container, "NCCL_TUNER_PLUGIN", "CAPO_CHAIN_TUNER")
    return added, None


def mounts_of(container):
    """{path: name of the volume}"""
    return {m.get("mountPath", "").rstrip("/") or "/": m.get("name") for m in container.get("volumeMounts") or []}


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


def add_ptrace(patch, path, container):
    context = container.get("securityContext")
    if context is None:
        patch.operations.append({"op": "add", "path": f"{path}/securityContext", "value": {"capabilities": {"add": ["SYS_PTRACE"]}}})
    elif context.get("capabilities") is None:
        patch.operations.append({"op": "add", "path": f"{path}/securityContext/capabilities", "value": {"add": ["SYS_PTRACE"]}})
    elif "SYS_PTRACE" not in (context["capabilities"].get("add") or []):
        patch.append(f"{path}/securityContext/capabilities/add", context["capabilities"].get("add"), ["SYS_PTRACE"])


class Pod:
    """What the pod has, and the names that are free in it."""

    def __init__(self, pod, settings):
        self.meta, self.spec = pod.get("metadata") or {}, pod.get("spec") or {}
        self.notes = {k: v for k, v in (self.meta.get("annotations") or {}).items() if k.startswith("capo-nccl/")}
        self.settings, self.patch, self.warnings = settings, Patch(), []
        self.volumes = {v.get("name"): v for v in self.spec.get("volumes") or []}
        self.names = {c.get("name") for c in (self.spec.get("initContainers") or []) + (self.spec.get("containers") or [])}
        self.folder = f"{LOGS}/{job_of(self.meta)}"
        self.files, self.shm = self.free("capo-files"), self.free("capo-shm")
        # a job on the host's IPC shares the host's /dev/shm, which stays
        self.own_shm = not self.spec.get("hostIPC")

    def warn(self, text):
        self.warnings.append(f"capo: {text}")

    def free(self, name):
        return next(n for n in [name] + [f"{name}-{i}" for i in range(1, 100)] if n not in self.volumes)

    def asked(self, name, pattern, otherwise, what):
        """The value of an annotation, if it is one."""
        value = self.notes.get(f"capo-nccl/{name}")
        if value and not (isinstance(value, str) and pattern.fullmatch(value)):
            self.warn(f"annotation capo-nccl/{name}: expected {what}, found {value!r:.60}; {otherwise or 'none'} is used")
            value = None
        return value or otherwise

    def context(self):
        """Accepted by the Pod Security Standard "restricted", whatever the pod says of its user."""
        made = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
        if (self.spec.get("securityContext") or {}).get("runAsUser") == 0:
            made["runAsUser"] = NOBODY
        return made

    def container(self, name, cpu, memory, **more):
        """Requests are the limits, so that a Guaranteed pod stays one."""
        size = {"cpu": cpu, "memory": memory}
        return {"name": name, "image": self.settings.image, "securityContext": self.context(), "resources": {"requests": size, "limits": size}, **more}

    def record(self, i, container):
        """Return: is this container recorded?"""
        name, path, mounts = container.get("name"), f"/spec/containers/{i}", mounts_of(container)
        added, why = environment(container, self.folder, self.notes)
        if why is None and FILES in mounts:
            why = f"it has a volume of its own at {FILES}"
        if why:
            self.warn(f"container {name}: {why}; not recorded")
            return False
        self.patch.set_variables(path, container, added)
        wanted = [{"name": self.files, "mountPath": FILES, "readOnly": True}]
        if LOGS not in mounts:
            wanted.append({"name": "capo-logs", "mountPath": LOGS})
        if SHM not in mounts and self.own_shm:
            wanted.append({"name": self.shm, "mountPath": SHM})
        self.patch.append(f"{path}/volumeMounts", container.get("volumeMounts"), wanted)
        if self.notes.get("capo-nccl/ptrace") == "true":
            add_ptrace(self.patch, path, container)
        return True

    def user_of(self, recorded):
        """(user, group) of the recorded containers, which the sidecar must have to see them; None: not known."""
        outer = self.spec.get("securityContext") or {}
        users = set()
        for container in recorded:
            own = container.get("securityContext") or {}
            user = own.get("runAsUser", outer.get("runAsUser"))
            if user is None and own.get("runAsNonRoot", outer.get("runAsNonRoot")):
                return None
            users.add((user or 0, own.get("runAsGroup", outer.get("runAsGroup"))))
        return users.pop() if len(users) == 1 else None

    def sidecar(self, recorded):
        """capo watch (an init container that goes on, Kubernetes 1.29): verdicts beside the logs, metrics on port 9401."""
        user = self.user_of(recorded)
        if any(SHM in mounts_of(c) for c in recorded):
            return self.warn("the pod has a /dev/shm of its own, which capo watch would not see; no sidecar")
        if any(LOGS in mounts_of(c) for c in recorded):
            return self.warn(f"the pod has a volume of its own at {LOGS}; no sidecar")
        if user is None:
            return self.warn("the user of the containers is not known, or differs; set runAsUser on the pod; no sidecar")
        command = [f"{FILES}/bin/capo", "watch", "--dir", self.folder]
        mounts = [{"name": self.files, "mountPath": FILES, "readOnly": True}, {"name": "capo-logs", "mountPath": LOGS}]
        mounts += [{"name": self.shm, "mountPath": SHM}] if self.own_shm else []
        made = self.container("capo-watch", "100m", "128Mi", restartPolicy="Always", command=command, volumeMounts=mounts)
        made["securityContext"].update({"runAsUser": user[0], "runAsNonRoot": user[0] != 0})
        if user[1] is not None:
            made["securityContext"]["runAsGroup"] = user[1]
        if self.spec.get("hostNetwork"):  # the port would be the node's, for one pod only
            self.warn("hostNetwork: capo watch opens no port")
        else:
            command += ["--listen", "0.0.0.0:9401"]
            made["ports"] = [{"name": "capo-metrics", "containerPort": 9401}]
            made["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 9401}, "initialDelaySeconds": 60, "periodSeconds": 60, "timeoutSeconds": 30}
        if not self.spec.get("hostPID") and "shareProcessNamespace" not in self.spec:
            self.patch.operations.append({"op": "add", "path": "/spec/shareProcessNamespace", "value": True})
        return made

    def add_volumes(self):
        claim = self.asked("logs-claim", NAME, self.settings.claim, "the name of a claim")
        size = self.asked("shm", QUANTITY, self.settings.shm, "a quantity such as 16Gi")
        made = [{"name": self.files, "emptyDir": {}}]
        if "capo-logs" not in self.volumes:
            made.append({"name": "capo-logs", "persistentVolumeClaim": {"claimName": claim}} if claim else {"name": "capo-logs", "emptyDir": {}})
            if not claim:
                self.warn("no claim keeps the logs (capo-nccl/logs-claim); they end with the pod")
        if self.own_shm:
            made.append({"name": self.shm, "emptyDir": {"medium": "Memory", "sizeLimit": size}})
        self.patch.append("/spec/volumes", self.spec.get("volumes"), made)

    def inject(self):
        chosen = [n.strip() for n in (self.notes.get("capo-nccl/containers") or "").split(",") if n.strip()]
        containers = self.spec.get("containers") or []
        recorded = [c for i, c in enumerate(containers) if (not chosen or c.get("name") in chosen) and self.record(i, c)]
        if not recorded:
            return [], self.warnings or ["capo: no container of this pod is named in capo-nccl/containers; not recorded"]
        for name in chosen:
            if name not in self.names:
                self.warn(f"annotation capo-nccl/containers: the pod has no container {name!r:.60}")
        first = [self.container("capo-files", "100m", "128Mi", volumeMounts=[{"name": self.files, "mountPath": FILES}])]
        if self.notes.get("capo-nccl/watch") == "true":
            first += [c for c in [self.sidecar(recorded)] if c]
        self.add_volumes()
        there = self.spec.get("initContainers") or []
        if there:  # before the others, which may call NCCL already
            self.patch.operations += [{"op": "add", "path": f"/spec/initContainers/{i}", "value": c} for i, c in enumerate(first)]
        else:
            self.patch.operations.append({"op": "add", "path": "/spec/initContainers", "value": first})
        return self.patch.operations, self.warnings


def inject(pod, settings):
    """(JSON patch, warnings) of a pod."""
    made = Pod(pod, settings)
    if (made.meta.get("labels") or {}).get(LABEL) != "true":
        return [], []
    if any(c.get("name") == "capo-files" and c.get("image") == settings.image for c in made.spec.get("initContainers") or []):
        return [], []  # the API server asks again when another webhook has changed the pod
    if (made.spec.get("os") or {}).get("name") == "windows":
        return [], ["capo: not recorded: a pod of Windows"]
    if made.names & {"capo-files", "capo-watch"}:
        return [], ["capo: not recorded: a container of this pod has the name capo-files or capo-watch"]
    return made.inject()
