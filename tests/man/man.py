#!/usr/bin/python3
"""Keeps the manual pages in docs/man in agreement with the program.

    man.py update [PENSTOCK]    rewrites what the program determines in each page, and makes a page for each new command
    man.py CASE                 a test: agrees, words, lint

A page is written by hand in mdoc(7), except its parts between the comments "begin NAME" and "end NAME". The program
determines these: what `penstock completion json` prints. In libpenstock(3), the headers of the library do.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = f"{ROOT}/docs/man"
SKIPPED = 77
# The words for the kinds of values.
VALUES = {"TEXT": "text", "FILE": "file", "DIRECTORY": "directory", "UINT": "number", "INT": "number", "FLOAT": "number"}


def interface(program):
    printed = subprocess.run([program, "completion", "json"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(printed)


# ---- mdoc ----

def escaped(text):
    text = text.replace("\\", "\\e")
    return re.sub(r"(?<![\w-])--(?=\w)", r"\\-\\-", re.sub(r"`([^`]*)`", r"\\(lq\1\\(rq", text))


def text(words):
    """Running text: each sentence begins a line, no line is longer than 78 characters or begins with a control
    character."""
    lines = []
    for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(words.split())):
        line = ""
        for word in escaped(sentence).split(" "):
            if line and len(line) + 1 + len(word) > 78:
                lines.append(line)
                line = ""
            line += (" " if line else "") + word
        lines.append(line)
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def sentence(words):
    """A description as a sentence. It stays in small letters if it begins with a value or a URL."""
    if not re.match(r"[^ ]*:|[\w, .]{,40}:", words):
        words = words[:1].upper() + words[1:]
    return words if words.endswith((".", ":", "]")) else words + "."


def value_of(option):
    if option["choices"]:
        return " | ".join(f"Cm {choice}" for choice in option["choices"])
    return f"Ar {VALUES.get(option['value'].split(':')[0], 'value')}"


def names_of(option):
    """The names of an option, each with its value: "-c number, --count number"."""
    names = []
    for name in option["names"]:
        flag = f"Fl {escaped(name[1:])}".replace("Fl -", "Fl \\-") if name.startswith("--") else f"Fl {name[1:]}"
        if option["value"]:
            flag += (" Ns = Ns " if name.startswith("--") else " ") + value_of(option)
        names.append(flag)
    return " , ".join(names)


def limits_of(option):
    """What the value must satisfy, unless the description tells it."""
    found = re.search(r" in \[(\S+) - (\S+)\]$", option["value"])
    if option["choices"] or not found or re.search(r"\bfrom \S+ to\b|power of two", option["value"] + option["description"]):
        return ""
    return f"From {found[1]} to {found[2]}."


def options(facts, inherited=()):
    """A list: arguments first, then options, then those of the program, which any command accepts."""
    out = []
    for option in sorted(facts["options"], key=lambda each: not each["positional"]) + list(inherited):
        if option["positional"]:
            out.append(f".It Ar {option['names'][0]}" + (" ..." if option["repeats"] else ""))
        else:
            out.append(f".It {names_of(option)}")
        out.append(text(sentence(option["description"])))
        if limits := limits_of(option):
            out.append(limits)
        if option["default"]:
            out.append(text(f"The default is {option['default'].strip('[]')}."))
        if option["variable"]:
            out += ["The environment variable", f".Ev {option['variable']}", "has the same effect."]
        if option["repeats"] and not option["positional"] and "repeated" not in option["description"]:
            out.append("The option may be repeated.")
    return [".Bl -tag -width Ds", *out, ".El"]


def synopsis(facts):
    out = [".Nm penstock" + (f" {facts['name']}" if facts["name"] else ""), ".Op Ar option ..."]
    for option in facts["options"]:
        if option["positional"]:
            words = f"Ar {option['names'][0]}" + (" ..." if option["repeats"] else "")
            out.append(f".{words}" if option["required"] else f".Op {words}")
    return out if facts["name"] else [".Nm penstock", ".Op Ar option ...", ".Ar command", ".Op Ar argument ..."]


def examples(facts):
    out = []
    for comment, command in zip(facts["examples"][::2], facts["examples"][1::2]):
        out += [".Pp", text(comment.removeprefix("# ") + ("" if comment.endswith("?") else ":")), ".Bd -literal -offset indent",
                escaped(command), ".Ed"]
    return out[1:]


def commands(facts):
    out = [".Bl -tag -width Ds"]
    for command in facts["commands"]:
        if command["name"]:
            out += [f".It Xr penstock-{command['name']} 1", text(sentence(command["description"]))]
    return [*out, ".El"]


def parameters(facts):
    out = [".Bl -tag -width Ds"]
    for each in facts["url_parameters"]:
        words = each["values"].split("|") if each["values"] else []
        kind = "Ar" if words and words[0].isupper() else "Cm"
        value = " | ".join(f"{kind} {word.lower() if kind == 'Ar' else word}" for word in words)
        out += [f".It Cm {each['name']}" + (f" Ns = Ns {value}" if value else ""), text(each["description"])]
    return [*out, ".El"]


# ---- the library ----

# The sections of a header, and in them the functions with the comments before them.
SECTION = re.compile(r"/\* ---- ([\w ,]+) ----")
EXPORTED = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*PENSTOCK_API\s[^;(]*?(penstock_\w+)\(", re.S)


def functions_of(header):
    """[(section, [(function, first sentence of its comment)])] of a header of the library."""
    with open(f"{ROOT}/include/penstock/{header}") as file:
        pieces = SECTION.split(file.read())
    return [(title, [(name, first_sentence(comment)) for comment, name in EXPORTED.findall(piece)])
            for title, piece in zip(pieces[1::2], pieces[2::2])]


def first_sentence(comment):
    return re.split(r"(?<=[.])\s|(?=@\w)", " ".join(re.sub(r"^ *\* ?", "", comment, flags=re.M).split()) + " ")[0]


def functions(header):
    out = []
    for title, functions in functions_of(header):
        if functions:
            out += [f".Ss {title[:1].upper() + title[1:]}", ".Bl -tag -width Ds"]
            for name, about in functions:
                out += [f".It Fn {name}", with_functions(about)]
            out.append(".El")
    return out


def with_functions(words):
    """Running text, in which the names of functions are marked. References to RFCs are left to the headers."""
    pieces = re.split(r" ?\b(\w+)\(\)([.,:]?) ?", re.sub(r" \([^)]*RFC[^)]*\)", "", words))
    out = []
    for begin, name, end in zip(pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], ""]):
        out += [text(begin)] * bool(begin) + [f".Fn {name}" + f" {end}" * bool(end)] * bool(name)
    return "\n".join(out)


# ---- pages ----

def parts_of(everything, facts):
    """The parts of a command's page that the program determines."""
    name = "penstock" + (f"-{facts['name']}" if facts["name"] else "")
    description = facts["description"]
    inherited = [each for each in everything["commands"][0]["options"] if not {"--help", "--version"} & set(each["names"])]
    parts = {"name": [f".Nm {name}", f".Nd {escaped(description[:1].lower() + description[1:] if description[1:2].islower() else description)}"],
             "synopsis": synopsis(facts), "options": options(facts, inherited if facts["name"] else ()), "examples": examples(facts)}
    if not facts["name"]:
        parts["commands"] = commands(everything)
    return name, parts


