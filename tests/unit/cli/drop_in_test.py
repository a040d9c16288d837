# SPDX-License-Identifier: Apache-2.0
"""usage: drop_in_test.py BIN SOURCE: what the drop-in for services runs, against a ppcd that takes connections and never
answers: it gives up within the drop-in's own time-out, and its failure is none of the unit's."""
import os
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 2
# A machine that is busy starts ppcctl late; without a time-out it waits for 20 s.
AT_MOST = 10


def commands(path):
    """(key, what systemd is told to run) of each, those in comments too: they are there to be taken."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            key, equals, value = line.lstrip("#").strip().partition("=")
            if equals and key.startswith("Exec"):
                yield key, value


def fault(value, binaries):
    """What is wrong with one, or ""."""
    if not value.startswith("-+/usr/bin/ppcctl "):
        return "its failure would fail the unit, or it does not run as root"
    words = value.removeprefix("-+/usr/bin/").replace("%N", "model").split()
    began = time.monotonic()
    done = subprocess.run([os.path.join(binaries, words[0]), *words[1:]], capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode == 0 or "did not answer" not in done.stderr:
        return f"status {done.returncode}, it says: {done.stderr or done.stdout}"
    return "" if SECONDS <= took < AT_MOST else f"it took {took:.1f} s: {done.stderr}"


def main(binaries, source):
    failed, seen = False, []
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as hanging:
        path = os.path.join(folder, "ppcd.sock")
        hanging.bind(path)
        hanging.listen(8)  # whoever connects waits there
        os.environ.update(PPC_SOCKET=path, PPC_SERVICE_SOCKET=path)
        for key, value in commands(os.path.join(source, "packaging/examples/service.conf")):
            seen.append(key)
            why = fault(value, binaries)
            failed = failed or bool(why)
            print(f"not ok {key}={value} - {why}" if why else f"ok {key}")
    if seen != ["ExecStartPre", "ExecStartPost", "ExecStopPost"]:
        print(f"not ok commands - there are {seen}")
        return 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
