# SPDX-License-Identifier: Apache-2.0
"""usage: daemonset.py FILE BUILD [NAME...]: the container of the DaemonSet in FILE, run by runc.

Whole, every function of FUNCTIONS works.  Then one thing at a time is taken away; what fails without it is told, and
a thing that nothing misses is a failure.  What a kubelet adds is added: read-only /sys and /sys/fs/cgroup, a control
group namespace, the default masks.
"""
import contextlib
import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import yaml

from bench.demo import host
from tests.kubernetes import sidecar
from tests.kubernetes.agent import Agent, AgentError

# In order; each is what an operator would miss.
FUNCTIONS = ("answers on the node's socket", "registers a directory with the observer",
             "reads models of other users", "loads at the pod's cost", "knows a service's processes by their environment",
             "drops what a pod maps", "keeps templates on the node", "bounds its own memory",
             "follows pods that tell nothing", "serves the sidecar", "asks the kernel for nothing else")

UNTOLD_BYTES = 64 << 20


def things(container, pod):
    """What can be taken away: {name: change of (container, pod)}."""
    changes = {}
    for name in container["securityContext"]["capabilities"]["add"]:
        changes["capability " + name] = lambda c, p, name=name: c["securityContext"]["capabilities"]["add"].remove(name)
    for mount in container["volumeMounts"]:
        changes["mount " + mount["mountPath"]] = lambda c, p, path=mount["mountPath"]: c.update(
            volumeMounts=[m for m in c["volumeMounts"] if m["mountPath"] != path])
    if pod.get("hostPID"):
        changes["hostPID"] = lambda c, p: p.update(hostPID=False)
    if "nsenter" in container["command"]:
        changes["the node's control group namespace"] = lambda c, p: c["command"].__delitem__(slice(0, 2))
    if "prlimit" in container["command"]:
        changes["prlimit"] = lambda c, p: c["command"].__delitem__(slice(c["command"].index("prlimit"), None))
    return changes


