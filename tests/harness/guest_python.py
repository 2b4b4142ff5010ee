"""Python and the tests in a guest, for tests that run inside the guest because their peer is on the same machine."""

import compileall
import hashlib
import os
import py_compile
import shutil
import sys
import sysconfig

import guest_image
from kept import kept

TESTS = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
LIBRARY = sysconfig.get_path("stdlib")
# The largest modules that no test needs.
LEFT_OUT = ("__pycache__", "config-*", "dist-packages", "site-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter",
            "unittest")


def library():
    """Makes a copy of the standard library, kept beside the image. It is compiled: compiling takes an emulated guest
    seconds, and a guest's files have no dates by which Python could recognize a compiled file."""
    recipe = hashlib.sha256((sys.version + LIBRARY + repr(LEFT_OUT)).encode()).hexdigest()[:12]
    return kept(f"{guest_image.IMAGE_DIR}/python-{recipe}", copy_library)


def copy_library(target):
    shutil.copytree(LIBRARY, target, ignore=shutil.ignore_patterns(*LEFT_OUT), ignore_dangling_symlinks=True)
    compileall.compile_dir(target, quiet=2, stripdir=target, prependdir=LIBRARY,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def python_and_tests():
    """Returns {path in the guest: file}, for Guest(files=...): /bin/python3, and the tests in /tests."""
    python = os.path.realpath(sys.executable)
    files = {"bin/python3": python} | {path.lstrip("/"): path for path in guest_image.shared_libraries(python)}
    return files | {LIBRARY.lstrip("/"): library()} | {f"tests/{name}": f"{TESTS}/{name}" for name in ("harness", "e2e", "interop")}
