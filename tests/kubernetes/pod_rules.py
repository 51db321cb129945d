# SPDX-License-Identifier: Apache-2.0
"""What the API server and the Pod Security Standards ask of a pod, as far as a webhook can break it.

    refused(pod)            why an API server of Kubernetes 1.29 or later would not accept it
    violations(pod, level)  "baseline" or "restricted": https://kubernetes.io/docs/concepts/security/pod-security-standards/
    quality(pod)            its QoS class
"""
BASELINE_CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
                         "SETUID", "SYS_CHROOT"}
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def containers(spec):
    return (spec.get("initContainers") or []) + (spec.get("containers") or [])


def repeated(names):
    names = list(names)
    return sorted({n for n in names if names.count(n) > 1})


PROBES = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def sidecar_faults(spec):
    """What an API server of 1.29 or later asks of containers of init, by validateInitContainers() and validateContainers() of its sources
    (pkg/apis/core/validation/validation.go): https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/"""
    found = [f"{c['name']}: restartPolicy of a container that is none of init" for c in spec.get("containers") or [] if "restartPolicy" in c]
    for c in spec.get("initContainers") or []:
        policy = c.get("restartPolicy")
        if policy not in (None, "Always"):
            found.append(f"{c['name']}: restartPolicy {policy}")
        found += [f"{c['name']}: {p} of a container of init that ends" for p in PROBES if policy is None and p in c]
    names = [c["name"] for c in spec.get("initContainers") or []]
    if "capo-watch" in names and "capo-files" not in names[:names.index("capo-watch")]:
        found.append("capo-watch begins before capo-files has copied its command")
    return found


def refused(pod):
    spec, found = pod["spec"], []
    volumes = [v["name"] for v in spec.get("volumes") or []]
    for what, names in (("volumes", volumes), ("containers", [c["name"] for c in containers(spec)])):
        found += [f"two {what} named {n}" for n in repeated(names)]
    for c in containers(spec):
        mounts = c.get("volumeMounts") or []
        found += [f"{c['name']}: two mounts at {p}" for p in repeated(m["mountPath"] for m in mounts)]
        found += [f"{c['name']}: no volume {m['name']}" for m in mounts if m["name"] not in volumes]
        found += [f"{c['name']}: env {v['name']} has a value and a valueFrom" for v in c.get("env") or [] if v.get("value") and v.get("valueFrom")]
        context, outer = c.get("securityContext") or {}, spec.get("securityContext") or {}
        if context.get("runAsNonRoot", outer.get("runAsNonRoot")) and context.get("runAsUser", outer.get("runAsUser")) == 0:
            found.append(f"{c['name']}: runAsNonRoot and user 0")  # the kubelet does not start it
        if spec.get("hostNetwork"):
            found += [f"{c['name']}: host port {p['containerPort']}" for p in c.get("ports") or [] if c["name"].startswith("capo-")]
        for name, most in ((c.get("resources") or {}).get("limits") or {}).items():
            least = ((c.get("resources") or {}).get("requests") or {}).get(name, most)
            if c["name"].startswith("capo-") and least != most:
                found.append(f"{c['name']}: requests are not the limits")
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        found.append("hostPID and shareProcessNamespace")
    return found + sidecar_faults(spec)


def violations(pod, level):
    spec, found = pod["spec"], []
    outer = spec.get("securityContext") or {}
    found += [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found += [f"volume {v['name']}" for v in spec.get("volumes") or [] if "hostPath" in v]
    if level == "restricted":
        found += [f"volume {v['name']}" for v in spec.get("volumes") or [] if not set(v) - {"name"} <= RESTRICTED_VOLUMES]
    for c in containers(spec):
        context = c.get("securityContext") or {}
        added = set((context.get("capabilities") or {}).get("add") or [])
        profile = (context.get("seccompProfile") or outer.get("seccompProfile") or {}).get("type")
        wrong = {"privileged": context.get("privileged"), "capabilities": added - BASELINE_CAPABILITIES, "seccomp": profile == "Unconfined",
                 "hostPort": any(p.get("hostPort") for p in c.get("ports") or [])}
        if level == "restricted":
            wrong |= {"escalation": context.get("allowPrivilegeEscalation") is not False,
                      "capabilities": added - {"NET_BIND_SERVICE"} or "ALL" not in ((context.get("capabilities") or {}).get("drop") or []),
                      "seccomp": profile not in ("RuntimeDefault", "Localhost"),
                      "root": not context.get("runAsNonRoot", outer.get("runAsNonRoot")) or context.get("runAsUser", outer.get("runAsUser")) == 0}
        found += [f"{c['name']}: {what}" for what, bad in wrong.items() if bad]
    return found


def quality(pod):
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/"""
    guaranteed, any_set = True, False
    for c in containers(pod["spec"]):
        limits = (c.get("resources") or {}).get("limits") or {}
        requests = {**limits, **((c.get("resources") or {}).get("requests") or {})}
        for name in ("cpu", "memory"):
            any_set = any_set or name in requests or name in limits
            guaranteed = guaranteed and name in limits and requests[name] == limits[name]
    return "Guaranteed" if guaranteed else "Burstable" if any_set else "BestEffort"
