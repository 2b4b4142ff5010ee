"""The vectors of vectors.txt, and their check with our codec."""

import os

import wire

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors.txt")


class Vector:
    """One line: the values are None if the octets must be refused."""

    def __init__(self, line):
        left, octets = line.split(":")
        self.line, self.octets = line, bytes.fromhex(octets)
        self.operation, self.what, *fields = left.split()
        self.values = None if fields == ["refused"] else dict(field.split("=") for field in fields)


def read():
    with open(PATH) as file:
        return [Vector(line.strip()) for line in file if line.strip() and not line.startswith("#")]


def value_of(kind, text):
    if kind in ("verifier", "id", "opaque"):
        return b"" if text == "-" else bytes.fromhex(text)
    return int(text)


def decode(vector):
    """Returns the values of the octets, or None if our decoder refuses them."""
    reader = wire.Reader(vector.octets)
    try:
        if vector.operation == "ATTRIBUTES":
            return wire.read_attributes(vector.octets)
        number = getattr(wire, vector.operation)
        if vector.what == "arguments":
            values = wire.read_arguments(number, reader)
        else:
            status, values = wire.read_results(number, reader)
            values = {"status": status, **values}
        reader.end()
        return values
    except wire.BadXdr:
        return None


def expected(vector):
    """Returns the values of the line, with their types."""
    if vector.values is None:
        return None
    if vector.operation == "ATTRIBUTES":
        return {int(kind): bytes.fromhex(value) for kind, value in vector.values.items()}
    kinds = dict(wire.LAYOUTS[getattr(wire, vector.operation)][vector.what == "results"], status="u32")
    return {name: value_of(kinds[name], text) for name, text in vector.values.items()}


def encode(vector, values):
    """Returns the octets of the values, without the number of the operation."""
    if vector.operation == "ATTRIBUTES":
        return wire.attributes(*values.items())
    make = wire.arguments if vector.what == "arguments" else wire.results
    return make(getattr(wire, vector.operation), **values)[4:]


def check(scratch):
    vectors = read()
    for vector in vectors:
        values = expected(vector)
        assert decode(vector) == values, f"{vector.line}\n  decoded to {decode(vector)}"
        if values is not None:
            assert encode(vector, values) == vector.octets, f"{vector.line}\n  encoded to {encode(vector, values).hex(' ', 4)}"
    for operation in ("OPERATION_CONTROL", "SESSION_CREATE", "SESSION_BIND", "SESSION_DESTROY", "CB_CREDITRECALL"):
        for what in ("arguments", "results"):
            there = [vector.values is None for vector in vectors if (vector.operation, vector.what) == (operation, what)]
            assert any(there) and not all(there), f"no vectors of both kinds for {what} of {operation}"
    print(f"{len(vectors)} vectors")
