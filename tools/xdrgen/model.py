"""A protocol definition as plain objects. parse.py makes them, check.py completes them, emit.py writes C++."""

from dataclasses import dataclass, field

UNBOUNDED = 2**32 - 1


class XdrError(Exception):
    """An error in a .x file, with its line."""

    def __init__(self, line, message):
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass
class Type:
    """A type specifier: a built-in ("int", "unsigned_hyper", ...) or the name of a definition."""

    name: str
    builtin: bool
    line: int


@dataclass
class Declaration:
    """A member, an arm or a typedef. kind: opaque_fixed, opaque_variable, string, plain, array_fixed, array_variable,
    optional or void."""

    kind: str
    name: str
    line: int
    type: Type = None
    bound: object = None  # a number or the name of a constant; None means unbounded
    ddp: bool = False


@dataclass
class Const:
    name: str
    line: int
    value: int


@dataclass
class Typedef:
    name: str
    line: int
    declaration: Declaration


@dataclass
class Enum:
    name: str
    line: int
    values: list  # (name, number or name, line); the checker replaces them by (name, number, line)
    open: bool = False


@dataclass
class Struct:
    name: str
    line: int
    members: list
    is_list: bool = False  # its last member was `Self *next`, which has been removed from `members`


@dataclass
class Case:
    values: list  # of (number or name, line)
    declaration: Declaration


@dataclass
class Union:
    name: str
    line: int
    discriminant: Declaration
    cases: list
    default: Declaration = None


@dataclass
class Procedure:
    name: str
    line: int
    number: int
    argument: Type  # None for void
    result: Type


@dataclass
class Version:
    name: str
    line: int
    number: int
    procedures: list


@dataclass
class Program:
    name: str
    line: int
    number: int
    versions: list


@dataclass
class Module:
    """One .x file."""

    namespace: str = None
    imports: list = field(default_factory=list)  # of (name, line)
    definitions: list = field(default_factory=list)
