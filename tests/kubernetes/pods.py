# SPDX-License-Identifier: Apache-2.0
"""Pods of all sorts: pods.made(random) is one that an API server accepts, with the label that asks for capo."""


def container(random, i, volumes):
    made = {"name": f"c{i}", "image": f"i:{i}"}
    if random.random() < 0.6:
        made["env"] = [{"name": n, **({"value": random.choice(["", "/x.so", "/x.so:/y.so", "a b"])} if random.random() < 0.8 else
                                      {"valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}})}
                       for n in random.sample(["A", "LD_PRELOAD", "NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN", "CAPO_DIR"], random.randrange(4))]
    if random.random() < 0.2:
        made["envFrom"] = [{"secretRef": {"name": "s"}}]
    paths = random.sample(["/dev/shm", "/dev/shm/", "/capo", "/capo-logs", "/data", "/capo-logs/"], random.randrange(3))
    if volumes and paths and len({p.rstrip("/") for p in paths}) == len(paths):
        made["volumeMounts"] = [{"name": random.choice(volumes), "mountPath": p} for p in paths]
    if random.random() < 0.7:
        made["securityContext"] = random.choice([
            {}, {"runAsUser": random.choice([0, 1000]), "runAsGroup": 100}, {"privileged": True}, {"capabilities": {"add": ["IPC_LOCK"]}}, STRICT, STRICT,
            {"capabilities": None}, {"capabilities": {"drop": ["ALL"]}}])
    size = {"cpu": "4", "memory": "8Gi"}
    made["resources"] = random.choice([{}, {"limits": size}, {"limits": size, "requests": size}, {"requests": size}])
    return made


STRICT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True}
NOTES = {"containers": ["c0", "c0, c1", "c1,c9", " ", ""], "logs-claim": ["mine", "No Claim", "x" * 300], "shm": ["16Gi", "lots", "-1", "0", "1e3"],
         "profile": ["/etc/p.json"], "watch": ["true", "false"], "ptrace": ["true", "yes"], "preload": ["", "/usr/lib/t.so"]}


def made(random):
    volumes = random.sample(["s", "capo-logs", "capo-files", "capo-shm"], random.randrange(4))
    spec = {"containers": [container(random, i, volumes) for i in range(random.randrange(1, 3))]}
    if volumes or random.random() < 0.3:
        spec["volumes"] = [{"name": v, "emptyDir": {}} for v in volumes]
    if random.random() < 0.3:
        spec["initContainers"] = [container(random, i, volumes) for i in range(5, 6 + random.randrange(2))]
    for name in ("hostPID", "hostIPC", "hostNetwork"):
        if random.random() < 0.1:
            spec[name] = True
    if random.random() < 0.2 and not spec.get("hostPID"):
        spec["shareProcessNamespace"] = random.random() < 0.5
    if random.random() < 0.5:
        spec["securityContext"] = random.choice([{"runAsUser": 0}, {"runAsUser": 1000, "runAsNonRoot": True}, {"runAsNonRoot": True}, {"fsGroup": 100}, {}])
    notes = {f"capo-nccl/{name}": random.choice(choices) for name, choices in NOTES.items() if random.random() < 0.25}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"capo-nccl/record": "true"}, "annotations": notes}, "spec": spec}
