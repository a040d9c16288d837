# SPDX-License-Identifier: Apache-2.0
"""The checks of documents and prose (tools/lint) find what is wrong, and leave the rest alone."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))
sys.path.insert(0, os.path.join(TOP, "tools/lib"))

from lint import documents, prose  # noqa: E402


class Tree(unittest.TestCase):
    """Documents of a tree made up here."""

    def setUp(self):
        self.before = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)

    def tearDown(self):
        os.chdir(self.before)
        self.folder.cleanup()

    @staticmethod
    def write(name, text):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_link_leads_to_a_file_and_a_heading(self):
        self.write("docs/a.md", "# What `it` is, and how\n\n[b](b.md) [self](#what-it-is-and-how) `[no](link)`\n")
        self.write("docs/b.md", "# B\n\n```\n# no heading\n[no](link)\n```\n\n[a](a.md#what-it-is-and-how)\n[c](c.md) [a](a.md#no-heading)\n")
        self.assertEqual(documents.links(["docs/a.md", "docs/b.md"]),
                         ["docs/b.md:9: c.md is not there", "docs/b.md:9: docs/a.md has no heading #no-heading"])

    def test_a_walk_through_names_files_that_are_there(self):
        self.write("daemon/x.cc", "")
        self.write("w.md", "`daemon/x.cc` `daemon/NAME.cc` `daemon/y.cc` `gone/NAME.cc` `--option/x y`\n")
        self.assertEqual(documents.named_files("w.md"), ["w.md:1: daemon/y.cc is not there", "w.md:1: gone/NAME.cc is not there"])

    def test_a_walk_through_is_short(self):
        rows = "".join(f"| `{name}.cc`, `{name}.h` | what |\n" for name in "abc")
        self.write("w.md", f"## A loader format\n\n| file | what |\n|---|---|\n{rows}| `d.cc` | only for some |\n"
                           f"\n## A verb of `ppcctl`\n\n{rows}| | |\n{rows}")
        self.assertEqual(documents.long_walks("w.md"), ["w.md: 'A verb of `ppcctl`' names 6 files, at most 5"])

    def test_the_index_has_every_page(self):
        self.write("docs/README.md", "[a](a.md)\n")
        self.assertEqual(documents.unlisted(["docs/README.md", "docs/a.md", "docs/b.md", "docs/integrate/README.md"]),
                         ["docs/b.md: docs/README.md does not link it", "docs/integrate/README.md: docs/README.md does not link it"])

    def test_a_suite_has_a_row(self):
        self.write("tests/README.md", "| `one` | |\n")
        self.assertEqual(documents.suites(["tests/all/one", "tests/all/two", "tests/all/part.py"]),
                         ["tests/README.md: no row of the suite two"])

    def test_results_have_a_row_and_an_age(self):
        def git(*arguments):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", *arguments],
                           check=True, stdout=subprocess.DEVNULL)

        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "measured")
        measured = documents.git("rev-parse", "--short=8", "HEAD")
        self.write("bench/renew", '"a.json"')
        self.write(documents.RESULTS, f"| `a.json` | 2026-01-01 | {measured} |\n| `gone.json` | 2026-01-01 | {measured} |\n")
        files = ["bench/results/README.md", "bench/results/a.json", "bench/results/b.json"]
        wrong = [f"{documents.RESULTS}: no row of b.json, or one without date and commit",
                 f"{documents.RESULTS}: gone.json is not there", "bench/renew: says nothing of b.json"]
        self.assertEqual(documents.ages(files), wrong)
        most = documents.MOST_COMMITS, documents.MOST_OF_PAGES
        documents.MOST_COMMITS = documents.MOST_OF_PAGES = 1
        try:
            for number in range(2):
                self.write("policies/x.cc", str(number))
                git("add", "policies")
                git("commit", "-q", "-m", "changed")
            self.write("docs/a.md", f"commit {measured}\n\n```\ncommit 00000000\n```\n")
            self.assertEqual(documents.ages(files + ["docs/a.md"])[len(wrong):], [
                f"{documents.RESULTS}: a.json is 2 commits old, at most 1: measure again",
                f"{documents.RESULTS}: gone.json is 2 commits old, at most 1: measure again",
                "docs/a.md:1: this is 2 commits old, at most 1: measure again"])
            self.write("docs/a.md", "commit deadbeef\n")
            self.assertIn("docs/a.md:1: this: there is no commit deadbeef", documents.ages(["docs/a.md"]))
            with open(documents.RESULTS, "a", encoding="utf-8") as file:
                file.write(f"Joined into {measured}: cafecafe deadbeef\n")
            self.assertIn("docs/a.md:1: this is 2 commits old, at most 1: measure again", documents.ages(["docs/a.md"]))
        finally:
            documents.MOST_COMMITS, documents.MOST_OF_PAGES = most


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
