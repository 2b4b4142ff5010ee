"""Programs that run in the guest: small static ones in C++, kept beside the image, and programs of the build with their
shared libraries."""

import glob
import hashlib
import os
import shutil
import subprocess

import guest_image
from cases import Skip
from kept import kept

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop", "guest")
COMMAND = ["g++", "-std=c++20", "-O1", "-g0", "-Wall", "-Wextra", "-Werror", "-s"]
PROGRAM, LIBRARY = ["-static"], ["-shared", "-fPIC", "-Wl,--as-needed"]


def built(name, kind=PROGRAM):
    """Returns the path of the program whose source is tests/interop/guest/<name>.cc."""
    if not shutil.which("g++"):
        raise Skip("g++ is not installed")
    command = [*COMMAND, *kind]
    recipe = hashlib.sha256(" ".join(command).encode())
    for source in [f"{SOURCES}/{name}.cc", *sorted(glob.glob(f"{SOURCES}/*.h"))]:
        with open(source, "rb") as file:
            recipe.update(file.read())
    return kept(f"{guest_image.IMAGE_DIR}/{name}-{recipe.hexdigest()[:12]}",
                lambda target: subprocess.run([*command, "-o", target, f"{SOURCES}/{name}.cc"], check=True))


def built_library(name):
    """Returns the path of a shared library for LD_PRELOAD, from tests/interop/guest/<name>.cc. It needs only the C
    library."""
    return built(name, LIBRARY)


def carried(*names):
    """Returns {path in the guest: program}, for Guest(files=...)."""
    return {f"bin/{name}": built(name) for name in names}


def with_libraries(name, program, folder="bin/"):
    """Returns {path in the guest: file}, for Guest(files=...): a program of the build, and every library that it needs."""
    if not os.path.exists(program):
        raise Skip(f"{program} is not built")
    return {f"{folder}{name}": program} | {path.lstrip("/"): path for path in guest_image.shared_libraries(program)}
