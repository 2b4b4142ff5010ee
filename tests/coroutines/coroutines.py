#!/usr/bin/python3
"""Refuses statements of coroutines that g++ 12 compiles wrongly.

    coroutines.py FOLDER...     checks the C++ sources in the folders
    coroutines.py --self-test   checks that it finds each of the statements, and accepts what is right

g++ 12 destroys the temporaries of a conditional operator twice if the statement has a co_await as well. It does the same
with an object that is made of braces, as in `co_await F(A{.b = c})` or `co_await F({.b = c})`, or copies it octet by
octet: give it a name before the statement. It compiles a coroutine to nothing if a condition has a co_await and no block
around the condition has a variable.

The check of braces knows no types. It accepts braces around nothing, and around literals and constants only; types and
functions in the lists below have been looked at.
"""

import os
import re
import sys

SOURCES = (".cc", ".h", ".cpp", ".hpp")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
CONDITION = re.compile(r"\b(?:if|while|switch)\s*\(")
NOT_A_DECLARATION = re.compile(r"(?:co_return|co_await|co_yield|return|if|while|for|switch|else|do|case|default|delete|throw|break|continue)\b")
DECLARATION = re.compile(r"(?:PENSTOCK_CO_TRY\b|(?:const |constexpr |static )*[A-Za-z_][\w:]*(?:<.*>)?(?:::\w+)*[&*]* (?:const )?[&*]*(?:\[[\w, ]+\]|\w+)(?: ?[=({\[]|,|$))", re.DOTALL)
CONTROL = re.compile(r"(?:\}? ?else )?(?:if|while|switch|for) ?(?:constexpr ?)?(?=\()|(?:\}? ?else|do) ")
# A number, a constant, or braces around nothing; with the name of a member before it. A text may be a std::string.
VALUE = r"(?:-?\d[\d'.xa-fA-FuUlL]*|(?:\w+::)*k[A-Z]\w*|(?:\w+::)*[A-Z][A-Z\d_]+|true|false|nullptr)"
HARMLESS = rf"(?:\.\w+ ?= ?)?(?:{VALUE}(?: ?(?:<<|[-+*/|]) ?{VALUE})*|\{{ ?\}})"
HARMLESS_ONLY = re.compile(rf"{HARMLESS}(?:, ?{HARMLESS})*,?")
# Types that own nothing: a second destructor, or a copy of their octets, does no harm.
PLAIN_TYPES = ("Awaiter", "DELEGRETURN4args", "DESTROY_CLIENTID4args", "DESTROY_SESSION4args", "LINK4args", "LOOKUP4args",
               "PUTFH4args", "REMOVE4args", "RENAME4args", "RENEW4args")
# Functions whose parameters in braces are of such types: ranges of octets, time limits, references, arguments of NFS.
PLAIN_CALLS = ("Ask", "Compare", "Connect", "ConnectTcp", "CopyAgain", "MeasureCases", "MoveWhileSyncing", "ProbeHost",
               "ReadAll", "ReadData", "Send", "WriteStable")
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


def full_expressions(words):
    """Returns the parts of a statement that are full expressions of their own: the condition, and what follows it."""
    parts = []
    while control := CONTROL.match(words):
        words = words[control.end():]
        if not words.startswith("("):
            continue
        condition = inside(words, 0)
        parts += condition[1:].split(";")
        words = words[len(condition) + 1:].lstrip()
    return [*parts, words]


def matching(text, at, opens, closes):
    """Returns the place of the bracket that opens what is open at this place, or -1."""
    level = 0
    for before in range(at - 1, -1, -1):
        level += (text[before] in closes) - (text[before] in opens)
        if level < 0:
            return before
    return -1


def braced_temporaries(expression):
    """Returns what is before the braces of each temporary object that may own something."""
    found, end = [], 0
    for brace in re.finditer(r"\{", expression):
        if brace.start() < end:
            continue  # within other braces, which have been judged
        values = inside(expression, brace.start(), "{}")
        before = expression[:brace.start()].rstrip()
        if HARMLESS_ONLY.fullmatch(values[1:].strip()) or not values[1:].strip():
            continue
        named = re.search(r"(?:^|(.)\s*)\b((?:\w+::)*\w+)(?:<[^;{}()]*>)?$", before)
        if named and named[2] not in ("co_await", "co_return", "co_yield", "return"):
            keyword = re.search(r"\b(?:co_await|co_return|return|co_yield) ?$", before[:named.start(2)])
            if named[1] and (named[1].isalnum() or named[1] in "_>&*") and not keyword:
                continue  # a variable and its values
            is_plain = named[2].split("::")[-1] in PLAIN_TYPES
        elif before.endswith(("(", ",")):
            opened = matching(before + " ", len(before) if before.endswith(",") else len(before), "({", ")}")
            called = re.search(r"(\w+)(?:<[^;{}()]*(?:\([^()]*\))?>)?$", expression[:opened].rstrip())
            is_plain = called is not None and called[1] in PLAIN_CALLS
        else:
            continue  # the values of a variable or a member
        end = brace.start() + len(values) + 1
        if not is_plain:
            found.append(before[-40:].strip())
    return found