def pages_of(everything):
    """{file name: {part: lines}} of all pages that the program determines in part."""
    pages = {}
    for facts in everything["commands"]:
        name, parts = parts_of(everything, facts)
        pages[f"{name}.1"] = parts
    pages["penstock-url.5"] = {"parameters": parameters(everything)}
    pages["libpenstock.3"] = {"client": functions("penstock.h"), "server": functions("server.h"),
                              "provider": functions("provider.h")}
    return pages


MARK = re.compile(r'^\.\\" begin (\w+)\n(.*?)^\.\\" end \1\n', re.M | re.S)


def filled(page, parts):
    """Replaces the parts of a page."""
    return MARK.sub(lambda mark: f'.\\" begin {mark[1]}\n' + "\n".join([*parts[mark[1]], ""]) + f'.\\" end {mark[1]}\n', page)


EXIT_STATUS = """.Sh EXIT STATUS
0 for success; 1 after an error, which one line on standard error explains; 2
if the command line is wrong.
"""


def new_page(name, facts):
    """The first text of a command's page: what the program's help says."""
    part = lambda what: f'.\\" begin {what}\n.\\" end {what}\n'
    return (f'.\\" man.py update writes the parts between "begin" and "end".\n.Dd {time.strftime("%B %-d, %Y")}\n.Dt {name.upper()} 1\n.Os Penstock\n'
            f".Sh NAME\n{part('name')}.Sh SYNOPSIS\n{part('synopsis')}.Sh DESCRIPTION\n{text(sentence(facts['description']))}\n"
            + (f".Pp\n{text(facts['notes'])}\n" if facts["notes"] else "") +
            f".Sh OPTIONS\n{part('options')}{EXIT_STATUS}.Sh EXAMPLES\n{part('examples')}"
            f".Sh SEE ALSO\n.Xr penstock 1 ,\n.Xr penstock-url 5\n")


def update(program):
    everything = interface(program)
    for facts in everything["commands"]:
        name = parts_of(everything, facts)[0]
        if not os.path.exists(f"{PAGES}/{name}.1"):
            print(f"new: docs/man/{name}.1")
            with open(f"{PAGES}/{name}.1", "w") as file:
                file.write(new_page(name, facts))
    for page, parts in pages_of(everything).items():
        with open(f"{PAGES}/{page}") as file:
            before = file.read()
        with open(f"{PAGES}/{page}", "w") as file:
            file.write(filled(before, parts))


# ---- tests ----

