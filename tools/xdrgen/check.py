"""Resolves the names of a module, and rejects constructs that XDR or the mapping to C++ does not allow."""

import model
from model import XdrError

_INT32 = range(-(2**31), 2**31)
_UINT32 = range(0, 2**32)


class Scope:
    """A checked module: its constants and types (including imported ones), in the order that C++ needs."""

    def __init__(self, module, imported=()):
        self.module = module
        self.imported = list(imported)  # of Scope
        self.numbers = {}  # constants and enumerators
        self.constants = set()  # those that are C++ integers
        self.types = {}  # name -> definition
        self.home = {}  # name of a type -> namespace if it is imported
        if module.namespace is None:
            raise XdrError(1, "no 'namespace <name>;'")
        for scope in self.imported:
            for name in scope.types:
                if name not in scope.home:
                    self.types[name] = scope.types[name]
                    self.home[name] = scope.module.namespace
            self.numbers.update(scope.numbers)
        self._declare()
        self._link_lists()
        for definition in module.definitions:
            self._check(definition)
        self.ordered = self._order()

    def number(self, value, line):
        if isinstance(value, int):
            return value
        if value not in self.numbers:
            raise XdrError(line, f"unknown constant '{value}'")
        return self.numbers[value]

    def resolve(self, type_):
        """Returns the definition of a named type, following typedefs of plain types; None for a built-in one."""
        while not type_.builtin:
            definition = self.types[type_.name]
            if not (isinstance(definition, model.Typedef) and definition.declaration.kind == "plain"):
                return definition
            type_ = definition.declaration.type
        return None

    def builtin(self, type_):
        """Returns the built-in type of `type_`, following typedefs; None for anything else."""
        while not type_.builtin:
            definition = self.types[type_.name]
            if not (isinstance(definition, model.Typedef) and definition.declaration.kind == "plain"):
                return None
            type_ = definition.declaration.type
        return type_.name

    def optional_arm(self, definition):
        """Returns the arm of a union that is a bool with one arm. On the wire it is the same as `T *`."""
        if not isinstance(definition, model.Union) or self.builtin(definition.discriminant.type) != "bool":
            return None
        arms = {}
        for case in definition.cases:
            for value, _ in case.values:
                arms[value] = case.declaration
        present = arms.get("TRUE")
        absent = arms.get("FALSE", definition.default)
        if present is None or present.kind == "void" or absent is None or absent.kind != "void":
            return None
        return present

    # --- names

    def _declare(self):
        where = {}

        def claim(name, line):
            if name in where:
                raise XdrError(line, f"'{name}' is already defined, at line {where[name]}")
            where[name] = line

        for definition in self.module.definitions:
            claim(definition.name, definition.line)
            if isinstance(definition, model.Const):
                self.numbers[definition.name] = definition.value
                self.constants.add(definition.name)
            elif isinstance(definition, model.Program):
                for version in definition.versions:
                    claim(version.name, version.line)
                    for procedure in version.procedures:
                        claim(procedure.name, procedure.line)
            else:
                self.types[definition.name] = definition
                self.home.pop(definition.name, None)
            if isinstance(definition, model.Enum):
                for i, (name, value, line) in enumerate(definition.values):
                    claim(name, line)
                    number = self.number(value, line)
                    if number not in _INT32:
                        raise XdrError(line, f"'{name}' does not fit into 32 bits")
                    self.numbers[name] = number
                    definition.values[i] = (name, number, line)

    def _link_lists(self):
        for definition in self.module.definitions:
            if not isinstance(definition, model.Struct):
                continue
            links = [m for m in definition.members if self._links_to(m, definition)]
            if not links:
                continue
            if len(links) > 1 or definition.members[-1] is not links[0]:
                raise XdrError(links[0].line, f"'{links[0].name}' links to its own type: it must be the last member")
            definition.members.pop()
            definition.is_list = True
            if not definition.members:
                raise XdrError(definition.line, f"'{definition.name}' has nothing but its link")

    def _links_to(self, declaration, struct):
        while declaration.kind == "plain" and not declaration.type.builtin:
            target = self.types.get(declaration.type.name)
            if not isinstance(target, model.Typedef):
                return False
            declaration = target.declaration
        return declaration.kind == "optional" and declaration.type.name == struct.name

    # --- definitions

    def _check(self, definition):
        if isinstance(definition, model.Typedef):
            self._check_declaration(definition.declaration)
        elif isinstance(definition, model.Enum):
            seen = {}
            for name, number, line in definition.values:
                if number in seen:
                    raise XdrError(line, f"'{name}' has the value of '{seen[number]}'")
                seen[number] = name
        elif isinstance(definition, model.Struct):
            self._check_members(definition.members)
        elif isinstance(definition, model.Union):
            self._check_union(definition)
        elif isinstance(definition, model.Program):
            self._check_program(definition)

    def _check_members(self, members):
        seen = set()
        for member in members:
            if member.name in seen:
                raise XdrError(member.line, f"a second member '{member.name}'")
            seen.add(member.name)
            self._check_declaration(member)

    def _check_declaration(self, declaration):
        if declaration.type is not None:
            self._check_type(declaration.type)
        if declaration.kind == "opaque_fixed" and declaration.ddp:
            raise XdrError(declaration.line, f"'{declaration.name}': ddp needs a variable length, opaque<> or string<>")
        if declaration.bound is not None:
            bound = self.number(declaration.bound, declaration.line)
            if bound not in _UINT32:
                raise XdrError(declaration.line, f"'{declaration.name}': a length of {bound} is not possible")

    def _check_type(self, type_):
        if type_.builtin:
            if type_.name == "quadruple":
                raise XdrError(type_.line, "quadruple is not supported")
            return
        if type_.name not in self.types:
            raise XdrError(type_.line, f"unknown type '{type_.name}'")

    def _check_union(self, union):
        self._check_declaration(union.discriminant)
        type_ = union.discriminant.type
        enum = self.resolve(type_)
        builtin = self.builtin(type_)
        if builtin not in ("int", "unsigned_int", "bool") and not isinstance(enum, model.Enum):
            raise XdrError(union.line, f"union '{union.name}' switches on '{type_.name}', which is no integer, enum or bool")
        names = {name for name, _, _ in enum.values} if isinstance(enum, model.Enum) else {"TRUE", "FALSE"}
        seen = set()
        for case in union.cases:
            for value, line in case.values:
                if builtin in ("int", "unsigned_int"):
                    number = self.number(value, line)
                    if number not in (_INT32 if builtin == "int" else _UINT32):
                        raise XdrError(line, f"case {value} does not fit into the discriminant")
                    value = number
                elif value not in names:
                    raise XdrError(line, f"'{value}' is no value of '{type_.name}'")
                if value in seen:
                    raise XdrError(line, f"a second case '{value}'")
                seen.add(value)
        arms = [case.declaration for case in union.cases] + ([union.default] if union.default else [])
        self._check_members([arm for arm in arms if arm.kind != "void"])

    def _check_program(self, program):
        versions = set()
        for version in program.versions:
            if version.number in versions:
                raise XdrError(version.line, f"a second version {version.number}")
            versions.add(version.number)
            procedures = set()
            for procedure in version.procedures:
                if procedure.number in procedures:
                    raise XdrError(procedure.line, f"a second procedure {procedure.number}")
                procedures.add(procedure.number)
                for type_ in (procedure.argument, procedure.result):
                    if type_ is not None:
                        self._check_type(type_)

    # --- order

    def _order(self):
        """Returns this module's types, each after its parts."""
        done, open_, ordered = set(), [], []

        def visit(name, line):
            if name in done or name in self.home:
                return
            if name in open_:
                raise XdrError(line, f"'{name}' contains itself ({' -> '.join(open_[open_.index(name):] + [name])})")
            open_.append(name)
            definition = self.types[name]
            for declaration in _parts(definition):
                if declaration.type is not None and not declaration.type.builtin:
                    visit(declaration.type.name, declaration.line)
            open_.pop()
            done.add(name)
            ordered.append(definition)

        for name, definition in self.types.items():
            visit(name, definition.line)
        return ordered


def _parts(definition):
    if isinstance(definition, model.Typedef):
        return [definition.declaration]
    if isinstance(definition, model.Struct):
        return definition.members
    if isinstance(definition, model.Union):
        arms = [case.declaration for case in definition.cases]
        return [definition.discriminant] + arms + ([definition.default] if definition.default else [])
    return []
