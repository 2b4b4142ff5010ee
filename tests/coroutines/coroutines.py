#!/usr/bin/python3
"""Refuses statements of coroutines that g++ 12 compiles wrongly.

    coroutines.py FOLDER...     checks the C++ sources in the folders
    coroutines.py --self-test   checks that it finds each of the statements, and accepts what is right

g++ 12 destroys the temporaries of a conditional operator twice if the statement has a co_await as well. It compiles a
coroutine to nothing if a condition has a co_await and no block around the condition has a variable.
"""

import os
import re
import sys

SOURCES = (".cc", ".h", ".cpp", ".hpp")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
CONDITION = re.compile(r"\b(?:if|while|switch)\s*\(")
NOT_A_DECLARATION = re.compile(r"(?:co_return|co_await|co_yield|return|if|while|for|switch|else|do|case|default|delete|throw|break|continue)\b")
DECLARATION = re.compile(r"(?:PENSTOCK_CO_TRY\b|(?:const |constexpr |static )*[A-Za-z_][\w:]*(?:<.*>)?(?:::\w+)*[&*]* (?:const )?[&*]*(?:\[[\w, ]+\]|\w+)(?: ?[=({\[]|,|$))", re.DOTALL)
LAMBDA = re.compile(r"\](?:\s*\((?:[^()]|\([^()]*\))*\))?(?:\s*mutable)?(?:\s*->[^;{}]*)?\s*$")


class Block:
    """A pair of braces with the statements in it."""

    def __init__(self, parent, begins_function):
        self.parent = None if begins_function else parent
        self.has_variable = False


def is_block(before):
    """Whether a brace after this part of a statement begins a block, rather than the values of an object."""
    head = before.strip()
    if not head or re.match(r"(?:inline )?namespace\b|extern\b", head):
        return True
    if re.search(r"\b(?:class|struct|union|enum)\b[^=()]*$", head):
        return True
    return bool(re.search(r"(?:\)|\b(?:else|do|try|const|noexcept|mutable|override|final))$|\)(?:\s*const)?\s*->[^;]*$|[^:]:$", head) or LAMBDA.search(head))


def findings(text):
    """Returns (line, reason) for each bad statement."""
    code = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match[0][0] == "/" else "0", text)
    found, conditions = [], []
    # Each open brace: the block or None, and the statement that it interrupts with the line of its beginning.
    block, statement, line, begins, stack, depth = Block(None, True), "", 1, 1, [], 0

    def end():
        nonlocal statement
        words = " ".join(statement.split())
        if "co_await" in words and re.search(r"(?<!operator)\?", words):
            found.append((begins, "a conditional operator beside a co_await: g++ 12 destroys its temporaries twice"))
        for condition in CONDITION.finditer(words):
            text = inside(words, condition.end() - 1)
            if "co_await" in text and ";" not in text:  # `if (auto a = b; c)` has a variable
                conditions.append((begins, block))
        if re.match(r"for \((?:const )?\w", words) or (not NOT_A_DECLARATION.match(words) and DECLARATION.match(words)):
            block.has_variable = True
        statement = ""

    for at, letter in enumerate(code):
        if letter == "\n":
            line += 1
        if letter == "{":
            if is_block(statement):
                is_lambda, is_control = LAMBDA.search(statement.strip()) is not None, re.match(r"\s*(?:\}?\s*else|if|while|for|switch|do|try|case|default)\b|\s*$", statement)
                if is_lambda:
                    stack.append((block, statement + " ", begins, depth))
                    statement = ""
                else:
                    end()
                    stack.append((block, None, begins, depth))
                block, depth = Block(block, is_lambda or not is_control), 0
            else:
                stack.append((None, None, None, None))
                statement += letter
        elif letter == "}" and stack:
            outer, interrupted, began, level = stack.pop()
            if outer is None:
                statement += letter
                continue
            end()
            block, depth = outer, level
            statement = interrupted or ""
            begins = began if interrupted else line
        elif letter == ";" and depth == 0:
            end()
            begins = line
        else:
            depth += letter == "("
            depth -= letter == ")"
            if not statement.strip():
                begins = line
            statement += letter
    without = "a co_await in a condition, and no variable in a block around it: g++ 12 compiles the coroutine to nothing"
    return found + [(line, without) for line, block in conditions if not encloses_variable(block)]


def inside(text, at):
    """Returns what the parenthesis at this place encloses."""
    level = 0
    for end in range(at, len(text)):
        level += text[end] == "("
        level -= text[end] == ")"
        if level == 0:
            return text[at:end]
    return text[at:]


def encloses_variable(block):
    while block:
        if block.has_variable:
            return True
        block = block.parent
    return False


def check(folders):
    read, wrong = 0, []
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    read += 1
                    with open(os.path.join(path, name), encoding="utf-8") as source:
                        wrong += [f"{os.path.join(path, name)}:{line}: {why}" for line, why in findings(source.read())]
    print("\n".join(wrong))
    if wrong or not read:
        sys.exit(f"{len(wrong)} bad statements in {read} files")
    print(f"{read} files")


BAD = (
    "Task<void> A() { int a = 1; auto b = a ? co_await B() : C(); }",
    "Task<void> A() { int a = 1; auto b = co_await B(a ? C() : D()); }",
    "Task<void> A() { int a = 1; co_return co_await B({.a = a ? C() : D()}); }",
    "Task<void> A() { if (co_await B()) C(); }",
    "Task<void> A() { while (!co_await B()) { C(); } co_return; }",
    "Task<void> A() { { if (C(co_await B())) D(); } }",
    "Task<void> A() { int a = 1; auto b = [&]() -> Task<void> { if (co_await C()) D(); }; }",
    "class A { Task<void> B() { if (co_await B()) C(); } int a = 1; };",
)
GOOD = (
    "Task<void> A() { int a = 1; if (co_await B()) C(); }",
    "Task<void> A() { for (;;) { const auto a = B(); if (co_await C(a)) D(); } }",
    "Task<void> A() { int a = b ? 1 : 2; co_await B(a); }",
    "Task<void> A() { const std::string a = \"?\"; co_await B(\"?\"); // ?\n}",
    "Task<void> A() { int a = 1; co_await B([a] { return a ? 1 : 2; }); }",
    "Task<void> A() { PENSTOCK_CO_TRY(const int a, co_await B()); if (co_await C()) D(); }",
    "Task<void> A() { PENSTOCK_CO_CHECK(co_await B()); }",
)


def self_test():
    for text in BAD:
        assert findings(text), text
    for text in GOOD:
        assert not findings(text), (text, findings(text))
    print("good")


if sys.argv[1:] == ["--self-test"]:
    self_test()
else:
    check(sys.argv[1:])
