# SPDX-License-Identifier: Apache-2.0
"""Writes a palette PNG, for pictures of many cells that would be too many SVG elements."""
import base64
import struct
import zlib


def _chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def encode(rows, palette):
    """rows: equally long sequences of palette indexes; palette: (r, g, b) each."""
    height, width = len(rows), len(rows[0])
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = bytes(part for colour in palette for part in colour)
    data = b"".join(b"\0" + bytes(row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"PLTE", colours) +
            _chunk(b"IDAT", zlib.compress(data, 9)) + _chunk(b"IEND", b""))


def data_uri(rows, palette):
    return "data:image/png;base64," + base64.b64encode(encode(rows, palette)).decode()
