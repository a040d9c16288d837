# SPDX-License-Identifier: Apache-2.0
"""The object store of tests/all/network-fs answers as mounts ask."""
import os
import tempfile
import unittest
import urllib.error
import urllib.request

import paths  # noqa: F401 (sets the paths)
from filesystems.object_store import ObjectStore


class ObjectStoreTest(unittest.TestCase):
    def setUp(self):
        self.top = self.enterContext(tempfile.TemporaryDirectory())
        os.makedirs(f"{self.top}/bucket/model")
        self.data = bytes(range(256)) * 1000
        with open(f"{self.top}/bucket/model/a b", "wb") as file:
            file.write(self.data)
        self.store = self.enterContext(ObjectStore(self.top, 10000, 10000, 0))

    def ask(self, path, method="GET", body=None, **headers):
        request = urllib.request.Request(self.store.url + path, data=body, headers=headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()

    def test_ranges(self):
        self.assertEqual(self.ask("/bucket/model/a%20b")[2], self.data)
        for asked, want in (("bytes=0-9", self.data[:10]), ("bytes=255990-", self.data[-10:]),
                            ("bytes=-3", self.data[-3:]), ("bytes=255999-300000", self.data[-1:])):
            status, headers, body = self.ask("/bucket/model/a%20b", Range=asked)
            self.assertEqual((status, body), (206, want))
            self.assertTrue(headers["Content-Range"].endswith("/256000"))

    def test_sent_bytes_are_those_of_objects(self):
        before = self.store.sent()
        self.ask("/bucket/model/a%20b", "HEAD")
        self.ask("/bucket?list-type=2")
        self.assertEqual(self.store.sent(), before)
        self.ask("/bucket/model/a%20b", Range="bytes=5-104")
        self.assertEqual(self.store.sent() - before, 100)

    def test_lists_by_prefix_and_delimiter(self):
        self.assertIn(b"<Prefix>model/</Prefix></CommonPrefixes>", self.ask("/bucket?list-type=2&delimiter=/")[2])
        listed = self.ask("/bucket?list-type=2&prefix=model/&delimiter=/")[2]
        self.assertIn(b"<Key>model/a b</Key>", listed)
        self.assertIn(b"<Size>256000</Size>", listed)

    def test_objects_come_and_go(self):
        self.ask("/bucket/new/one", "PUT", b"12345")
        self.assertEqual(self.ask("/bucket/new/one")[2], b"12345")
        self.ask("/bucket/new/one", "DELETE")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask("/bucket/new/one")
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()

    def test_nothing_above_the_store_is_served(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask("/../../etc/passwd")
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()


if __name__ == "__main__":
    unittest.main()
