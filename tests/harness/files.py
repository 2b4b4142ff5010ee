"""Files to transfer, and comparisons of the results with the originals."""

import hashlib
import os
import stat

from penstock import INSIDE

MIB = 1024 * 1024
# Empty, shorter than an XDR word, around a page, several chunks and unaligned, and large: the large one takes two ends
# on an emulated machine a few seconds.
SIZES = {"0": 0, "1": 1, "3": 3, "4095": 4095, "4096": 4096, "4097": 4097, "1m3": MIB + 3, "large": (16 if INSIDE else 64) * MIB}

# The same sizes without the large one, for tests that transfer each file in every version over both transports.
CORE_SIZES = {name: size for name, size in SIZES.items() if name != "large"} | {"2m5": 2 * MIB + 5}


def make(path, size):
    """Returns `size` bytes that no other file repeats."""
    with open(path, "wb") as out:
        while size:
            out.write(os.urandom(min(size, MIB)))
            size -= min(size, MIB)


def make_sizes(folder, sizes=SIZES):
    for name, size in sizes.items():
        make(f"{folder}/{name}", size)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def digests(folder):
    return {name: digest(f"{folder}/{name}") for name in sorted(os.listdir(folder))}


def describe(top):
    """Returns all that `cp -a` keeps, by relative path: type, mode, mtime in seconds, and content or target."""
    found = {}
    for folder, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, top)] = (kind, os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                found[os.path.relpath(path, top)] = (kind, mode, int(status.st_mtime), digest(path))
            else:
                found[os.path.relpath(path, top)] = (kind, mode, int(status.st_mtime))
    return found


def assert_same(got, wanted, what):
    wrong = [f"{name}: got {got.get(name)}, wanted {wanted.get(name)}"
             for name in sorted(set(got) | set(wanted)) if got.get(name) != wanted.get(name)]
    assert not wrong, f"{what}: {len(wrong)} of {len(wanted)} differ\n" + "\n".join(wrong[:20])
