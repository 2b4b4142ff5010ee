#!/usr/bin/python3
"""Compares the interface of libpenstock.so.1 with the stored one (libpenstock.so.1.abi, made by abidw of libabigail).

    abi.py CASE [LIBRARY]     a test: exports, unchanged, notices
    abi.py store              stores the interface that the headers have now

The library has no debug information about types. So the types are those of a library of the same functions, which this
script makes from the headers; the compiler refuses a function of libpenstock that differs from its declaration there.
"""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADERS = f"{ROOT}/include/penstock"
STORED = f"{HERE}/libpenstock.so.1.abi"
SYMBOLS = f"{ROOT}/debian/libpenstock1.symbols"
VERSION = "PENSTOCK_1"
SKIPPED = 77
DECLARATION = re.compile(r"^PENSTOCK_API\s+([^;]*?\b(penstock_\w+)\([^;]*\));", re.M)
MENDING = "if programs that were built with the last release go on to work (docs/library.md): tests/abi/abi.py store"


def text_of(folder):
    """The headers of C without comments."""
    texts = []
    for path in sorted(glob.glob(f"{folder}/*.h")):
        with open(path) as file:
            texts.append(re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S))
    return "\n".join(texts)


def functions_of(folder):
    """{name: declaration} of the functions with the mark PENSTOCK_API."""
    text = text_of(folder)
    found = {name: declaration for declaration, name in DECLARATION.findall(text)}
    marked = text.count("PENSTOCK_API ") - len(re.findall(r"#define PENSTOCK_API ", text))
    assert len(found) == marked, f"{len(found)} functions were found, {marked} have the mark PENSTOCK_API"
    return found


def constants_of(folder):
    """The names of the numbers that the headers define."""
    text = text_of(folder)
    macros = re.findall(r"^#define (PENSTOCK_\w+) +[^ \n]", text, re.M)
    values = re.findall(r"^ +(PENSTOCK_\w+) *= *\d+", text, re.M)
    return [name for name in macros if not re.search(r"_INIT$|_DECLS$|_API$", name)] + values


# ---- what the library exports ----

def exports(library):
    """The library exports the functions of the headers, and debian/libpenstock1.symbols has the same."""
    printed = subprocess.run(["nm", "--dynamic", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    exported = {line.split()[2] for line in printed.splitlines()}
    wanted = {f"{name}@@{VERSION}" for name in functions_of(HEADERS)} | {VERSION}
    wrong = [f"{os.path.basename(library)} does not export {name}" for name in sorted(wanted - exported - {VERSION})]
    wrong += [f"{os.path.basename(library)} exports {name}, which no header marks" for name in
              sorted(exported - wanted - {f"{VERSION}@@{VERSION}"})]
    with open(SYMBOLS) as file:
        packaged = set(re.findall(r"^ (\S+)@", file.read(), re.M))
    return wrong + [f"debian/libpenstock1.symbols and the headers differ: {name}" for name in
                    sorted(packaged ^ (set(functions_of(HEADERS)) | {VERSION}))]


# ---- what programs are built with ----

def describe(headers, scratch, compiler="cc"):
    """Makes a library of the functions that the headers declare; returns abidw's description of it."""
    os.makedirs(scratch)
    source, library, description = (f"{scratch}/{name}" for name in ("interface.c", "libpenstock.so.1", "description"))
    # Each number is in a type of its own: among equal numbers of one enumeration, abidiff does not notice a change.
    constants = "".join(f"  enum of_{name} {{ value_of_{name} = {name} }} {name.lower()};\n" for name in constants_of(headers))
    bodies = "".join(f"{declaration} {{ __builtin_trap(); }}\n" for declaration in functions_of(headers).values())
    includes = "".join(f"#include <penstock/{os.path.basename(path)}>\n" for path in sorted(glob.glob(f"{headers}/*.h")))
    with open(source, "w") as file:
        file.write(includes + bodies + f"struct penstock_constants {{\n{constants}}};\n"
                   "struct penstock_constants penstock_constants(void) { __builtin_trap(); }\n")
    subprocess.run([compiler, "-std=gnu11", "-g", f"-fdebug-prefix-map={scratch}=.", "-shared", "-fPIC", "-I", os.path.dirname(headers),
                    f"-Wl,--version-script={ROOT}/src/library/libpenstock.map", "-Wl,-soname,libpenstock.so.1", "-o", library, source],
                   check=True)
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-undefined-syms", "--out-file",
                    description, library], check=True)
    return description


