"""Converts the text of a .x file to a model.Module. It checks only the syntax; check.py resolves names."""

import pathlib

import lark

import model
from model import XdrError

_PARSER = lark.Lark(
    (pathlib.Path(__file__).parent / "grammar.lark").read_text(),
    parser="lalr",
    propagate_positions=True,
    maybe_placeholders=True,
)


def parse(text):
    try:
        tree = _PARSER.parse(text)
    except lark.exceptions.UnexpectedToken as error:
        found = f"'{error.token}'" if error.token.type != "$END" else "the end of the file"
        expected = ", ".join(sorted(_describe(name) for name in error.accepts or error.expected))
        raise XdrError(error.line if error.line > 0 else text.count("\n") + 1, f"unexpected {found}; expected {expected}")
    except lark.exceptions.UnexpectedCharacters as error:
        raise XdrError(error.line, f"unexpected character {text[error.pos_in_stream]!r}")
    return _Reader().module(tree)


def _describe(terminal):
    pattern = {t.name: t.pattern for t in _PARSER.terminals}.get(terminal)
    if terminal == "$END":
        return "the end of the file"
    return f"'{pattern.value}'" if pattern is not None and pattern.type == "str" else terminal.lower()


def _number(token):
    text = token.value
    digits = text.lstrip("-")
    base = 16 if digits[:2].lower() == "0x" else 8 if len(digits) > 1 and digits[0] == "0" else 10
    try:
        return int(text, base)
    except ValueError:
        raise XdrError(token.line, f"'{text}' is not a number")


def _value(tree):
    token = tree.children[0]
    return _number(token) if token.type == "NUMBER" else token.value


class _Reader:
    def __init__(self):
        self._module = model.Module()

    def module(self, tree):
        for item in tree.children:
            getattr(self, "_" + item.data.rstrip("_"))(item)
        return self._module

    def _add(self, definition):
        self._module.definitions.append(definition)

    def _namespace(self, tree):
        name = tree.children[0]
        if self._module.namespace is not None:
            raise XdrError(name.line, "a second namespace")
        self._module.namespace = "::".join(part.value for part in tree.children)

    def _import(self, tree):
        self._module.imports.append((tree.children[0].value, tree.children[0].line))

    def _const_def(self, tree):
        name, number = tree.children
        self._add(model.Const(name.value, name.line, _number(number)))

    def _typedef(self, tree):
        declaration = self._declaration(tree.children[0], "")
        self._add(model.Typedef(declaration.name, declaration.line, declaration))

    def _enum_def(self, tree):
        is_open, name, body = tree.children
        self._enum(name.value, name.line, body, is_open is not None)

    def _enum(self, name, line, body, is_open):
        values = [
            (child.children[0].value, _value(child.children[1]), child.children[0].line)
            for child in body.children
            if child is not None
        ]
        self._add(model.Enum(name, line, values, is_open))

    def _struct_def(self, tree):
        name, body = tree.children
        self._struct(name.value, name.line, body)

    def _struct(self, name, line, body):
        members = [self._declaration(child, name) for child in body.children]
        self._add(model.Struct(name, line, members))

    def _union_def(self, tree):
        name, body = tree.children
        self._union(name.value, name.line, body)

    def _union(self, name, line, body):
        type_tree, discriminant, *cases = body.children
        union = model.Union(
            name,
            line,
            model.Declaration("plain", discriminant.value, discriminant.line, self._type(type_tree, name, discriminant)),
            [],
        )
        for case in cases:
            if case is None:
                continue
            *values, declaration = case.children
            arm = self._declaration(declaration, name)
            if case.data == "default":
                union.default = arm
            else:
                union.cases.append(model.Case([(_value(v), v.meta.line) for v in values], arm))
        self._add(union)

    def _declaration(self, tree, parent):
        kind = tree.data
        if kind == "void":
            return model.Declaration("void", "", getattr(tree.meta, "line", 0))
        children = list(tree.children)
        ddp = False
        type_ = None
        if kind in ("opaque_fixed", "opaque_variable", "string"):
            ddp = children.pop(0) is not None
            name = children.pop(0)
        else:
            name = children[1]
            type_ = self._type(children[0], parent, name)
            children = children[2:]
        bound = _value(children[0]) if children and children[0] is not None else None
        return model.Declaration(kind, name.value, name.line, type_, bound, ddp)

    def _type(self, tree, parent, name):
        kind = tree.data
        if kind == "named":
            return model.Type(tree.children[-1].value, False, tree.children[-1].line)
        if kind.startswith("inline_"):
            # A body without its own name is named after its place.
            inline = f"{parent}_{name.value}" if parent else f"{name.value}_body"
            body = tree.children[0]
            if kind == "inline_enum":
                self._enum(inline, name.line, body, False)
            elif kind == "inline_struct":
                self._struct(inline, name.line, body)
            else:
                self._union(inline, name.line, body)
            return model.Type(inline, False, name.line)
        return model.Type(kind, True, name.line)

    def _program_def(self, tree):
        name, *versions, number = tree.children
        self._add(
            model.Program(name.value, name.line, _number(number), [self._version(version) for version in versions])
        )

    def _version(self, tree):
        name, *procedures, number = tree.children
        return model.Version(name.value, name.line, _number(number), [self._procedure(p) for p in procedures])

    def _procedure(self, tree):
        result, name, *arguments, number = tree.children
        if len(arguments) > 1:
            raise XdrError(name.line, f"procedure {name} has {len(arguments)} arguments; put them into a struct")
        types = [None if t.data == "void" else self._type(t, name.value, name) for t in (arguments[0], result)]
        return model.Procedure(name.value, name.line, _number(number), *types)