class Node:
    """Stands for a machine: its model directory, and a reader in a control group of its own."""

    def __init__(self, folder, agent):
        self.folder, self.agent = folder, agent
        self.model = os.path.join(agent.volume("/var/lib/models"), "boxed")
        self.group = os.path.join(agent.groups, f"ppc-daemonset.{os.getpid()}")
        self.bytes = sum(entry.stat().st_size for entry in os.scandir(self.model) if entry.name.endswith(".safetensors"))

    def cached(self):
        with open(os.path.join(self.group, "memory.stat"), encoding="utf-8") as file:
            numbers = dict(line.split() for line in file)
        return int(numbers.get("cache", numbers.get("file", 0)))

    @contextlib.contextmanager
    def reader(self, environment, model=None, pause=0.0):
        """Another user's process, whose mappings of the model stay; yields it, started and not reading yet.  It pauses
        after each MiB."""
        os.makedirs(self.group, exist_ok=True)
        nobody = pwd.getpwnam("nobody")
        code = ("import mmap,os,sys,time\n"
                "files=[os.path.join(sys.argv[1],n) for n in sorted(os.listdir(sys.argv[1])) if n.endswith('.safetensors')]\n"
                "sys.stdin.readline()\n"
                "maps=[mmap.mmap(os.open(f,os.O_RDONLY),0,prot=mmap.PROT_READ) for f in files]\n"
                "for m in maps:\n"
                "  for at in range(0,len(m),4096):\n"
                "    m[at]\n"
                "    if at % (1<<20) == 0: time.sleep(float(sys.argv[2]))\n"
                "print('read',flush=True); sys.stdin.readline()")

        def enter():
            with open(os.path.join(self.group, "cgroup.procs"), "w", encoding="utf-8") as procs:
                procs.write("0")
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)

        with subprocess.Popen(["/usr/bin/python3", "-c", code, model or self.model, str(pause)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, preexec_fn=enter, start_new_session=True,
                              env={"PATH": "/usr/bin:/bin", **environment}) as process:
            try:
                yield process
            finally:
                process.kill()
                process.wait()
        for _ in range(100):  # a loader process of the agent may be on its way out
            with contextlib.suppress(OSError):
                os.rmdir(self.group)
                return
            time.sleep(0.1)

    @staticmethod
    def read(process):
        process.stdin.write("\n")
        process.stdin.flush()
        if process.stdout.readline() != "read\n":
            raise AgentError("the reader failed")


def follows_untold(node):
    """Somebody reads a large model and tells nobody of it; whether his second start is followed."""
    agent, model = node.agent, os.path.join(node.agent.volume("/var/lib/models"), "untold")
    templates = os.path.join(agent.volume("/var/lib/ppc"), "templates")
    is_learnt = lambda: any(name.startswith("auto-") and name.endswith(".ppct")
                            for _, _, names in os.walk(templates) for name in names)
    agent.drop(model)
    with node.reader({}, model, 0.03) as process:
        node.read(process)
        # The recording ends when nothing has been read for 30 s.
        if not agent.within(60, is_learnt):
            return False
    loaded = agent.runner("loader", "loaded")
    agent.drop(model)
    with node.reader({}, model, 0.03) as process:
        node.read(process)
        is_followed = agent.within(5, lambda: agent.reason("/var/lib/models", "auto-").startswith("template found"))
    # How much of it depends on who is faster; of what is only recorded nothing is.
    return is_followed and agent.runner("loader", "loaded") - loaded >= UNTOLD_BYTES // 8


def works(node, file, is_whole):
    """Which functions work; what takes long is tried with the whole container only."""
    agent, done = node.agent, set()
    if not agent.within(15, lambda: agent.ask("list") is not None):
        return done
    done.add(FUNCTIONS[0])
    path = "/var/lib/models"
    if not agent.starts_its_pod() or '"observer"' not in (agent.ask("status", "--json", path) or ""):
        return done
    done.add(FUNCTIONS[1])
    if agent.is_bounded():
        done.add(FUNCTIONS[7])
    agent.drop(node.model)
    with node.reader({"PPC_SERVICE_ID": "svc-env"}) as process:
        agent.ask("service", "start", "--id", "svc-env", "--workers", "1", "--pid", str(process.pid),
                  "--param", f"model={path}/boxed", path)
        if agent.within(15, lambda: agent.runner("loader", "loaded") >= node.bytes // 8):
            done.add(FUNCTIONS[2])
        if node.cached() >= node.bytes // 2:
            done.add(FUNCTIONS[3])
        node.read(process)
        resident = agent.resident(node.model)
        agent.ask("service", "ready", "--id", "svc-env", path)
        # What the kubelet counts as in use has not grown by the model.
        if resident >= node.bytes * 9 // 10 and agent.within(
                10, lambda: agent.resident(node.model) < node.bytes // 2 and node.cached() < node.bytes // 2):
            done.add(FUNCTIONS[5])
        agent.ask("service", "stop", "--id", "svc-env", path)
    # Started by another process, as a sidecar does: the reader is known by its environment alone.
    with node.reader({"PPC_SERVICE_ID": "svc-own"}) as process:
        agent.ask("service", "start", "--id", "svc-own", "--workers", "1", "--pid", str(os.getpid()), path)
        agent.drop(node.model)
        time.sleep(1)  # that was a stranger
        before = agent.runner("events", "strangers")
        node.read(process)
        if agent.within(5, lambda: agent.runner("events", "events") > 0) and agent.runner("events", "strangers") == before:
            done.add(FUNCTIONS[4])
        agent.ask("service", "ready", "--id", "svc-own", path)
        agent.ask("service", "stop", "--id", "svc-own", path)
    if agent.is_filtered():
        done.add(FUNCTIONS[10])
    templates = os.path.join(agent.volume("/var/lib/ppc"), "templates")
    is_kept = lambda: any(name.endswith(".ppct") for _, _, names in os.walk(templates) for name in names)
    if agent.within(5, is_kept):
        done.add(FUNCTIONS[6])
    if not is_whole or follows_untold(node):
        done.add(FUNCTIONS[8])
    wrong = sidecar.works(os.path.join(os.path.dirname(file), "sidecar.yaml"), node) if is_whole else ""
    if not wrong:
        done.add(FUNCTIONS[9])
    else:
        print(f"# the sidecar: {wrong}")
    return done


def make_large(folder):
    """A model in one file, large enough that whoever reads it gets a service by himself."""
    os.makedirs(folder)
    header = json.dumps({"weight": {"dtype": "U8", "shape": [UNTOLD_BYTES], "data_offsets": [0, UNTOLD_BYTES]}}).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(UNTOLD_BYTES >> 20):
            file.write(os.urandom(1 << 20))


def give_away(folder):
    """To another user, alone."""
    nobody = pwd.getpwnam("nobody")
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o600)
        os.chown(os.path.join(folder, name), nobody.pw_uid, nobody.pw_gid)
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    os.chmod(folder, 0o700)


def trial(file, build, change=None):
    """(which functions work, what went wrong besides) of the container with one change."""
    with open(file, encoding="utf-8") as text:
        pod = next(d for d in yaml.safe_load_all(text) if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    if change:
        change(container, pod)
    # On a disk; short, since a socket's name has room for 108 characters.
    with tempfile.TemporaryDirectory(prefix="ppc-ds-", dir="/run") as folder, \
            tempfile.TemporaryDirectory(prefix="ds-", dir=build) as disk:
        agent = Agent(folder, disk, build, pod, container)
        models = agent.volume("/var/lib/models")
        os.makedirs(models, exist_ok=True)
        shutil.copytree(os.path.join(build, "daemonset-model"), os.path.join(models, "boxed"))
        make_large(os.path.join(models, "untold"))
        for name in ("boxed", "untold"):
            give_away(os.path.join(models, name))
        os.chmod(disk, 0o755)
        os.chmod(folder, 0o755)  # the sidecar is nobody
        with agent.running():
            done = works(Node(folder, agent), file, change is None)
        return done, agent.log()


def main(file, build, *wanted):
    build = os.path.abspath(build)
    if host.refusal():
        print(f"skip whole - this host cannot: {host.refusal()}")
        return 0
    model = os.path.join(build, "daemonset-model")
    subprocess.run(["mkmodel", "--model", "qwen2.5-7b", "--scale", "128", "--layers", "2", "--quiet", "--out", model],
                   check=True, stdout=subprocess.DEVNULL)
    with open(file, encoding="utf-8") as text:
        pod = next(d for d in yaml.safe_load_all(text) if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    done, log = trial(file, build)
    lacking = [name for name in FUNCTIONS if name not in done]
    print(f"not ok whole - it does not: {'; '.join(lacking)}\n{log}" if lacking else "ok whole", flush=True)
    failed = bool(lacking)
    for name, change in things(pod["containers"][0], pod).items():
        if wanted and not any(word in name for word in wanted):
            continue
        done, log = trial(file, build, change)
        lacking = [function for function in FUNCTIONS if function not in done]
        print(f"# without {name}: {'; '.join('no longer ' + text for text in lacking) or 'nothing is missed'}")
        label = "needs-" + name.replace(" ", "-").replace("/", "-").replace("'", "")
        print(f"ok {label}" if lacking else f"not ok {label} - nothing is missed without it", flush=True)
        failed = failed or not lacking
    shutil.rmtree(model)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
