#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/lint prose finds in comments and documents, and what it leaves alone."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "tools/lib"))

from lint import prose  # noqa: E402


def count(name, text):
    return len(prose.findings_of(name, text))


class ProseTest(unittest.TestCase):
    def test_subjects_that_name_nothing(self):
        for sentence in ("Whoever maps it faults.", "Nobody waits.", "It stops when he reads.",
                         "Of the first nothing is known.", "Who has read all goes first."):
            self.assertEqual(count("a.md", sentence + "\n"), 1, sentence)
            self.assertEqual(count("a.cc", "// " + sentence + "\n"), 1, sentence)
            self.assertEqual(count("a.c", "/*\n * " + sentence + "\n */\n"), 1, sentence)
            self.assertEqual(count("a.sh", "# " + sentence + "\n"), 1, sentence)

    def test_a_sentence_over_two_lines_of_a_comment(self):
        self.assertEqual(count("a.h", "// The kernel reads\n// ahead for nobody.\n"), 1)

    def test_code_and_quotations_are_no_prose(self):
        self.assertEqual(count("a.cc", 'const char* kText = "nobody // whoever";\n'), 0)
        self.assertEqual(count("a.md", "The message `nobody reads` and \"whoever\".\n"), 0)
        self.assertEqual(count("a.md", "```\nnobody\n```\n"), 0)

    def test_questions_may_begin_with_who(self):
        self.assertEqual(count("a.md", "Who reads it?\n"), 0)

    def test_long_sentences_of_documents(self):
        self.assertEqual(count("a.md", "word " * 45 + "\n"), 0)
        self.assertEqual(count("a.md", "word " * 46 + "\n"), 1)
        self.assertEqual(count("a.md", "| " + "word " * 30 + "| " + "word " * 30 + "|\n"), 0)

    def test_the_tree(self):
        os.chdir(TOP)
        listed = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, check=False)
        if listed.returncode:
            self.skipTest("no checkout")
        self.assertEqual(prose.prose([name for name in listed.stdout.splitlines() if os.path.isfile(name)]), [])


if __name__ == "__main__":
    unittest.main()
