# SPDX-License-Identifier: Apache-2.0
"""What a program can check of how this project writes: comments and documents, see docs/contributing.md.

A folder that still has findings stands in prose_left.txt with their number; more are refused.
"""
import os
import re

CODE = (".c", ".h", ".cc", ".hpp")
SCRIPTS = (".py", ".sh", ".txt")
# Not ours, or the past.
APART = ("docs/licenses/", "docs/changelog.md", "bench/results/", "sim/traces/", "tools/lib/lint/words.txt")
LEFT = "tools/lib/lint/prose_left.txt"
MOST_WORDS = 45

RULES = (
    (re.compile(r"\b(?:who(?:so)?ever|(?:some|any|no|every)body)\b", re.I),
     "say which: the reader, the caller, the listener, a task, an operator"),
    (re.compile(r"\b(?:he|him|his|himself|she|her)\b"), "a process or a user is 'it' or 'they'"),
    (re.compile(r"(?:^|(?<=[.:] ))Of (?!course\b)[a-z]"), "begin with the subject, not with its object"),
    (re.compile(r"(?:^|(?<=\. ))(?:Who|Whom|Whose) (?=[^?]*\.(?: |$))[a-z]"), "name the subject: which process, which caller"),
)


def text_of_code(text):
    """[(line, comment)]: blocks of // lines are one comment."""
    found, number, block, start = [], 0, [], 0
    within = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if within or bare.startswith("/*"):
            start = start or number
            block.append(bare)
            within = "*/" not in bare
            if within:
                continue
        elif bare.startswith("//"):
            start = start or number
            block.append(bare)
            continue
        if block:
            found.append((start, tidy(block)))
            block, start = [], 0
        tail = re.search(r"\s(//|/\*)\s*(.*)", line) if not bare.startswith(("//", "/*", "*")) else None
        if tail and '"' not in line[tail.start():]:
            found.append((number, tidy([tail[2]])))
    if block:
        found.append((start, tidy(block)))
    return found


def tidy(lines):
    return " ".join(re.sub(r"^(?:///?|/\*+|\*+(?!/))\s?|\s*\*/$", "", line).strip() for line in lines).replace("  ", " ").strip()


def paragraphs(text, is_comment):
    """[(line, paragraph)] of a document, or of the # comments of a script."""
    found, block, start, fenced = [], [], 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        bare = line.strip()
        if not is_comment and bare.startswith("```"):
            fenced = not fenced
            bare = ""
        elif is_comment:
            bare = bare[1:].strip() if bare.startswith("#") and not bare.startswith("#!") else ""
        begins = not is_comment and re.match(r"[-*|#] ?|\d+\. ", bare)
        if block and (not bare or begins):
            found.append((start, " ".join(block)))
            block = []
        if bare and not fenced:
            start = start if block else number
            block.append(re.sub(r"^(?:[-*#]+|\d+\.) ", "", bare))
    return found


def parts(name, text):
    if name.endswith(CODE):
        return text_of_code(text)
    if name.endswith(".md"):
        return paragraphs(text, False)
    if name.endswith(SCRIPTS) or os.path.basename(name) == "CMakeLists.txt" or text.startswith("#!"):
        return paragraphs(text, True)
    return []


def long_sentences(paragraph):
    for cell in re.split(r"\s\|\s|^\||\|$", paragraph):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", cell))
        for sentence in re.split(r"(?<=[.:;?!])\s+", plain):
            if len(sentence.split()) > MOST_WORDS:
                yield sentence


def findings_of(name, text):
    found = []
    for number, part in parts(name, text):
        bare = re.sub(r"`[^`]*`|\"[^\"]*\"", "code", part)
        for rule, why in RULES:
            for match in rule.finditer(bare):
                found.append(f"{name}:{number}: '{bare[match.start():match.end() + 30].strip()}': {why}")
        if name.endswith(".md"):
            for sentence in long_sentences(part):
                found.append(f"{name}:{number}: '{sentence[:40]}...': a sentence of {len(sentence.split())} words, "
                             f"at most {MOST_WORDS}")
    return found


def folder(name, left):
    """The longest line of prose_left.txt that `name` lies in, or None."""
    return max((place for place in left if name.startswith(place)), key=len, default=None)


def prose(files):
    left = {}
    with open(LEFT, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                place, most = line.split()
                left[place] = int(most)
    findings, by_place = [], {place: [] for place in left}
    for name in files:
        if name.startswith(APART):
            continue
        try:
            with open(name, encoding="utf-8") as file:
                found = findings_of(name, file.read())
        except UnicodeDecodeError:
            continue
        place = folder(name, left)
        (findings if place is None else by_place[place]).extend(found)
    for place, found in by_place.items():
        if len(found) > left[place]:
            findings += found
            findings.append(f"{place}: {len(found)} findings, at most {left[place]} ({LEFT})")
    return findings
