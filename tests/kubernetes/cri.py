# SPDX-License-Identifier: Apache-2.0
"""What crictl does, which the archive lacks: calls of the CRI, whose messages are dictionaries here as they are JSON there."""
import importlib
import os
import re
import subprocess
import sys

WAIT_S = 60
CGROUP = f"kubepods.{os.getpid()}"


def compile_messages(proto, folder, site):
    """Python's modules for Kubernetes's own description of the CRI; site: where the compiler is."""
    os.makedirs(folder, exist_ok=True)
    with open(proto, encoding="utf-8") as file:
        text = file.read()
    # What Go's generator is told.
    text = re.sub(r'^(import "[^"]*gogo[^"]*"|option [^;]*gogoproto[^;]*);\n', "", text, flags=re.M)
    text = re.sub(r"\s*\[[^\]]*gogoproto[^\]]*\]", "", text)
    with open(os.path.join(folder, "cri.proto"), "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}",
                    f"--grpc_python_out={folder}", "cri.proto"], check=True,
                   env=os.environ | {"PYTHONPATH": site})
    sys.path.insert(0, folder)


class Cri:
    """A runtime's socket."""

    def __init__(self, socket):
        import grpc
        from google.protobuf import json_format
        self.messages, self.to_message = importlib.import_module("cri_pb2"), json_format.ParseDict
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])
        self.runtime = importlib.import_module("cri_pb2_grpc").RuntimeServiceStub(self.channel)

    def call(self, method, **fields):
        request = self.to_message(fields, getattr(self.messages, method + "Request")())
        return getattr(self.runtime, method)(request, timeout=WAIT_S, wait_for_ready=True)

    def close(self):
        """Ends all pods too: a runtime leaves them running."""
        for pod in self.call("ListPodSandbox").items:
            self.call("StopPodSandbox", pod_sandbox_id=pod.id)
            self.call("RemovePodSandbox", pod_sandbox_id=pod.id)
        self.channel.close()


class Pod:
    """A sandbox and its containers, until `stop`.  spec: of a pod of Kubernetes, as far as it is used here."""

    def __init__(self, cri, name, spec, logs, annotations=None):
        self.cri, self.name, self.spec, self.logs = cri, name, spec, os.path.join(logs, name)
        self.containers = {}
        os.makedirs(self.logs, exist_ok=True)
        # There is no network of pods here.
        modes = {"network": "NODE", "pid": "NODE" if spec.get("hostPID") else "POD", "ipc": "POD"}
        self.security = {"namespace_options": modes, "seccomp": {"profile_type": "Unconfined"}}
        self.config = {"metadata": {"name": name, "uid": f"{name}-{os.getpid()}", "namespace": "ppc"},
                       "log_directory": self.logs, "annotations": annotations or {},
                       "linux": {"cgroup_parent": f"/{CGROUP}/pod-{name}", "security_context": self.security}}

    def run(self):
        self.id = self.cri.call("RunPodSandbox", config=self.config).pod_sandbox_id

    def container(self, name):
        return next(one for one in self.spec["containers"] if one["name"] == name)

    def create(self, name):
        told = self.container(name)
        volumes = {one["name"]: one["hostPath"]["path"] for one in self.spec.get("volumes", [])}
        security = told.get("securityContext", {})
        capabilities = security.get("capabilities", {})
        context = self.security | {
            "run_as_user": {"value": security.get("runAsUser", 0)},
            "readonly_rootfs": security.get("readOnlyRootFilesystem", False),
            "capabilities": {"add_capabilities": capabilities.get("add", []), "drop_capabilities": capabilities.get("drop", [])}}
        config = {
            "metadata": {"name": name}, "image": {"image": told["image"]}, "log_path": f"{name}.log",
            "command": told.get("command", []), "args": told.get("args", []),
            "envs": [{"key": one["name"], "value": one["value"]} for one in told.get("env", [])],
            "mounts": [{"container_path": one["mountPath"], "host_path": volumes[one["name"]],
                        "readonly": one.get("readOnly", False),
                        "propagation": "PROPAGATION_HOST_TO_CONTAINER" if "mountPropagation" in one else "PROPAGATION_PRIVATE"}
                       for one in told.get("volumeMounts", [])],
            "linux": {"security_context": context}}
        self.containers[name] = self.cri.call("CreateContainer", pod_sandbox_id=self.id, config=config,
                                              sandbox_config=self.config).container_id

    def start(self, name):
        self.cri.call("StartContainer", container_id=self.containers[name])

    def execute(self, name, command):
        """(status, what it printed)."""
        done = self.cri.call("ExecSync", container_id=self.containers[name], cmd=command, timeout=WAIT_S)
        return done.exit_code, (done.stdout + done.stderr).decode(errors="replace")

    def said(self, name):
        """Its log without the runtime's marks."""
        try:
            with open(os.path.join(self.logs, f"{name}.log"), encoding="utf-8", errors="replace") as file:
                return "".join(line.split(" ", 3)[-1] for line in file)
        except FileNotFoundError:
            return ""

    def stop(self):
        for container in self.containers.values():
            self.cri.call("StopContainer", container_id=container, timeout=20)
            self.cri.call("RemoveContainer", container_id=container)
        self.containers = {}
        self.cri.call("StopPodSandbox", pod_sandbox_id=self.id)
        self.cri.call("RemovePodSandbox", pod_sandbox_id=self.id)