def findings(text):
    """Returns (line, reason) for each bad statement."""
    code = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match[0][0] == "/" else '""' if match[0][0] == '"' else "0", text)
    found, conditions = [], []
    # Each open brace: the block or None, and the statement that it interrupts with the line of its beginning.
    block, statement, line, begins, stack, depth = Block(None, True), "", 1, 1, [], 0

    def end():
        nonlocal statement
        words = " ".join(statement.split())
        if "co_await" in words and re.search(r"(?<!operator)\?", words):
            found.append((begins, "a conditional operator beside a co_await: g++ 12 destroys its temporaries twice"))
        for expression in full_expressions(words):
            if "co_await" in expression and (made := braced_temporaries(expression)):
                found.append((begins, f"an object made of braces beside a co_await, after '{made[0]}': g++ 12 destroys it twice"))
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


def inside(text, at, brackets="()"):
    """Returns what the bracket at this place encloses, with the bracket."""
    level = 0
    for end in range(at, len(text)):
        level += text[end] == brackets[0]
        level -= text[end] == brackets[1]
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
    "Task<void> A() { co_await B(Options{.a = x, .name = name}); }",
    "Task<void> A() { co_await B({.a = x, .name = name}); }",
    "Task<void> A() { co_await B(1, {.name = std::string(\"text\")}, 2); }",
    "Task<void> A() { const auto a = co_await B<int>(C{d}); }",
    "Task<void> A() { const auto a = co_await b.c->B(C<int>{d}, e); }",
    "Task<void> A() { PENSTOCK_CO_TRY(const int a, co_await B({c, D{}})); }",
    "Task<void> A() { int a = 1; if (co_await B({c})) D(); }",
    "Task<void> A() { int a = 1; if (a) co_return co_await B({c}); }",
    "Task<void> A() { int a = 1; while (a == co_await B({c})) {} }",
    "Task<void> A() { co_return C{co_await B(), d}; }",
    "Task<void> A() { const C c = D{co_await B(), d}.e(); }",
    "Task<void> A() { co_await Wrapped{b}; }",
    "Task<void> A() { co_await B([] { return 1; }, {c}); }",
    "Task<void> A() { auto a = [&]() -> Task<void> { co_await B({c}); }; }",
)
GOOD = (
    "Task<void> A() { int a = 1; if (co_await B()) C(); }",
    "Task<void> A() { for (;;) { const auto a = B(); if (co_await C(a)) D(); } }",
    "Task<void> A() { int a = b ? 1 : 2; co_await B(a); }",
    "Task<void> A() { const std::string a = \"?\"; co_await B(\"?\"); // ?\n}",
    "Task<void> A() { int a = 1; co_await B([a] { return a ? 1 : 2; }); }",
    "Task<void> A() { PENSTOCK_CO_TRY(const int a, co_await B()); if (co_await C()) D(); }",
    "Task<void> A() { PENSTOCK_CO_CHECK(co_await B()); }",
    "Task<void> A() { const Options a{.a = x, .name = name}; co_await B(a); }",
    "Task<void> A() { co_await B({}); co_await B(C{}); co_await B({.a = 1 << 20, .b = kMost, .c = {}, .d = D::kOne, .e = nullptr}); }",
    "Task<void> A() { co_await B([&] { return std::tuple(C{d}); }); }",
    "Task<void> A() { auto a = D({c}); co_await B(a); }",
    "Task<void> A() { C c{co_await B(), d}; const std::vector<int> e = {co_await B(), d}; }",
    "Task<void> A() { if (auto a = co_await B(); a) co_return C{a}; }",
    "Task<void> A() { co_await Compare(a, b, {0, length}); co_await B(PUTFH4args{handle}); }",
    "Task<void> A() { for (const auto& a : C{b}) { co_await B(a); } }",
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
