#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a socket of ppcd, one connection for all, and prints a line for each: ok or the code of the error.

usage: ask.py SOCKET REQUEST...    (REQUEST: a JSON object without "v")
"""
import errno
import json
import socket
import sys


def main(path, requests):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    try:
        connection.connect(path)
    except OSError as error:
        print(f"connect {errno.errorcode[error.errno]}")
        return
    lines = connection.makefile("rw", encoding="utf-8")
    for request in requests:
        lines.write(json.dumps({"v": 1, **json.loads(request)}) + "\n")
        lines.flush()
        answer = json.loads(lines.readline())
        print("ok" if answer["ok"] else answer["code"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