def difference(stored, now):
    """What abidiff tells; an empty text if the interfaces are the same."""
    done = subprocess.run(["abidiff", "--harmless", "--no-show-locs", stored, now], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode & 3 == 0, f"abidiff failed:\n{done.stdout}"
    return done.stdout if done.returncode else ""


@contextlib.contextmanager
def folder():
    if not shutil.which("abidw") or not shutil.which("cc"):
        print("SKIPPED: abidw or cc is not installed: scripts/install-deps build abi")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as scratch:
        yield scratch


def unchanged(_):
    """The interface is the stored one."""
    with folder() as scratch:
        differs = difference(STORED, describe(HEADERS, f"{scratch}/now"))
    return [differs, MENDING] if differs else []


# A change of a header, and what the answer names. None of them is harmless for all programs.
CHANGES = {
    "a function is gone": ("penstock.h", r"PENSTOCK_API int penstock_ping\([^;]*;", "", "penstock_ping"),
    "a function is new": ("penstock.h", r"(PENSTOCK_API int penstock_ping\()", r"PENSTOCK_API int penstock_new(int number);\n\1", "penstock_new"),
    "a parameter has another type": ("penstock.h", r"(penstock_mkdir\([^;]*?)uint32_t mode", r"\1uint64_t mode", "penstock_mkdir"),
    "a result has another type": ("penstock.h", r"int64_t penstock_list\(", "int penstock_list(", "penstock_list"),
    "a structure has grown": ("penstock.h", r"\} penstock_space;", "uint64_t more;\n} penstock_space;", "more"),
    "members have changed places": ("penstock.h", r"( uint64_t offset;.*?\n)(.*? uint64_t length;.*?\n)", r"\2\1", "penstock_lock_request"),
    "a member has another name": ("penstock.h", r"uint64_t free_files;", "uint64_t empty_files;", "empty_files"),
    "an enumeration has one more value": ("server.h", r"PENSTOCK_FILE_SYNC = 2", "PENSTOCK_FILE_SYNC = 2, PENSTOCK_NO_SYNC = 3", "PENSTOCK_NO_SYNC"),
    "a flag has another number": ("penstock.h", r"PENSTOCK_SET_GID = 4", "PENSTOCK_SET_GID = 256", "PENSTOCK_SET_GID"),
    "a macro has another number": ("penstock.h", r"#define PENSTOCK_NOFOLLOW 1u", "#define PENSTOCK_NOFOLLOW 2u", "PENSTOCK_NOFOLLOW"),
    "a function of a table has another parameter": ("server.h", r"(\*lookup\)\(void ?\* ?self, )", r"\1int more, ", "lookup"),
    "a callback has another parameter": ("penstock.h", r"(typedef void penstock_done\()", r"\1int more, ", "penstock_done"),
}


def notices(_):
    """Each change of the headers is noticed."""
    wrong = []
    with folder() as scratch:
        stored = describe(HEADERS, f"{scratch}/stored")
        for number, (what, (header, old, new, mentions)) in enumerate(CHANGES.items()):
            changed = f"{scratch}/{number}/penstock"
            shutil.copytree(HEADERS, changed)
            with open(f"{changed}/{header}") as file:
                text, count = re.subn(old, new, file.read(), count=1, flags=re.S)
            if not count:
                wrong.append(f"{what}: {header} has no {old}")
                continue
            with open(f"{changed}/{header}", "w") as file:
                file.write(text)
            differs = difference(stored, describe(changed, f"{scratch}/{number}/described"))
            if mentions not in differs:
                wrong.append(f"{what}: not noticed\n{differs}")
    return wrong


def store():
    with folder() as scratch:
        shutil.copy(describe(HEADERS, f"{scratch}/now"), STORED)


def main():
    if sys.argv[1:] == ["store"]:
        store()
        return
    program = os.environ.get("PENSTOCK", f"{ROOT}/build/release/src/cli/penstock")
    library = (sys.argv[2:] or [f"{os.path.dirname(program)}/../library/libpenstock.so.1"])[0]
    for case in [{"exports": exports, "unchanged": unchanged, "notices": notices}[name] for name in sys.argv[1:2]]:
        if wrong := case(library):
            sys.exit("\n".join(wrong))
        print(f"passed {case.__name__}")


main()
