"""Converts a checked module to the text of its C++ header (header.h.j2 has the layout)."""

import pathlib

import jinja2

import model

_BUILTIN = {
    "int": "int32_t",
    "unsigned_int": "uint32_t",
    "hyper": "int64_t",
    "unsigned_hyper": "uint64_t",
    "float": "float",
    "double": "double",
    "bool": "bool",
}

_RESERVED = set(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval
    constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq""".split()
)
# The members of every union (xdr/union.h).
_UNION_NAMES = {"discriminant", "arm", "Get", "ArmOf"}
# The aggregate contains opaque data up to this length.
_INLINE_OPAQUE = 128


def emit(scope, source):
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    writer = _Writer(scope)
    return environment.get_template("header.h.j2").render(
        source=source.name,
        folder=source.absolute().parent.name,
        namespace=scope.module.namespace,
        imports=[name for name, _ in scope.module.imports],
        constants=[writer.const(d) for d in scope.module.definitions if isinstance(d, model.Const)],
        types=[writer.type_definition(d) for d in scope.ordered],
        programs=[writer.program(d) for d in scope.module.definitions if isinstance(d, model.Program)],
    )


def _safe(name, taken=()):
    return name + "_" if name in _RESERVED or name in taken else name


def _literal(number):
    if number == -(2**31):
        return "(-2147483647 - 1)"
    return f"{number}u" if number > 2**31 - 1 else str(number)


class _Writer:
    def __init__(self, scope):
        self._scope = scope

    def const(self, const):
        value = const.value
        if value < 0:
            cpp = "int32_t" if value >= -(2**31) else "int64_t"
        else:
            cpp = "uint32_t" if value < 2**32 else "uint64_t"
        # C++ has no decimal literal without a suffix for a value that only fits uint64_t.
        return {"type": cpp, "name": _safe(const.name), "value": f"{value}u" if value >= 2**63 else value}

    def type_definition(self, definition):
        arm = self._scope.optional_arm(definition)
        if arm is not None:
            return {"kind": "alias", "name": definition.name, "type": f"std::optional<{self._declared(arm)}>"}
        return getattr(self, "_" + type(definition).__name__.lower())(definition)

    def _typedef(self, typedef):
        return {"kind": "alias", "name": typedef.name, "type": self._declared(typedef.declaration)}

    def _enum(self, enum):
        values = [(_safe(name), name, number) for name, number, _ in enum.values]
        return {"kind": "enum", "name": enum.name, "values": values, "open": enum.open}

    def _struct(self, struct):
        members = [
            {
                "name": _safe(m.name, {struct.name}),
                "text": m.name,
                "type": self._declared(m, shadowed={n.name for n in struct.members}),
                "initial": self._initial(m),
            }
            for m in struct.members
        ]
        return {"kind": "struct", "name": struct.name, "members": members, "is_list": struct.is_list}

    def _initial(self, declaration):
        """Returns the initial value of a member: zero, or the first value of an enum without a zero."""
        enum = self._scope.resolve(declaration.type) if declaration.kind == "plain" else None
        if not isinstance(enum, model.Enum) or enum.open or any(number == 0 for _, number, _ in enum.values):
            return "{}"
        return f"{{{self._named(enum.name)}::{_safe(enum.values[0][0])}}}"

    def _union(self, union):
        scope = self._scope
        discriminant = union.discriminant.type
        is_bool = scope.builtin(discriminant) == "bool"
        enum = scope.resolve(discriminant)
        taken = _UNION_NAMES | {union.name}
        arms, cases = [], []

        def arm_index(declaration):
            if declaration.kind == "void":
                for i, arm in enumerate(arms):
                    if arm["void"]:
                        return i
            name = "" if declaration.kind == "void" else _safe(declaration.name, taken | {union.discriminant.name})
            arms.append(
                {
                    "void": declaration.kind == "void",
                    "name": name,
                    "text": declaration.name or "void",
                    "type": "xdr::Void" if declaration.kind == "void" else self._declared(declaration),
                }
            )
            return len(arms) - 1

        def label(value, line):
            if is_bool:
                return value.lower()
            if isinstance(enum, model.Enum):
                return f"{self._named(discriminant.name)}::{_safe(value)}"
            return _literal(scope.number(value, line))

        for case in union.cases:
            index = arm_index(case.declaration)
            cases.append({"labels": [label(*value) for value in case.values], "arm": index})
        default = arm_index(union.default) if union.default is not None else None
        return {
            "kind": "union",
            "name": union.name,
            "discriminant_type": self._type(discriminant),
            "discriminant": _safe(union.discriminant.name, taken),
            "discriminant_text": union.discriminant.name,
            "arms": arms,
            "cases": cases,
            "default": default,
            "complete": is_bool and sum(len(case["labels"]) for case in cases) == 2,
            "first": cases[0]["labels"][0],
        }

    def program(self, program):
        return {
            "name": program.name,
            "number": program.number,
            "versions": [
                {
                    "name": version.name,
                    "number": version.number,
                    "procedures": [
                        {
                            "name": procedure.name,
                            "number": procedure.number,
                            "argument": self._type_or_void(procedure.argument),
                            "result": self._type_or_void(procedure.result),
                        }
                        for procedure in version.procedures
                    ],
                }
                for version in program.versions
            ],
        }

    # --- types

    def _type_or_void(self, type_):
        return "xdr::Void" if type_ is None else self._type(type_)

    def _named(self, name, shadowed=()):
        home = self._scope.home.get(name)
        if home is None and name in shadowed:
            home = self._scope.module.namespace
        return f"::penstock::{home}::{name}" if home else name

    def _type(self, type_, shadowed=()):
        return _BUILTIN[type_.name] if type_.builtin else self._named(type_.name, shadowed)

    def _bound(self, declaration):
        if declaration.bound is None:
            return "xdr::kUnbounded"
        if declaration.bound in self._scope.constants:
            return _safe(declaration.bound)
        return _literal(self._scope.number(declaration.bound, declaration.line))

    def _declared(self, declaration, shadowed=()):
        bound = self._bound(declaration)
        if declaration.kind == "opaque_fixed":
            return f"std::array<std::byte, {bound}>"
        if declaration.ddp:
            return f"xdr::Payload<{bound}>"
        if declaration.kind == "string":
            return f"xdr::StringView<{bound}>"
        if declaration.kind == "opaque_variable":
            length = model.UNBOUNDED
            if declaration.bound is not None:
                length = self._scope.number(declaration.bound, declaration.line)
            return f"xdr::Opaque<{bound}>" if length <= _INLINE_OPAQUE else f"xdr::OpaqueView<{bound}>"
        type_ = self._type(declaration.type, shadowed)
        if declaration.kind == "plain":
            return type_
        if declaration.kind == "array_fixed":
            return f"std::array<{type_}, {bound}>"
        if declaration.kind == "array_variable":
            return f"xdr::Vector<{type_}, {bound}>"
        target = self._scope.resolve(declaration.type)
        if isinstance(target, model.Struct) and target.is_list:
            return f"xdr::List<{type_}>"
        return f"std::optional<{type_}>"
