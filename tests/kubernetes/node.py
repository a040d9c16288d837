# SPDX-License-Identifier: Apache-2.0
"""A node without a kubelet: containerd with NRI, its images, and the node's own paths, in a mount namespace of their own.

Programs of containerd are the archive's, unpacked; nothing is installed.
"""
import contextlib
import glob
import os
import re
import signal
import subprocess
import tarfile
import time

from tests.kubernetes.cri import CGROUP, Cri
from tests.lib.cold_start import BUILD, ENVIRONMENT, TOP, unpack
from tools.lib.lint import image as image_file

CONTAINERFILE = os.path.join(TOP, "packaging/kubernetes/Containerfile")
PAUSE, AGENT = "localhost/pause:1", "docker.io/library/ppc:0.1.0"
# Beside what the Containerfile installs: the essential part of a Debian.
ESSENTIAL = "bash coreutils dash grep sed util-linux libc-bin libstdc++6".split()
SUITE = "bookworm"  # the Containerfile's
CONFIG = """
version = 2
root = "{work}/root"
state = "{work}/state"
[grpc]
  address = "{work}/containerd.sock"
[ttrpc]
  address = "{work}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{work}/none"
  conf_dir = "{work}/none"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{nri}"
  plugin_path = "{work}/none"
  plugin_config_path = "{work}/none"
"""
NRI_SOCKET = "/var/run/nri/nri.sock"


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=ENVIRONMENT, **options).stdout


def host_suite():
    with open("/etc/os-release", encoding="utf-8") as file:
        return dict(line.strip().split("=", 1) for line in file if "=" in line).get("VERSION_CODENAME", "")


def packages(suite):
    """A folder with containerd, and Kubernetes's description of the CRI, without what they depend on: runc is this
    system's."""
    root = os.path.join(BUILD, "roots", f"containerd-{suite}")
    if not os.path.exists(f"{root}/.complete"):
        libraries = "".join(f"source {TOP}/tools/lib/{name}.sh; " for name in ("common", "suites", "roots", "kernels"))
        script = (f'{libraries} all_suites amd64; rm -rf "$1"; mkdir -p "$1/debs"; '
                  'download_packages "$1/debs" "containerd/$2" "golang-github-kubernetes-cri-api-dev/$2"; '
                  'for deb in "$1"/debs/*.deb; do unpack_package "$deb" "$1"; done; touch "$1/.complete"')
        run("bash", "-euc", script, "bash", root, suite)
    return root


class Images:
    """Made by buildah without a registry: of unpacked packages and of this build."""

    def __init__(self, work):
        self.work = work
        self.buildah = ["buildah", "--root", f"{work}/images", "--runroot", f"{work}/images.run", "--storage-driver", "vfs"]
        os.makedirs(f"{work}/archives")

    def build(self, name, text, context, *options):
        path = f"{self.work}/Containerfile"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run(*self.buildah, "build", "--quiet", "--isolation", "chroot", *options, "-t", name, "-f", path, context)

    def archive(self, name):
        path = os.path.join(self.work, "archives", re.sub(r"\W+", "-", name) + ".tar")
        run(*self.buildah, "push", "--quiet", name, f"docker-archive:{path}:{name}")
        return path

    def make_base(self):
        """debian:12-slim, with the packages that the Containerfile's last stage would install in it."""
        root = os.path.join(BUILD, "roots/image")
        unpack(root, SUITE, *image_file.stages()[-1], *ESSENTIAL)
        context = f"{self.work}/base"
        os.makedirs(context)
        with tarfile.open(f"{context}/root.tar", "w") as tar:
            tar.add(root, "/", filter=lambda one: None if re.match(r"(usr/share/(doc|man|locale)|\.complete)", one.name) else one)
        self.build("docker.io/library/debian:12-slim", "FROM scratch\nADD root.tar /\n", context)

    def make_all(self):
        """The archives of the pause image and of the agent, which has the loader too."""
        self.make_base()
        os.makedirs(f"{self.work}/pause")
        run("cp", "/bin/busybox", f"{self.work}/pause/busybox")
        self.build(PAUSE, 'FROM scratch\nCOPY busybox /\nENTRYPOINT ["/busybox", "sleep", "infinity"]\n', f"{self.work}/pause")
        installed = f"{self.work}/installed"
        subprocess.run(["cmake", "--install", BUILD, "--strip"], check=True, stdout=subprocess.DEVNULL,
                       env=ENVIRONMENT | {"DESTDIR": f"{installed}/image"})
        # This build's prefix is another than the Containerfile's.
        os.makedirs(f"{installed}/image/usr/libexec")
        os.symlink("../local/libexec/ppc", f"{installed}/image/usr/libexec/ppc")
        with open(CONTAINERFILE, encoding="utf-8") as file:
            last = file.read().replace("\\\n", " ").rpartition("\nFROM ")[2]
        # Its packages are in the base.
        text = re.sub(r"^RUN .*\n", "", f"FROM {last}", flags=re.M)
        self.build(AGENT, text, installed, "--build-context", f"build={installed}")
        return [self.archive(name) for name in (PAUSE, AGENT)]


def is_removed(folder):
    """A process that loads for a service may be on its way out of it."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


class Node:
    """containerd in a mount namespace where `paths`, {the node's path: a directory}, are bound."""

    def __init__(self, work, suite, paths):
        self.work, self.paths, self.root = work, paths, packages(suite)
        self.environment = ENVIRONMENT | {"PATH": f"{self.root}/usr/bin:{ENVIRONMENT['PATH']}"}
        self.made = []

    def proto(self):
        return f"{self.root}/usr/share/gocode/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"

    def version(self):
        return run(f"{self.root}/usr/bin/containerd", "--version").split()[2]

    @contextlib.contextmanager
    def up(self):
        with open(f"{self.work}/containerd.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(work=self.work, pause=PAUSE, nri=NRI_SOCKET))
        binds = []
        for path, source in self.paths.items():
            if not os.path.isdir(path):
                os.makedirs(path)
                self.made.append(path)
            binds.append(f"mount --rbind {source} {path} && mount --make-shared {path}")
        script = " && ".join([*binds, 'exec "$@"'])
        with open(f"{self.work}/containerd.log", "wb") as log:
            process = subprocess.Popen(["unshare", "-m", "--propagation", "slave", "sh", "-c", script, "sh", "containerd", "-c",
                                        f"{self.work}/containerd.toml"], env=self.environment, stdout=log, stderr=log)
        try:
            self.within(60, lambda: process.poll() is not None or os.path.exists(f"{self.work}/containerd.sock"), "containerd")
            cri = Cri(f"{self.work}/containerd.sock")
            cri.call("Version")
            try:
                yield cri
            finally:
                cri.close()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            for path in self.made:
                with contextlib.suppress(OSError):  # another program uses it meanwhile
                    os.rmdir(path)
            for group in glob.glob(f"/sys/fs/cgroup/**/{CGROUP}", recursive=True):
                for folder, _, _ in os.walk(group, topdown=False):
                    self.within(10, lambda folder=folder: is_removed(folder), f"the end of {folder}")

    def take(self, archive):
        run(f"{self.root}/usr/bin/ctr", "-a", f"{self.work}/containerd.sock", "-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", archive,
            stderr=subprocess.STDOUT)

    def log(self):
        with open(f"{self.work}/containerd.log", encoding="utf-8", errors="replace") as file:
            return file.read()[-6000:]

    @staticmethod
    def within(seconds, is_true, what):
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                raise SystemExit(f"kubernetes: {what} does not come within {seconds} s")
            time.sleep(0.02)