def agrees(program):
    """Each command has a page, and each part of a page that the program determines is what it would print now."""
    wrong = []
    for page, parts in pages_of(interface(program)).items():
        if not os.path.exists(f"{PAGES}/{page}"):
            wrong.append(f"{page}: there is no such page")
            continue
        with open(f"{PAGES}/{page}") as file:
            now = file.read()
        if missing := set(parts) - {mark[1] for mark in MARK.finditer(now)}:
            wrong.append(f"{page}: it has no part {', '.join(sorted(missing))}")
        if now != filled(now, parts):
            wrong.append(f"{page}: it differs from the program")
    wrong += [f"libpenstock.3: {name}() is missing" for name in sorted(exported() - described())]
    wrong += [f"libpenstock.3: there is no {name}()" for name in sorted(described() - exported())]
    known = set(pages_of(interface(program)))
    for path in glob.glob(f"{PAGES}/penstock-*.1"):
        if os.path.basename(path) not in known:
            wrong.append(f"{os.path.basename(path)}: the program has no such command")
    return wrong and [*wrong, "to mend it: tests/man/man.py update PENSTOCK, then read what has changed"]


def exported():
    """The functions that the headers mark as exported, whatever stands before them."""
    found = set()
    for path in glob.glob(f"{ROOT}/include/penstock/*.h"):
        with open(path) as file:
            found |= set(re.findall(r"^PENSTOCK_API [^;(]*?(penstock_\w+)\(", file.read(), re.M))
    return found


def described():
    """The functions that libpenstock(3) names."""
    with open(f"{PAGES}/libpenstock.3") as file:
        return set(re.findall(r"\bFn (penstock_\w+)", file.read()))


def words(program):
    """What pages and documents mention exists: options, parameters of URLs, pages."""
    everything = interface(program)
    flags = {name for command in everything["commands"] for option in command["options"] for name in option["names"]}
    keys = {parameter["name"] for parameter in everything["url_parameters"]}
    names = {os.path.basename(path).rpartition(".")[0] for path in glob.glob(f"{PAGES}/*.[135]")}
    read, wrong = variables(), []
    for path in glob.glob(f"{PAGES}/*.[135]"):
        with open(path) as file:
            page = re.sub(r'^\.\\".*\n|\$\(pkg-config.*?\)', "", file.read(), flags=re.M).replace("\\-", "-")
        mentioned = set(re.findall(r"(?<![\w-])--\w[\w-]*", page)) | {f"-{flag}" for flag in re.findall(r"\bFl (-\w[\w-]*)", page)}
        wrong += [f"{path}: no option is called {flag}" for flag in sorted(mentioned - flags)]
        for query in re.findall(r"nfs://[^\s'?]*\?([\w=&.-]+)", page):
            wrong += [f"{path}: no parameter is called {key}" for key in re.findall(r"(\w+)=", query) if key not in keys]
        wrong += [f"{path}: there is no page {name}" for name in re.findall(r"\.Xr (penstock[\w.-]*)", page) if name not in names]
        described = set(re.findall(r"\bPENSTOCK_[A-Z_0-9]+", page))
        known = read if path.endswith((".1", ".5")) else constants()
        wrong += [f"{path}: nothing reads {name}" for name in sorted(described - known)]
        if path.endswith("/penstock.1"):
            wrong += [f"{path}: {name} is missing" for name in sorted(read - described)]
    return wrong


def constants():
    """The macros and constants of the library's headers."""
    found = set()
    for path in glob.glob(f"{ROOT}/include/penstock/*.h"):
        with open(path) as file:
            found |= set(re.findall(r"^(?:#define|) *(PENSTOCK_[A-Z_0-9]+)", file.read(), re.M))
    return found


def variables():
    """The variables of the environment that the client commands read."""
    found = set()
    for path in glob.glob(f"{ROOT}/src/cli/*.cc"):
        if not path.endswith("_test.cc"):
            with open(path) as file:
                found |= set(re.findall(r'"(PENSTOCK_[A-Z_0-9]+)"', file.read()))
    return found


def lint(_):
    """mandoc has no complaint, and man-db shows the page."""
    if not shutil.which("mandoc"):
        print("SKIPPED lint: mandoc is not installed")
        sys.exit(SKIPPED)
    pages = sorted(glob.glob(f"{PAGES}/*.[135]"))
    # The findings are on standard output. What the tool says of the machine's own index of pages is on standard error, and would
    # stand in the middle of a finding if both had one pipe.
    said = subprocess.run(["mandoc", "-T", "lint", "-W", "style", *pages], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    # The tool asks for pages that are installed; the case `words` looks for ours.
    wrong = [line for line in said.splitlines() if "referenced manual not found" not in line]
    for page in pages if shutil.which("groff") else ():
        warned = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", "-z", page], stderr=subprocess.PIPE, text=True).stderr
        wrong += warned.splitlines()
    return wrong if pages else ["there are no pages"]


def main():
    program = (sys.argv[2:] or [os.environ.get("PENSTOCK", f"{ROOT}/build/release/src/cli/penstock")])[0]
    if sys.argv[1:2] == ["update"]:
        update(program)
        return
    for case in [{"agrees": agrees, "words": words, "lint": lint}[name] for name in sys.argv[1:2]]:
        if wrong := case(program):
            sys.exit("\n".join(wrong))
        print(f"passed {case.__name__}")


main()
