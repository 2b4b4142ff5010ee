#!/usr/bin/python3
"""xdrgen INPUT.x OUTPUT.h: writes the C++ aggregates of a protocol definition. See README.md for the language."""

import argparse
import pathlib
import sys

import check
import emit
import parse
from model import XdrError


def load(path, importing=()):
    """Returns the checked module at `path`, and the modules that it imports from the same folder."""
    if path in importing:
        raise XdrError(1, f"{path.name} imports itself")
    module = parse.parse(path.read_text())
    imported = []
    for name, line in module.imports:
        other = path.with_name(name + ".x")
        if not other.exists():
            raise XdrError(line, f"there is no {other.name} beside {path.name}")
        try:
            imported.append(load(other, (*importing, path)))
        except XdrError as error:
            raise XdrError(line, f"in {other.name}, line {error.line}: {error.message}")
    return check.Scope(module, imported)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        text = emit.emit(load(arguments.input), arguments.input)
    except XdrError as error:
        print(f"{arguments.input}:{error.line}: error: {error.message}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: error: {error.strerror}", file=sys.stderr)
        return 1
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
