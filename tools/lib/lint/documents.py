# SPDX-License-Identifier: Apache-2.0
"""Checks of documents: links, the files that walk-throughs name, README's length, the version, and the age of results."""
import os
import re
import subprocess

README_LINES = 150
WALKS = "docs/walk-throughs.md"
# Files that a change may touch, by the heading of its walk-through: of the first table, rows that are for some only left out.
MOST_FILES = {"A loader format": 6, "A verb of `ppcctl`": 5}
RESULTS = "bench/results/README.md"
# Commits that changed what is measured, after the measured one.
MEASURED = ("daemon", "policies", "kmod", "include")
MOST_COMMITS = 500
MOST_OF_PAGES = 600  # where a page names the commit itself

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
VERSION = re.compile(r"^project\(ppc VERSION (\S+)", re.M)
# Where the version of CMakeLists.txt is repeated; every match has to be that.
REPEATED = (
    ("daemon/wire/protocol.h", r'kVersionText = "([^"]+)"'),
    ("packaging/dkms.conf", r'(?:PACKAGE_VERSION="|/usr/src/ppc-|ppc/)(\d[\d.]*\d)'),
    ("packaging/debian/changelog", r"\Appc \(([^)-]+)"),
    ("packaging/rpm/ppc.spec", r"ppc_version:([\d.]+)\}"),
    ("packaging/kubernetes/Containerfile", r"ppc:(\d[\d.]*\d)"),
    ("packaging/kubernetes/sidecar.yaml", r"image: ppc:(\S+)"),
    ("packaging/kubernetes/daemonset.yaml", r"image: ppc:(\S+)"),
    ("docs/integrate/kubernetes.md", r"ppc:(\d[\d.]*\d)"),
    ("docs/changelog.md", r"(?s)\A.*?^## (\S+?),? "),
    ("docs/CITATION.cff", r"^version: (\S+)"),
)


def text_of(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def without_code(page):
    """The lines outside of fenced blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(page):
    """What a link behind # can name, as hosts of repositories make it from headings."""
    found = set()
    for _, line in without_code(page):
        if re.match(r"#{1,6} ", line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def links(pages):
    findings = []
    for name in pages:
        for number, line in without_code(text_of(name)):
            for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                place, _, anchor = (match[1] or match[2]).partition("#")
                if re.match(r"[a-z]+:", place):
                    continue
                target = os.path.normpath(os.path.join(os.path.dirname(name), place)) if place else name
                if not os.path.exists(target):
                    findings.append(f"{name}:{number}: {place} is not there")
                elif anchor and target.endswith(".md") and anchor not in anchors(text_of(target)):
                    findings.append(f"{name}:{number}: {target} has no heading #{anchor}")
    return findings


def named_files(name):
    """Paths between backquotes; a word in capitals stands for a new name, so its folder is looked for."""
    findings = []
    for number, line in without_code(text_of(name)):
        for span in re.findall(r"`([\w./*-]+/[\w./*-]*)`", line):
            place = os.path.dirname(span) if re.search(r"[A-Z]{3,}[^/]*$", span) and not os.path.exists(span) else span
            if not os.path.exists(place):
                findings.append(f"{name}:{number}: {span} is not there")
    return findings


def long_walks(name):
    """Walk-throughs that name more files than the change may touch."""
    findings = []
    for heading, most in MOST_FILES.items():
        part = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^\| \| \||^## |\Z)", text_of(name), re.M | re.S)
        rows = re.findall(r"^\| (.*?`.*?) \| (.*?) \|$", part[1] if part else "", re.M)
        count = sum(cell.count("`") // 2 for cell, what in rows if not what.startswith("only "))
        if not count or count > most:
            findings.append(f"{name}: '{heading}' names {count} files, at most {most}")
    return findings


def unlisted(pages):
    """Pages of docs/ that the index does not link."""
    index = text_of("docs/README.md")
    return [f"{name}: docs/README.md does not link it" for name in pages
            if re.fullmatch(r"docs/(\w[\w-]*|integrate/README)\.md", name) and name != "docs/README.md"
            and f"]({name.removeprefix('docs/')}" not in index]


def suites(files):
    """Long suites that tests/README.md does not list."""
    listed = text_of("tests/README.md")
    names = [name.removeprefix("tests/all/") for name in files if re.fullmatch(r"tests/all/[\w-]+", name)]
    return [f"tests/README.md: no row of the suite {name}" for name in names if f"`{name}`" not in listed]


def documents(files):
    pages = [name for name in files if name.endswith(".md") and not name.startswith("docs/licenses/")]
    findings = links(pages)
    length = len(text_of("README.md").splitlines())
    if length > README_LINES:
        findings.append(f"README.md: {length} lines, at most {README_LINES}")
    return findings + named_files(WALKS) + long_walks(WALKS) + unlisted(pages) + suites(files)


def versions(_files):
    wanted = VERSION.search(text_of("CMakeLists.txt"))[1]
    findings = []
    for name, pattern in REPEATED:
        said = re.findall(pattern, text_of(name), re.M)
        if not said:
            findings.append(f"{name}: the version is not found in it")
        findings += [f"{name}: says {one}, CMakeLists.txt says {wanted}" for one in said if one != wanted]
    return findings


def git(*arguments):
    done = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def ages(files):
    """Results that are kept, and how much of what they measure has changed since."""
    rows = dict(re.findall(r"^\| `([^`]+)` \| [\d-]+ \| (\w+)", text_of(RESULTS), re.M))
    kept = {os.path.basename(name) for name in files if name.startswith("bench/results/")} - {"README.md"}
    findings = [f"{RESULTS}: no row of {name}, or one without date and commit" for name in sorted(kept - set(rows))]
    findings += [f"{RESULTS}: {name} is not there" for name in sorted(set(rows) - kept)]
    findings += [f"bench/renew: says nothing of {name}" for name in sorted(kept) if f'"{name}"' not in text_of("bench/renew")]
    # A shallow clone has no history to count in.
    if git("rev-parse", "--is-shallow-repository") != "false":
        return findings
    rows = {f"{RESULTS}: {name}": commit for name, commit in rows.items()}
    for page in (name for name in files if name.endswith(".md") and name not in (RESULTS, "docs/changelog.md")):
        rows.update({f"{page}:{number}: this": commit for number, line in without_code(text_of(page))
                     for commit in re.findall(r"\bcommit ([0-9a-f]{8})\b", line)})
    joined = {old: new for new, all_old in re.findall(r"^Joined into (\w+): (.*)$", text_of(RESULTS), re.M)
              for old in all_old.split()}
    for name, commit in rows.items():
        commit = joined.get(commit, commit)
        count = git("rev-list", "--count", f"{commit}..HEAD", "--", *MEASURED)
        most = MOST_COMMITS if name.startswith(f"{RESULTS}: ") else MOST_OF_PAGES
        if count is None:
            findings.append(f"{name}: there is no commit {commit}")
        elif int(count) > most:
            findings.append(f"{name} is {count} commits old, at most {most}: measure again")
    return findings
