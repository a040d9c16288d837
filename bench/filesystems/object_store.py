# SPDX-License-Identifier: Apache-2.0
"""An object store with the S3 requests that mounts make, on a link that has a bandwidth and answers late.

Owns the connections' threads; the link is shared by all.  Checks no signature, keeps no metadata.
"""
import hashlib
import http.server
import os
import threading
import time
import urllib.parse
from email.utils import formatdate
from xml.sax.saxutils import escape

PIECE = 64 << 10  # sent at once
BURST_S = 0.02


class Link:
    """Bytes wait their turn: `mbps` for all connections, each of which gets at most `stream_mbps`."""

    def __init__(self, mbps, stream_mbps, late_s):
        self.mbps, self.stream_mbps, self.late_s = mbps, stream_mbps, late_s
        self.lock, self.free_at, self.sent = threading.Lock(), 0.0, 0

    def send(self, sock, file, offset, count):
        began = time.monotonic()
        done = 0
        while done < count:
            piece = min(PIECE, count - done)
            with self.lock:
                now = time.monotonic()
                self.free_at = max(self.free_at, now - BURST_S) + piece / (self.mbps * 1e6)
                turn = self.free_at
                self.sent += piece
            wait = max(turn, began + (done + piece) / (self.stream_mbps * 1e6)) - now
            if wait > 0.001:
                time.sleep(wait)
            end = offset + done + piece
            while offset + done < end:
                done += os.sendfile(sock.fileno(), file.fileno(), offset + done, end - offset - done)


class Request(http.server.BaseHTTPRequestHandler):
    """Paths are /bucket/key, that is files below the store's directory."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.link, self.top = self.server.link, self.server.top

    def log_message(self, *_):
        """Nothing: a line for each request would be most of the output."""

    def path_of(self):
        path = os.path.normpath(urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)).lstrip("/")
        return os.path.join(self.top, path)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def no_such_key(self):
        self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", [("Content-Type", "application/xml")])

    def do_HEAD(self):
        time.sleep(self.link.late_s)
        path = self.path_of()
        if not os.path.isfile(path):
            if os.path.isdir(path) and os.path.dirname(path) == self.top:
                return self.answer(200)
            return self.no_such_key()
        return self.send_file(path)

    def do_GET(self):
        time.sleep(self.link.late_s)
        path = self.path_of()
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
        if os.path.isdir(path):
            return self.list(path, asked)
        return self.send_file(path) if os.path.isfile(path) else self.no_such_key()

    def send_file(self, path):
        size, status, first, last = os.path.getsize(path), 200, 0, os.path.getsize(path) - 1
        asked = self.headers.get("Range", "").partition("bytes=")[2]
        if asked and size:
            begin, _, end = asked.partition("-")
            first = int(begin) if begin else size - int(end)
            last = min(int(end), size - 1) if begin and end else size - 1
            status = 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        for name, value in (("Content-Length", str(last - first + 1)), ("Accept-Ranges", "bytes"),
                            ("ETag", f'"{tag(path)}"'), ("Content-Type", "application/octet-stream"),
                            ("Last-Modified", formatdate(os.path.getmtime(path), usegmt=True))):
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.flush()
        try:
            with open(path, "rb") as file:
                self.link.send(self.connection, file, first, last - first + 1)
        except OSError:
            self.close_connection = True  # the client wants no more of it

    def list(self, bucket, asked):
        if os.path.dirname(bucket) != self.top:
            return self.no_such_key()
        if "location" in asked:
            return self.answer(200, b"<LocationConstraint/>", [("Content-Type", "application/xml")])
        prefix, delimiter = (asked.get(name, [""])[0] for name in ("prefix", "delimiter"))
        keys = sorted(os.path.relpath(os.path.join(folder, name), bucket)
                      for folder, _, names in os.walk(bucket) for name in names)
        entries, folders = [], set()
        for key in keys:
            rest = key[len(prefix):] if key.startswith(prefix) else ""
            if not rest:
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            path = os.path.join(bucket, key)
            changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(os.path.getmtime(path)))
            entries.append(f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
                           f"<ETag>&quot;{tag(path)}&quot;</ETag><Size>{os.path.getsize(path)}</Size>"
                           "<StorageClass>STANDARD</StorageClass></Contents>")
        common = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        body = (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
                f"<Name>{os.path.basename(bucket)}</Name><Prefix>{escape(prefix)}</Prefix>"
                f"<KeyCount>{len(entries) + len(folders)}</KeyCount><MaxKeys>100000</MaxKeys>"
                f"<IsTruncated>false</IsTruncated>{''.join(entries)}{common}</ListBucketResult>")
        return self.answer(200, body.encode(), [("Content-Type", "application/xml")])

    def do_PUT(self):
        path = self.path_of()
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if os.path.dirname(path) == self.top:
            os.makedirs(path, exist_ok=True)
            return self.answer(200)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            file.write(body)
        os.rename(path + ".new", path)
        return self.answer(200, headers=[("ETag", f'"{tag(path)}"')])

    def do_DELETE(self):
        path = self.path_of()
        if os.path.isfile(path):
            os.remove(path)
        return self.answer(204)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that wants no more of an answer closes its connection."""


def tag(path):
    """An ETag that is no MD5, as that of an object in parts."""
    found = os.stat(path)
    return hashlib.md5(f"{found.st_size} {found.st_mtime_ns}".encode()).hexdigest() + "-1"


class ObjectStore:
    """Context manager: serves `top` at `url`."""

    def __init__(self, top, mbps, stream_mbps, late_s):
        self.server = Server(("127.0.0.1", 0), Request)
        self.server.top, self.server.link = os.path.realpath(top), Link(mbps, stream_mbps, late_s)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def sent(self):
        """Bytes of objects, so far."""
        return self.server.link.sent
