# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet's container as runc runs it: its configuration, its life, and asking it."""
import contextlib
import json
import os
import signal
import subprocess
import time

# Only what programs need of a node's file system; the image would hold the same.
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc")


# A process of the node's control group namespace; some machines' first one lets no process look.
FIRST, OURS = "/proc/1/ns/cgroup", f"/proc/{os.getpid()}/ns/cgroup"


class AgentError(Exception):
    """One line."""


class Agent:
    def __init__(self, folder, disk, build, pod, container):
        self.folder, self.disk, self.build = folder, disk, build
        self.name = f"ppc-daemonset-{os.getpid()}"
        self.groups = next(path for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.isdir(path))
        self.volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        self.bundle = os.path.join(folder, "bundle")
        self.runc = ["runc", "--root", os.path.join(folder, "runc")]
        self.post_start = container["lifecycle"]["postStart"]["exec"]["command"]
        os.makedirs(self.bundle)
        self.configure(pod, container)

    def volume(self, path):
        """Where this test keeps what a node has there."""
        return os.path.join(self.folder if path == "/run/ppc" else self.disk, "node" + path.replace("/", "-"))

    def root(self):
        root = os.path.join(self.folder, "root")
        for name in ("proc", "sys", "dev", "run", "var/lib/ppc", "var/lib/models", "tmp", "work"):
            os.makedirs(os.path.join(root, name), exist_ok=True)
        for name in SYSTEM:
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(root, name))
            elif os.path.isdir("/" + name):
                os.makedirs(os.path.join(root, name))
        os.makedirs(root + self.build, exist_ok=True)
        os.makedirs(os.path.join(root, "run/ppc"), exist_ok=True)
        return root

    def configure(self, pod, container):
        subprocess.run(["runc", "spec"], cwd=self.bundle, check=True)
        path = os.path.join(self.bundle, "config.json")
        with open(path, encoding="utf-8") as file:
            text = json.load(file)
        security = container["securityContext"]
        if security["capabilities"]["drop"] != ["ALL"] or security["privileged"]:
            raise AgentError("the DaemonSet's capabilities do not start from none")
        first = FIRST if os.access(FIRST, os.R_OK) or not pod.get("hostPID") else OURS
        names = ["CAP_" + name for name in security["capabilities"]["add"]]
        text["process"].update(
            terminal=False, args=[word.replace(FIRST, first) for word in container["command"] + container["args"]], rlimits=[], noNewPrivileges=False,
            user={"uid": security["runAsUser"], "gid": 0},
            env=[f"PATH={self.build}/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"PPC_POLICY_DIR={self.build}/policies"],
            capabilities={kind: names for kind in ("bounding", "effective", "permitted")})
        text["root"] = {"path": self.root(), "readonly": security["readOnlyRootFilesystem"]}
        spaces = [{"type": kind} for kind in ("network", "ipc", "uts", "mount", "cgroup")]
        text["linux"]["namespaces"] = spaces if pod.get("hostPID") else spaces + [{"type": "pid"}]
        for name in [f"/{name}" for name in SYSTEM] + [self.build]:
            if os.path.isdir(name) and not os.path.islink(name):
                text["mounts"].append({"destination": name, "type": "bind", "source": name, "options": ["rbind", "ro"]})
        for mount in container["volumeMounts"]:
            source = self.volumes[mount["name"]]["hostPath"]
            at = source["path"] if source["path"].startswith("/sys") else self.volume(source["path"])
            os.makedirs(at, exist_ok=True)
            slave = ["rslave"] if mount.get("mountPropagation") == "HostToContainer" else []
            text["mounts"].append({"destination": mount["mountPath"], "type": "bind", "source": at,
                                   "options": ["rbind", "ro" if mount.get("readOnly") else "rw", *slave]})
        with open(path, "w", encoding="utf-8") as file:
            json.dump(text, file)

    @contextlib.contextmanager
    def running(self):
        runc = self.runc
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log, subprocess.Popen(
                [*runc, "run", "--bundle", self.bundle, self.name], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGTERM)  # runc passes it on
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                subprocess.run([*runc, "delete", "--force", self.name], check=False, capture_output=True)
                process.kill()

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return "".join("    " + line for line in file.readlines()[-30:])

    def ask(self, *words):
        """What ppcctl prints, of the node; None: it failed."""
        environment = os.environ | {"PPC_SOCKET": os.path.join(self.volume("/run/ppc"), "ppcd.sock")}
        done = subprocess.run(["ppcctl", *words], capture_output=True, text=True, check=False, env=environment)
        if done.returncode and "does not answer" not in done.stderr:
            with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log:
                log.write(f"{' '.join(words)}: {done.stderr}")
        return None if done.returncode else done.stdout

    def runner(self, *keys):
        """A number of the runner's status; 0 if it does not tell."""
        value = json.loads(self.ask("status", "--json") or "{}").get("mounts", [{}])
        value = value[0].get("runner", {}) if value else {}
        for key in keys:
            value = value.get(key, {})
        return value if isinstance(value, int) else 0

    def told_of_runner(self, name):
        """Lines of a file of /proc about its runner."""
        runners = json.loads(self.ask("status", "--json") or "{}").get("mounts", [])
        try:
            with open(f"/proc/{runners[0]['pid']}/{name}", encoding="utf-8") as file:
                return file.read().splitlines()
        except (IndexError, KeyError, OSError):
            return []

    def is_bounded(self):
        """Whether its runner has a limit of the memory of its own."""
        return any(line.startswith("Max data size") and line.split()[3] != "unlimited"
                   for line in self.told_of_runner("limits"))

    def is_filtered(self):
        """Whether a filter of system calls is over its runner."""
        return "Seccomp:\t2" in self.told_of_runner("status")

    def resident(self, path):
        return json.loads(subprocess.run(["ppcctl", "residency", "--json", path], capture_output=True, text=True,
                                         check=True).stdout)["resident"]

    def starts_its_pod(self):
        """What the kubelet runs in the container once it has started; whether that went well."""
        done = subprocess.run([*self.runc, "exec", self.name, *self.post_start], check=False, capture_output=True, text=True)
        if done.returncode:
            with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log:
                log.write(f"postStart: {done.stderr}")
        return done.returncode == 0

    def reason(self, path, name):
        """Why the policy does what it does for the service whose name begins so; "" if there is none."""
        said = json.loads(self.ask("policy", path, '{"op": "status"}') or "{}")
        return next((one["reason"] for one in said.get("services", []) if one["service_id"].startswith(name)), "")

    @staticmethod
    def drop(path):
        subprocess.run(["sync", "-f", path], check=True)
        subprocess.run(["ppcctl", "drop", path], check=True, stdout=subprocess.DEVNULL)

    @staticmethod
    def within(seconds, is_true):
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True
