# SPDX-License-Identifier: Apache-2.0
"""What the Containerfile installs, against what Debian's package says that building and running take."""
import re

IMAGE, CONTROL = "packaging/kubernetes/Containerfile", "packaging/debian/control"
# The packages' own tools.
OF_PACKAGES = ("debhelper-compat", "dh-sequence-dkms")
# Headers alone: nothing of them is there at run time.
HEADERS_ONLY = ("libcli11-dev",)


def stages():
    """The packages that each stage of the image installs."""
    with open(IMAGE, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    installs = re.compile(r"apt-get install ([^&\n]*)")
    return [[word for found in installs.findall(stage) for word in found.split() if not word.startswith("-")]
            for stage in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]]


def field(name):
    """The packages of a field of the control file's first paragraph."""
    with open(CONTROL, encoding="utf-8") as file:
        text = file.read().split("\n\n")[0]
    lines = re.search(rf"^{name}:((\n .*)+)", text, flags=re.MULTILINE)[1]
    return [re.match(r"[\w.+-]+", line.strip())[0] for line in lines.strip().split("\n")]


def lacking(files):
    if IMAGE not in files:
        return []
    build, run = stages()
    wanted = [package for package in field("Build-Depends") if package not in OF_PACKAGES]
    findings = [f"{IMAGE}: its build stage lacks {package}, a Build-Depends of {CONTROL}"
                for package in wanted if package not in build]
    for package in wanted:
        library = re.fullmatch(r"(lib[\w+]+?)(-\w+)?-dev", package)
        # libNAME-dev is compiled against, libNAME with a number is what runs; libcurl4-openssl-dev has it already.
        if library and package not in HEADERS_ONLY and not any(re.fullmatch(library[1] + r"\d*", name) for name in run):
            findings.append(f"{IMAGE}: the image lacks the library of {package}: {library[1]} with its number")
    return findings
