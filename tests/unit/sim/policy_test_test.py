# SPDX-License-Identifier: Apache-2.0
"""ppc-policy-test: the shipped policies keep the rules; those that break one are told which."""
import os
import re
import subprocess
import sys
import unittest

BIN, POLICIES, BAD, EXAMPLE, TOP = sys.argv[1:6]


# A crash is one with a sanitizer as well.
CRASHES = {name: os.environ.get(name, "") + ":handle_segv=0" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}


def run(*words):
    done = subprocess.run([os.path.join(BIN, "ppc-policy-test"), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, **CRASHES})
    return done.returncode, done.stdout


class PolicyTest(unittest.TestCase):
    def test_shipped_policies_keep_the_rules(self):
        for name in ("null", "readahead", "eager", "maio", "kvtier"):
            status, said = run(os.path.join(POLICIES, f"libppc_{name}.so"))
            self.assertEqual(status, 0, said)
            self.assertIn("11 ok, 0 not ok", said)

    def test_the_example_of_the_document_too(self):
        status, said = run(EXAMPLE)
        self.assertEqual(status, 0, said)
        ahead = re.search(r"ok read - .* start-up ([0-9.]+) of", said)
        self.assertLess(float(ahead[1]), 0.9, said)

    def test_the_document_shows_the_example_as_it_is(self):
        with open(os.path.join(TOP, "docs/write-a-policy.md"), encoding="utf-8") as file:
            document = file.read()
        with open(os.path.join(TOP, "policies/example/example.c"), encoding="utf-8") as file:
            code = file.read().split("\n", 1)[1]  # without the licence
        self.assertIn("```c\n" + code + "```\n", document)

    def test_what_is_broken_is_named(self):
        bad = os.path.join(BAD, "libppc_misbehave.so")
        for what, why in (("throw", "thrown in ppc_prefetch"), ("crash", "it crashed: Segmentation fault"),
                          ("nonsense", "ppc_prefetch"), ("refuse", "the policy refused"),
                          ("throw-init", "thrown in ppc_init")):
            status, said = run(bad, "--config", f'{{"do": "{what}"}}', "--only", "read")
            self.assertEqual(status, 1, said)
            self.assertIn("not ok read - ", said)
            self.assertIn(why, said)

    def test_what_is_no_policy(self):
        for file, why in ((os.path.join(BAD, "libppc_no_register.so"), "does not export register_policy"),
                          (os.path.join(BAD, "libppc_other_abi.so"), "is built for policy ABI 999"),
                          ("/nowhere.so", "No such file"), (os.path.join(BIN, "ppcctl"), "")):
            status, said = run(file)
            self.assertEqual(status, 2, said)
            self.assertIn(why, said)
        status, said = run(os.path.join(POLICIES, "libppc_null.so"), "--only", "nothing")
        self.assertEqual((status, "there is no such start-up" in said), (2, True), said)

    def test_recorded_logs_are_played(self):
        status, said = run(os.path.join(POLICIES, "libppc_eager.so"), "--only", "recorded-read")
        self.assertEqual(status, 0, said)
        whole = re.search(r"ok recorded-read - [1-9][0-9]* events, [1-9][0-9]* ranges .* start-up ([0-9.]+) of", said)
        self.assertLess(float(whole[1]), 0.8, said)
        self.assertIn("1 ok, 0 not ok", said)
        log = os.path.join(TOP, "sim/traces/recorded-map.ppclog")
        status, said = run(os.path.join(POLICIES, "libppc_null.so"), "--log", log)
        self.assertEqual((status, "ok recorded-map - " in said, "1 ok, 0" in said), (0, True, True), said)
        status, said = run(os.path.join(BAD, "libppc_misbehave.so"), "--config", '{"do": "nonsense"}', "--log", log)
        self.assertEqual((status, "not ok recorded-map - " in said), (1, True), said)
        for file in (__file__, "/nowhere"):
            status, said = run(os.path.join(POLICIES, "libppc_null.so"), "--log", file)
            self.assertEqual((status, file in said), (2, True), said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
