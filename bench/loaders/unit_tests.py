# SPDX-License-Identifier: Apache-2.0
"""fastsafetensors' own unit tests, with and without its checkpoint directory under the observer.

They are in its repository only, not in its packages: PPC_FASTSAFETENSORS_DIR names a checkout, whose
version the package index is asked for.
"""
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from . import environment, maio
from .environment import OUT, ROOT, SuiteError
from .experiment import say, verdict

NAME = "fastsafetensors-tests"
VARIABLE = "PPC_FASTSAFETENSORS_DIR"
PLACE = "/opt/fastsafetensors"
# Where they write what they read: tests/unit/conftest.py.
GPT2 = "transformers_cache/models--gpt2/snapshots/0/model.safetensors"
CHECKPOINTS = f"{ROOT}{PLACE}/.testdata"


def place():
    """A copy of the tests in the root, with nothing read so far."""
    shutil.rmtree(f"{ROOT}{PLACE}", ignore_errors=True)
    shutil.copytree(os.path.join(os.environ[VARIABLE], "tests"), f"{ROOT}{PLACE}/tests")
    environment.run_inside(["python3", "/suite/tiny_gpt2.py", f"{PLACE}/.testdata/{GPT2}"], "making a checkpoint")
    checkpoint = os.open(f"{CHECKPOINTS}/{GPT2}", os.O_RDONLY)
    os.fsync(checkpoint)
    os.posix_fadvise(checkpoint, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(checkpoint)


def version():
    """Of the checkout."""
    with open(os.path.join(os.environ[VARIABLE], "pyproject.toml"), encoding="utf-8") as file:
        found = re.search(r'^version = "([0-9.]+)"$', file.read(), re.M)
    if not found:
        raise SuiteError(f"{VARIABLE}: its pyproject.toml tells no version")
    return found[1]


def package():
    """The package of that version, beside the one that is measured."""
    where = f"/opt/{NAME}-{version()}"
    if not os.path.exists(f"{ROOT}{where}"):
        python = os.readlink(f"{ROOT}/usr/bin/python3").removeprefix("python")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
             "--python-version", python, "--platform", "manylinux_2_27_x86_64", "--platform",
             "manylinux_2_28_x86_64", "--target", f"{ROOT}{where}.new", f"fastsafetensors=={version()}"],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SuiteError(f"fastsafetensors {version()}: {done.stderr.strip().splitlines()[-1]}")
        os.rename(f"{ROOT}{where}.new", f"{ROOT}{where}")
    return where


def outcomes():
    """{test: passed, skipped or failed}"""
    report = f"{ROOT}/tmp/unit.xml"
    command = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=/tmp/unit.xml",
               f"{PLACE}/tests/unit"]
    variables = {"TEST_FASTSAFETENSORS_FRAMEWORK": "pytorch", "PYTHONPATH": package()}
    with open(f"{OUT}/{NAME}.log", "w", encoding="utf-8") as log:
        subprocess.run(environment.inside(command, variables), stdout=log,
                       stderr=subprocess.STDOUT, timeout=600, check=False)
    if not os.path.exists(report):
        raise SuiteError(f"pytest wrote no report; see build/loaders/{NAME}.log")
    found = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        found[f"{case.get('classname')}.{case.get('name')}"] = (
            "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed")
    os.unlink(report)
    return found


def counts(found):
    return ", ".join(f"{list(found.values()).count(kind)} {kind}" for kind in ("passed", "skipped", "failed"))


def natively():
    place()
    return outcomes()


def observed():
    place()
    with maio.Maio(CHECKPOINTS, f"{OUT}/templates/{NAME}"):
        return outcomes()


def run(results, why_not):
    if not os.path.exists(os.path.join(os.environ.get(VARIABLE) or "/nowhere", "tests/unit/test_fastsafetensors.py")):
        verdict("skip", NAME, f"{VARIABLE} names no checkout of fastsafetensors")
        return
    try:
        native = results.keep("native", natively)
        say(f"{NAME}: {counts(native)}")
        if why_not:
            verdict("skip", NAME, why_not)
            return
        with_maio = results.keep("observed", observed)
    except SuiteError as error:
        verdict("not ok", NAME, str(error))
        return
    different = sorted(name for name in native.keys() | with_maio.keys() if native.get(name) != with_maio.get(name))
    if different or "passed" not in native.values():
        verdict("not ok", NAME, f"other results under the observer: {', '.join(different[:5]) or 'nothing passed'}")
    else:
        verdict("ok", NAME)


def sentence(results):
    native, with_maio = results.get("native"), results.get("observed")
    if native is None:
        return f"fastsafetensors' own unit tests: not run (`{VARIABLE}` names its checkout)."
    under = "not run" if with_maio is None else "the same" if with_maio == native else counts(with_maio)
    return f"fastsafetensors' own unit tests on the CPU: {counts(native)}; with their directory under the observer: {under}."
