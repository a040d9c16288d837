# SPDX-License-Identifier: Apache-2.0
"""The sidecar's own lines and probe, run as its container would be: a user without rights, a control group and a network
of its own."""
import contextlib
import os
import signal
import subprocess
import time

import yaml

USER = "65534"
SERVER = ("import http.server as h\n"
          "class Health(h.BaseHTTPRequestHandler):\n"
          "  def do_GET(self): self.send_response(200 if self.path == '/health' else 404); self.end_headers()\n"
          "h.HTTPServer(('127.0.0.1', 8000), Health).serve_forever()\n")


class Sidecar:
    def __init__(self, file, group, build):
        with open(file, encoding="utf-8") as text:
            self.pod = yaml.safe_load(text)["spec"]
        self.container, self.group, self.build = self.pod["initContainers"][0], group, build
        self.service = next(one["value"] for one in self.container["env"] if one["name"] == "SERVICE")

    def engine_environment(self):
        return {one["name"]: one["value"] for one in self.pod["containers"][0]["env"]}

    @contextlib.contextmanager
    def running(self, socket, model, log):
        """Yields its process."""
        os.makedirs(self.group, exist_ok=True)
        environment = {one["name"]: one["value"] for one in self.container["env"]}
        environment.update(PATH=f"{self.build}/bin:/usr/sbin:/usr/bin:/sbin:/bin", PPC_SERVICE_SOCKET=socket, MODEL=model)

        def enter():
            with open(os.path.join(self.group, "cgroup.procs"), "w", encoding="utf-8") as procs:
                procs.write("0")

        security = self.container["securityContext"]
        assert security["runAsUser"] == int(USER) and security["capabilities"]["drop"] == ["ALL"]
        begin = ("ip link set lo up && mount -t tmpfs -o mode=1777 tmpfs /tmp && exec setpriv --reuid " + USER +
                 " --regid " + USER + " --clear-groups --bounding-set=-all --no-new-privs \"$@\"")
        with open(log, "a", encoding="utf-8") as said, subprocess.Popen(
                ["unshare", "--net", "--mount", "sh", "-c", begin, "sh", *self.container["command"]], stdout=said,
                stderr=said, preexec_fn=enter, env=environment, start_new_session=True) as process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rmdir(self.group)
                return
            time.sleep(0.1)

    def is_started(self, process):
        """Whether the probe, repeated as it is to be, lets the engine start."""
        probe = self.container["startupProbe"]
        for _ in range(probe["failureThreshold"]):
            time.sleep(probe["periodSeconds"])
            if subprocess.run(["nsenter", "-t", str(process.pid), "-m", *probe["exec"]["command"]], check=False).returncode == 0:
                return True
        return False

    @contextlib.contextmanager
    def healthy_engine(self, process):
        """The engine's port, in the network that the containers of a pod share."""
        with subprocess.Popen(["nsenter", "-t", str(process.pid), "-n", "/usr/bin/python3", "-c", SERVER],
                              stderr=subprocess.DEVNULL) as server:
            try:
                yield
            finally:
                server.kill()


def works(file, node):
    """Whether it tells ppcd of the start, of readiness and of the end; and lets the engine start without a ppcd."""
    agent, path = node.agent, "/var/lib/models/boxed"
    sidecar = Sidecar(file, node.group + ".sidecar", agent.build)
    socket, log = os.path.join(agent.volume("/run/ppc"), "service/ppcd.sock"), os.path.join(agent.folder, "log")
    is_told = lambda: f'"{sidecar.service}"' in (agent.ask("status", "--json") or "")
    agent.drop(node.model)
    with sidecar.running(socket, path, log) as process:
        if not sidecar.is_started(process) or not is_told():
            return "it does not tell of the start"
        with node.reader(sidecar.engine_environment()) as reader:
            node.read(reader)
            resident = agent.resident(node.model)
            with sidecar.healthy_engine(process):
                is_ready = agent.within(20, lambda: agent.resident(node.model) < resident // 2)
        if resident < node.bytes * 9 // 10 or not is_ready:
            return "it does not tell that the engine is ready"
        process.send_signal(signal.SIGTERM)
        try:
            if process.wait(10) or is_told():
                return "it does not tell of the end"
        except subprocess.TimeoutExpired:
            return "it does not end"
    with sidecar.running("/nowhere", path, log) as process:
        return "" if sidecar.is_started(process) else "without ppcd the engine does not start"
