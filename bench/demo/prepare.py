# SPDX-License-Identifier: Apache-2.0
"""What the demo needs before it runs: packages, programs, module, model image (on the host)."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
# Where programs and policies are taken from; tools/vm reads the same variable.
BUILD = os.environ.get("PPC_BUILD_DIR") or os.path.join(TOP, "build")


class DemoError(Exception):
    """One line for the user."""


def say(text):
    print(f"demo: {text}", file=sys.stderr, flush=True)


def step(name, command, **more):
    """A step whose output is shown only when it fails."""
    say(f"{name} ...")
    started = time.monotonic()
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, **more)
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-40:]), file=sys.stderr)
        raise DemoError(f"{name} failed (status {done.returncode})")
    seconds = time.monotonic() - started
    if seconds > 5:
        say(f"{name}: {seconds:.0f} s")
    return done.stdout


# All that a native demo runs.
HOST_TARGETS = ("mkmodel", "loadmodel", "ppc-sample", "ppcd", "ppc-runner", "ppcctl",
                "ppc_policy_maio", "ppc_policy_eager")


def _configure():
    """A new tree gets the fast generator; one that is there keeps its own."""
    fresh = [] if os.path.exists(os.path.join(TOP, "build", "CMakeCache.txt")) else ["-G", "Ninja"]
    step("configuring", ["cmake", "-S", ".", "-B", "build", *fresh])


def _jobs():
    return str(os.cpu_count() or 1)


def build():
    """For the emulated machine: everything, and the module."""
    step("packages", [os.path.join(TOP, "tools", "setup"), "--quiet"])
    _configure()
    step("building programs and policies", ["cmake", "--build", "build", "-j", _jobs()])
    step("building the kernel module", [os.path.join(TOP, "tools", "kmod")])


def build_for_host(*more):
    """For the host: only what runs here; more: targets of another experiment."""
    step("packages", [os.path.join(TOP, "tools", "setup"), "--quiet", "--native"])
    _configure()
    step("building what the demo needs", ["cmake", "--build", "build", "-j", _jobs(), "--target",
                                          *HOST_TARGETS, *more])


def _tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin") or name


def _image(image, stage, file_bytes, file_system="ext4"):
    """An image with the contents of stage: written at full speed, slowed only later."""
    size = int(file_bytes * 1.04) + ((96 if file_system == "ext4" else 400) << 20)
    partial = image + ".partial"
    with open(partial, "wb") as file:
        file.truncate(size)
    if file_system == "ext4":
        step("writing the disk image", [_tool("mke2fs"), "-q", "-F", "-t", "ext4", "-m", "0", "-O",
                                        "^has_journal", "-E", "lazy_itable_init=1", "-d", stage, partial])
    else:
        step("making the file system", [_tool("mkfs.xfs"), "-q", "-f", partial])
        with tempfile.TemporaryDirectory(dir=os.path.dirname(image), prefix="mount-") as mount:
            step("mounting the disk image", ["mount", "-o", "loop", partial, mount])
            try:
                step("writing the disk image", ["cp", "-a", stage + "/.", mount])
            finally:
                step("unmounting the disk image", ["umount", mount])
    os.replace(partial, image)


def _image_path(cache, name, file_system):
    return os.path.join(cache, name + ("" if file_system == "ext4" else f".{file_system}") + ".img")


def _sizes(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def _need_room(folder, needed):
    free = shutil.disk_usage(folder).free
    if free < needed * 1.1:
        raise DemoError(f"{folder}: {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free; "
                        "use a larger --scale")


def _make(model, scale, folder):
    step(f"making {model} at 1:{scale}",
         [os.path.join(BUILD, "bin", "mkmodel"), "--model", model, "--scale", str(scale), "--out", folder,
          "--quiet"])


def made_directory(cache, model, scale):
    """A model in the true layout, made once, as plain files."""
    folder = os.path.join(cache, f"{model}-{scale}")
    if not os.path.isdir(folder):
        with tempfile.TemporaryDirectory(dir=cache, prefix="stage-") as stage:
            _make(model, scale, os.path.join(stage, "model"))
            os.replace(os.path.join(stage, "model"), folder)
    return folder


def made_model(cache, model, scale, file_system="ext4"):
    """(image, directory name): a model in the true layout, made once."""
    name = f"{model}-{scale}"
    image = _image_path(cache, name, file_system)
    if os.path.exists(image):
        return image, name
    with tempfile.TemporaryDirectory(dir=cache, prefix="stage-") as stage:
        command = [os.path.join(BUILD, "bin", "mkmodel"), "--model", model, "--scale", str(scale)]
        lines = subprocess.run([*command, "--headers-only"], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        _need_room(cache, 2 * sum(int(line.split()[0]) for line in lines))
        folder = os.path.join(stage, name)
        _make(model, scale, folder)
        _image(image, stage, _sizes(folder), file_system)
    return image, name


def own_files(source):
    """Names of the user's files; a directory without safetensors is refused."""
    if not os.path.isdir(source):
        raise DemoError(f"--model {source}: not a directory")
    files = sorted(name for name in os.listdir(source)
                   if os.path.isfile(os.path.join(source, name)))
    if not any(name.endswith(".safetensors") for name in files):
        raise DemoError(f"--model {source}: no *.safetensors file in it")
    return files


def own_model(cache, source, file_system="ext4"):
    """(image, directory name) of the user's directory; symlinks (hub caches) are followed."""
    source = os.path.abspath(source)
    files = own_files(source)
    paths = [os.path.realpath(os.path.join(source, name)) for name in files]
    identity = "\n".join(f"{p} {os.path.getsize(p)} {os.stat(p).st_mtime_ns}" for p in paths)
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    name = os.path.basename(source.rstrip("/")) or "model"
    image = _image_path(cache, f"own-{key}", file_system)
    if os.path.exists(image):
        return image, name
    total = sum(map(os.path.getsize, paths))
    _need_room(cache, 2 * total)
    with tempfile.TemporaryDirectory(dir=cache, prefix="stage-") as stage:
        folder = os.path.join(stage, name)
        os.mkdir(folder)
        say(f"copying {source} ({total / 1e9:.1f} GB) ...")
        for file_name, path in zip(files, paths):
            try:
                os.link(path, os.path.join(folder, file_name))
            except OSError:
                shutil.copyfile(path, os.path.join(folder, file_name))
        _image(image, stage, total, file_system)
    return image, name


def _available():
    with open("/proc/meminfo", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def need_memory(model_bytes):
    """The memory-rich case holds the whole model, beside what a slow disk's own file takes."""
    needed = int(model_bytes * 1.1) + (1 << 30)
    if needed > _available():
        raise DemoError(f"{needed / 1e9:.1f} GB of memory are needed, {_available() / 1e9:.1f} GB are "
                        "available; use a larger --scale or a smaller model")


def guest_memory(image):
    """Bytes the guest needs to hold the whole model and itself; checked against the host."""
    needed = int(os.path.getsize(image) * 1.15) + (2300 << 20)
    available = _available()
    if needed > available:
        raise DemoError(f"the guest needs {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are "
                        "available; use a larger --scale")
    return needed
