"""Programs that run in the guest: small ones in C++, built static, so that they need nothing there, and kept beside the image;
and what the build has made, with the libraries that it is linked to."""

import glob
import hashlib
import os
import shutil
import subprocess

import guest_image
from cases import Skip

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop", "guest")
COMMAND = ["g++", "-std=c++20", "-O1", "-g0", "-Wall", "-Wextra", "-Werror", "-static", "-s"]


def built(name):
    """The path of the program whose source is tests/interop/guest/<name>.cc."""
    if not shutil.which("g++"):
        raise Skip("g++ is not installed")
    recipe = hashlib.sha256(" ".join(COMMAND).encode())
    for source in [f"{SOURCES}/{name}.cc", *sorted(glob.glob(f"{SOURCES}/*.h"))]:
        with open(source, "rb") as file:
            recipe.update(file.read())
    program = f"{guest_image.IMAGE_DIR}/{name}-{recipe.hexdigest()[:12]}"
    if not os.path.exists(program):
        os.makedirs(guest_image.IMAGE_DIR, exist_ok=True)
        unfinished = f"{program}.{os.getpid()}"  # two tests may make it at the same time
        subprocess.run([*COMMAND, "-o", unfinished, f"{SOURCES}/{name}.cc"], check=True)
        os.rename(unfinished, program)
    return program


def carried(*names):
    """{path in the guest: program}, for Guest(files=...)."""
    return {f"bin/{name}": built(name) for name in names}


def with_libraries(name, program):
    """{path in the guest: file}, for Guest(files=...): a program of the build, and every library that it names."""
    if not os.path.exists(program):
        raise Skip(f"{program} is not built")
    return {f"bin/{name}": program} | {path.lstrip("/"): path for path in guest_image.shared_libraries(program)}
