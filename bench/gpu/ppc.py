# SPDX-License-Identifier: Apache-2.0
"""The project's programs on this machine: a ppcd of our own, and what it says of processes."""
import glob
import json
import os
import re
import shutil

from demo import private_ppcd
from demo.private_ppcd import PpcError

NVML = "libnvidia-ml.so.1"
NVML_PLACES = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib",
               "/usr/lib/aarch64-linux-gnu")


def _version(text):
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def find_programs(top, given=None):
    """The directory with bin/ and policies/: the pack when it is there, else the build tree."""
    for folder in (given,) if given else (os.path.join(top, "build", "gpu-pack"), os.path.join(top, "build")):
        if os.access(os.path.join(folder, "bin", "ppcd"), os.X_OK):
            return folder
    raise PpcError("no programs: build them and run bench/gpu/pack, or give --programs DIR")


def _nvml():
    """The file, where the dynamic linker may not look for it; None: not on this machine."""
    for folder in NVML_PLACES:
        if os.path.exists(os.path.join(folder, NVML)):
            return os.path.join(folder, NVML)
    return None


class Programs:
    """A copy that belongs to us, whoever the tree belongs to, with the libraries packed beside it."""

    def __init__(self, source, work):
        self.folder = os.path.join(work, "programs")
        self.source = source
        for part in ("bin", "policies", "lib"):
            self._copy(os.path.join(source, part), os.path.join(self.folder, part))
        self.environment = dict(os.environ)
        libraries = os.path.join(self.folder, "lib")
        if os.listdir(libraries):
            self._check_machine()
            before = self.environment.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = libraries + (":" + before if before else "")
        nvml = _nvml()
        if nvml and "PPC_NVML_LIBRARY" not in self.environment:
            self.environment["PPC_NVML_LIBRARY"] = nvml

    @staticmethod
    def _copy(source, target):
        os.makedirs(target)
        wanted = ("ppcd", "ppc-runner", "ppcctl") if source.endswith("bin") else None
        for path in glob.glob(os.path.join(source, "*")):
            name = os.path.basename(path)
            if os.path.isfile(path) and (name in wanted if wanted else ".so" in name):
                shutil.copyfile(path, os.path.join(target, name))
                os.chmod(os.path.join(target, name), 0o755)

    def _check_machine(self):
        with open(os.path.join(self.source, "manifest.json"), encoding="utf-8") as file:
            needed = json.load(file)
        here = os.confstr("CS_GNU_LIBC_VERSION") or "no glibc"
        if needed["machine"] != os.uname().machine:
            raise PpcError(f"the programs are for {needed['machine']}, this machine is {os.uname().machine}")
        if _version(here) < _version(needed["glibc"]):
            raise PpcError(f"the programs need glibc {needed['glibc']}, this machine has {here}; build the "
                           "pack on a system no newer than this one")

    def path(self, name):
        return os.path.join(self.folder, "bin", name)

    def shielded(self, command):
        """The command with the linker's path as we found it: torch brings libraries of its own."""
        before = os.environ.get("LD_LIBRARY_PATH")
        change = ["-u", "LD_LIBRARY_PATH"] if before is None else [f"LD_LIBRARY_PATH={before}"]
        return ["env", *change, *command]


class Ppcd(private_ppcd.Ppcd):
    """A private ppcd with MAIO on one directory; leaves nothing behind."""

    def __init__(self, programs, work, folder, backend):
        own = private_ppcd.variables(os.path.join(work, "ppcd"), programs.folder)
        super().__init__(os.path.join(work, "ppcd"), environment=own | {
            key: value for key, value in programs.environment.items() if key in ("LD_LIBRARY_PATH", "PPC_NVML_LIBRARY")})
        self.programs, self.folder, self.backend = programs, os.path.realpath(folder), backend

    def register_maio(self):
        """Anew for each run: nothing is remembered but templates."""
        self.register(self.folder, "maio", backend=self.backend)

    def forget(self):
        """The next start has no recording."""
        for entry in os.listdir(self.templates):
            shutil.rmtree(os.path.join(self.templates, entry), ignore_errors=True)

    def status(self):
        """What status says of our directory, {} if it does not answer."""
        done = self.ask("status", "--json", self.folder)
        try:
            return next(iter(json.loads(done.stdout).get("mounts", [])), {})
        except ValueError:
            return {}

    def probe(self):
        """Registers once: which backend works here, its limits, the XPUs as they are numbered."""
        self.register_maio()
        status = self.status()
        return {"backend": status.get("backend", "unknown"), "limits": status.get("limits", []),
                "xpus": status.get("runner", {}).get("xpus", [])}

    def command(self, params, xpus, workers, ready_text, command):
        """ppcctl run around the command; it fails rather than run without us."""
        words = [f"--param={key}={value}" for key, value in params.items()]
        if xpus:
            words.append("--xpu=" + ",".join(map(str, xpus)))
        return [self.programs.path("ppcctl"), "run", "--required", *words, f"--workers={workers}",
                f"--ready-on={ready_text}", self.folder, "--", *self.programs.shielded(command)]

    def explain(self, pid):
        """explain-pid's answer for our directory, {} if there is none."""
        done = self.ask("explain-pid", "--json", str(pid), self.folder)
        try:
            return next(iter(json.loads(done.stdout).get("mounts", [])), {})
        except ValueError:
            return {"error": (done.stderr or done.stdout).strip()}
