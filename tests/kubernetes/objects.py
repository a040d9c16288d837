# SPDX-License-Identifier: Apache-2.0
"""usage: objects.py FOLDER: its objects are as the schemas of Kubernetes want them, and a slip of the pen is noticed.

Custom resources have no schema here; their file says so.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import yaml

UNKNOWN = "Not validated"
# One in each kind of place: a field of the pod, of the container, of its security, of a mount; a kind; a type.
SLIPS = (("hostPID:", "hostPid:"), ("resources:", "resource:"), ("readOnlyRootFilesystem:", "readOnlyRootFileSystem:"),
         ("mountPropagation:", "mountPropagatoin:"), ("kind: DaemonSet", "kind: DeamonSet"),  # codespell:ignore
         ("terminationGracePeriodSeconds: 20", "terminationGracePeriodSeconds: soon"))


def complaints(path):
    """What the validator says against a file; "" if nothing."""
    done = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", path],
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    # It only warns of a kind that it does not know.
    if done.returncode == 0 and "WARN" not in said:
        return ""
    return said.strip() or f"status {done.returncode}"


def dangling(document):
    """Mounts of volumes that are not there: no schema sees those."""
    spec = document.get("spec", {}).get("template", document).get("spec", {})
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    containers = spec.get("initContainers", []) + spec.get("containers", [])
    return [mount["name"] for container in containers for mount in container.get("volumeMounts", [])
            if mount["name"] not in volumes]


def main(folder):
    failed = False

    def result(name, reason):
        nonlocal failed
        failed = failed or bool(reason)
        print(f"not ok {name} - {reason.splitlines()[-1]}" if reason else f"ok {name}", flush=True)

    for path in sorted(glob.glob(os.path.join(folder, "**", "*.yaml"), recursive=True)):
        name = "object-" + os.path.basename(path).removesuffix(".yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        documents = list(yaml.safe_load_all(text))
        if UNKNOWN in text:
            result(name, "" if all(re.search(r"\.", d["apiVersion"]) for d in documents) else
                   f"it says '{UNKNOWN}' of an object of Kubernetes itself")
            continue
        lost = [name for document in documents for name in dangling(document)]
        result(name, complaints(path) or (f"no volume is called {lost[0]}" if lost else ""))
    with open(os.path.join(folder, "daemonset.yaml"), encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as scratch:
        for right, wrong in SLIPS:
            path = os.path.join(scratch, "daemonset.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(right, wrong))
            is_seen = text.count(right) >= 1 and complaints(path)
            result("slip-" + re.sub(r"\W+", "-", wrong).strip("-"), "" if is_seen else f"'{wrong}' is taken")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
