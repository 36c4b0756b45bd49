#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pod.py FILE KIND NODE: print the arguments with which podman runs the container
of the object KIND (DaemonSet or Pod) of FILE, one per line, without the name of
the image. Paths of the host are below NODE, secrets are in NODE/secrets/NAME.
With "ready" as a fourth argument, print the command of the readiness probe.

Unknown keys are an error, so that no part of the object is ignored by mistake.
Only keys for scheduling are ignored, since they mean nothing to podman.
"""
import os
import sys

import yaml

SCHEDULING = {
    "nodeSelector", "tolerations", "priorityClassName", "dnsPolicy",
    "terminationGracePeriodSeconds", "automountServiceAccountToken",
    "enableServiceLinks",
}
PROBES = {"readinessProbe", "livenessProbe"}


def only(thing, where, *known):
    """Refuse all keys except the known ones."""
    unknown = set(thing) - set().union(*known)
    if unknown:
        sys.exit(f"pod.py: {where}: what is {', '.join(sorted(unknown))}?")


def security(pod, container):
    """Return the arguments of both security contexts. The container's takes precedence."""
    only(pod, "securityContext", {
        "runAsNonRoot", "runAsUser", "runAsGroup", "supplementalGroups"})
    only(container, "the container's securityContext", {
        "runAsUser", "runAsGroup", "allowPrivilegeEscalation",
        "readOnlyRootFilesystem", "capabilities", "seccompProfile"})
    both = {**pod, **container}
    args = [f"--user={both['runAsUser']}:{both['runAsGroup']}"]
    if both.get("runAsNonRoot") and both["runAsUser"] == 0:
        sys.exit("pod.py: root may not run there")
    args += [f"--group-add={g}" for g in both.get("supplementalGroups", [])]
    if both.get("allowPrivilegeEscalation") is False:
        args.append("--security-opt=no-new-privileges")
    if both.get("readOnlyRootFilesystem"):
        args += ["--read-only", "--read-only-tmpfs=false"]
    caps = both.get("capabilities", {})
    args += [f"--cap-drop={c}" for c in caps.get("drop", [])]
    args += [f"--cap-add={c}" for c in caps.get("add", [])]
    if both.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        sys.exit("pod.py: there is no filter of system calls")
    return args


def volume(source, mount, node):
    """Return the argument that mounts a volume."""
    at, read_only = mount["mountPath"], mount.get("readOnly", False)
    if "emptyDir" in source:
        only(source["emptyDir"], "emptyDir", {"medium", "sizeLimit"})
        return f"--tmpfs={at}:rw,mode=0777,nosuid,nodev"
    if "secret" in source:
        only(source["secret"], "secret", {"secretName", "defaultMode"})
        path = os.path.join(node, "secrets", source["secret"]["secretName"])
        for name in os.listdir(path):
            os.chmod(os.path.join(path, name), source["secret"]["defaultMode"])
    elif "hostPath" in source:
        path = node + source["hostPath"]["path"]
        if source["hostPath"]["type"] == "DirectoryOrCreate":
            os.makedirs(path, 0o755, exist_ok=True)
        elif not os.path.isdir(path):
            sys.exit(f"pod.py: there is no {path}")
    else:
        sys.exit(f"pod.py: what volume is {source}?")
    return f"--volume={path}:{at}:{'ro' if read_only else 'rw'}"


def arguments(spec, node):
    """Return podman's arguments for the only container of `spec`."""
    only(spec, "spec", SCHEDULING, {
        "hostNetwork", "hostPID", "containers", "volumes", "securityContext"})
    (container,) = spec["containers"]
    only(container, "container", PROBES, {
        "name", "image", "command", "env", "ports", "resources",
        "securityContext", "volumeMounts"})
    args = security(spec.get("securityContext", {}),
                    container["securityContext"])
    if spec.get("hostNetwork"):
        args.append("--network=host")
    if spec.get("hostPID"):
        args.append("--pid=host")
    args += [f"--env={e['name']}={e['value']}" for e in container["env"]]
    sources = {v["name"]: v for v in spec["volumes"]}
    args += [volume(sources[m["name"]], m, node)
             for m in container["volumeMounts"]]
    if "command" in container:
        args.append(f"--entrypoint={container['command'][0]}")
    return args


def main():
    """Print the arguments, see the top of this file."""
    path, kind, node = sys.argv[1:4]
    with open(path, encoding="utf-8") as text:
        (document,) = [d for d in yaml.safe_load_all(text) if d["kind"] == kind]
    spec = document["spec"]
    if kind == "DaemonSet":
        spec = spec["template"]["spec"]
    if sys.argv[4:] == ["ready"]:
        print("\n".join(
            spec["containers"][0]["readinessProbe"]["exec"]["command"]))
    else:
        print("\n".join(arguments(spec, node)))


main()
