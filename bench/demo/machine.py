# SPDX-License-Identifier: Apache-2.0
"""The machine under test (a guest, or the host itself): caches, disk, sampler."""
import concurrent.futures
import ctypes
import mmap
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def die_with_parent():
    """For the child of a fork, before exec: a demo that is killed takes its helpers along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def flat(text):
    """{key: number} of lines `key number`."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def cpu_busy_s():
    """CPU seconds of the whole machine, idle time and waiting for disks not counted."""
    user, nice, system, _, _, irq, softirq = map(int, read_text("/proc/stat").split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def process_cpu_s(pid):
    """CPU seconds of a process, None when it is gone."""
    try:
        fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_kib(pid, names):
    """{name: KiB} of lines of /proc/PID/status, None when the process is gone."""
    try:
        lines = read_text(f"/proc/{pid}/status").splitlines()
    except OSError:
        return None
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines) if name in names}


def memory_total():
    """Bytes of the machine's memory."""
    return next(int(line.split()[1]) * 1024 for line in read_text("/proc/meminfo").splitlines()
                if line.startswith("MemTotal"))


class Disk:
    """The block device of a directory."""

    def __init__(self, directory):
        device = os.stat(directory).st_dev
        numbers = f"{os.major(device)}:{os.minor(device)}"
        if not os.path.exists(f"/sys/dev/block/{numbers}"):
            raise RuntimeError(f"{directory}: not on a block device of this machine, so nothing counts "
                               "what is read; ask for a slow disk of its own: --disk 300,2000")
        self.path = os.path.realpath(f"/sys/dev/block/{numbers}")
        self.name = os.path.basename(self.path)
        # A partition shares the queue of its disk.
        whole = self.path if os.path.isdir(f"{self.path}/queue") else os.path.dirname(self.path)
        self.read_ahead = f"{whole}/queue/read_ahead_kb"

    def read_ahead_kb(self):
        return int(read_text(self.read_ahead))

    def set_read_ahead_kb(self, kilobytes):
        write_text(self.read_ahead, str(kilobytes))

    def read_bytes(self):
        return int(read_text(f"{self.path}/stat").split()[2]) * 512

    def requests(self):
        return int(read_text(f"{self.path}/stat").split()[0])


def measure_disk(paths, seconds=4.0, threads=8, block=1 << 20):
    """Bytes per second that many direct reads at once get: what b stands for in the bounds."""
    stop = time.monotonic() + seconds
    blocks = [(path, offset) for path in paths
              for offset in range(0, os.path.getsize(path) - block, block)]

    def reader(index):
        buffer, count = mmap.mmap(-1, block), 0  # aligned, as O_DIRECT wants it
        for path, offset in blocks[index::threads]:
            if time.monotonic() >= stop:
                break
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                count += os.preadv(descriptor, [buffer], offset)
            finally:
                os.close(descriptor)
        return count

    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(reader, range(threads))) / (time.monotonic() - started)


def drop_caches(model_dir):
    """Empties the page cache and proves it for the model's files."""
    for attempt in range(5):
        os.sync()
        write_text("/proc/sys/vm/drop_caches", "3")
        done = subprocess.run(["ppc-sample", "--count", model_dir], check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"ppc-sample: status {done.returncode}")
        answer = done.stdout.split()
        if answer[0] == "0":
            return
        time.sleep(0.3 * (attempt + 1))
    raise RuntimeError(f"{model_dir}: {answer[0]} of {answer[1]} pages stay in the page cache")


class Sampler:
    """ppc-sample beside a run."""

    def __init__(self, path, disk, cgroup, model_dir):
        self.process = subprocess.Popen(
            ["ppc-sample", "--disk", disk.name, "--cgroup", cgroup.path, "--files", model_dir,
             "--interval-ms", "250", "--residency-ms", "500", "--buckets", "32", "--out", path],
            preexec_fn=die_with_parent)
        time.sleep(0.3)  # mapped and first sample taken before the clock starts

    def stop(self):
        self.process.terminate()
        if self.process.wait(30) != 0:
            raise RuntimeError("ppc-sample failed")
