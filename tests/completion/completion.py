"""Completes command lines in bash, zsh and fish, with the scripts that packages install.

Those scripts find the program by PATH and let it print the completion.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
import cases  # noqa: E402
from patience import BUSY  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = f"{ROOT}/packaging/completions"
PENSTOCK = os.path.abspath(os.environ.get("PENSTOCK", f"{ROOT}/build/release/src/cli/penstock"))

# Command lines with words that the completion must offer, and words that it must not.
LINES = [
    ("penstock ", {"serve", "ls", "cp", "bench", "completion"}, {"--rdma"}),
    ("penstock se", {"serve"}, {"ls"}),
    ("penstock -v pi", {"ping"}, set()),
    ("penstock serve --rpc", {"--rpcbind"}, {"--vers"}),
    ("penstock serve --rpcbind ", {"off", "auto", "required"}, {"--portmap"}),
    ("penstock cp --xprtsec o", {"opportunistic"}, {"tls"}),
    ("penstock serve --keytab ke", {"key file.txt", "keys"}, {"--keytab"}),
    ("penstock serve ", {"folder"}, {"keys"}),
    ("penstock cp ke", {"keys"}, set()),
    ("penstock ls --s", {"--sec"}, {"--size"}),
    ("penstock bench --se", {"--seconds", "--sec", "--server-pid"}, {"--rpcbind"}),
    ("penstock completion ", {"bash", "zsh", "fish", "json"}, {"keys"}),
]
EQUALS = [("penstock serve --rpcbind=re", {"required"}, {"off"})]


def environment(scratch):
    """The program by its name, files to complete, and no settings of the user."""
    for folder in ("bin", "files/folder", "home"):
        os.makedirs(f"{scratch}/{folder}")
    os.symlink(PENSTOCK, f"{scratch}/bin/penstock")
    for name in ("keys", "key file.txt"):
        open(f"{scratch}/files/{name}", "w").close()
    return {"PATH": f"{scratch}/bin:{os.environ['PATH']}", "HOME": f"{scratch}/home", "TERM": "dumb", "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": f"{scratch}/home", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}


def check(line, offered, wanted, unwanted):
    offered = {word if word.endswith("//") else word.removesuffix("/") for word in offered}
    print(f"{line!r}: {sorted(offered)}", flush=True)
    assert wanted <= offered, f"{line!r} does not offer {sorted(wanted - offered)}"
    assert not unwanted & offered, f"{line!r} offers {sorted(unwanted & offered)}"


def shell(name, scratch):
    if not shutil.which(name):
        raise cases.Skip(f"{name} is not installed")
    return environment(scratch), f"{scratch}/files"


def bash(scratch):
    # Does what readline does: splits the line at spaces, '=' and ':', and calls the function.
    driver = r"""
source "$1"
line=$2
words=()
rest=$line
while [[ $rest ]]; do
  case $rest in
    ' '*) rest=${rest# }; [[ $rest ]] || words+=('') ;;
    [=:]*) words+=("${rest:0:1}"); rest=${rest:1}; [[ $rest ]] || words+=('') ;;
    *) word=${rest%%[ =:]*}; words+=("$word"); rest=${rest#"$word"} ;;
  esac
done
COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
_penstock penstock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
    how, folder = shell("bash", scratch)
    for line, wanted, unwanted in LINES + EQUALS + [("penstock ls nf", {"nfs://"}, set()),
                                                    ("penstock ls nfs://h", set(), {"keys", "serve"})]:
        done = subprocess.run(["bash", "--norc", "-c", driver, "driver", f"{SCRIPTS}/penstock.bash", line], env=how, cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * BUSY)
        assert done.returncode == 0, done.stderr
        check(line, done.stdout.splitlines(), wanted, unwanted)
        assert not re.sub(r".*compopt: not currently executing completion function\n", "", done.stderr), done.stderr


def fish(scratch):
    how, folder = shell("fish", scratch)
    for line, wanted, unwanted in LINES + [(line, {f"--rpcbind={word}" for word in words}, set()) for line, words, _ in EQUALS]:
        done = subprocess.run(["fish", "--no-config", "-c", f"source {SCRIPTS}/penstock.fish; complete -C \"$argv[1]\"", line],
                              env=how, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * BUSY)
        assert done.returncode == 0 and not done.stderr, done.stderr
        check(line, [text.partition("\t")[0].replace("\\ ", " ") for text in done.stdout.splitlines()], wanted, unwanted)


def zsh(scratch):
    """zsh completes only on a terminal: the test types on one."""
    how, folder = shell("zsh", scratch)
    os.makedirs(f"{scratch}/functions")
    shutil.copy(f"{SCRIPTS}/_penstock", f"{scratch}/functions/_penstock")
    with open(f"{scratch}/home/.zshrc", "w") as rc:
        # Prints what compadd gets, instead of menus.
        rc.write(f"""PS1=prompt%%; fpath=({scratch}/functions $fpath); autoload -U compinit; compinit -D -u
setopt no_beep no_list_beep; unset zle_bracketed_paste; LISTMAX=10000; COLUMNS=500
zstyle ':completion:*' list-colors ''; zstyle ':completion:*' menu no
show() {{
  compadd() {{
    local -a found
    builtin compadd -O found "$@"
    (( $#found )) && print -rl -- "${{found[@]/#/offer:}}" >> {scratch}/offers
    builtin compadd "$@"
  }}
  _main_complete
  unfunction compadd
}}
zle -C show complete-word show
bindkey '^T' show
""")
    for line, wanted, unwanted in LINES + EQUALS:
        with open(f"{scratch}/offers", "w"):
            pass
        type_line(how, folder, line + "\x14")
        with open(f"{scratch}/offers") as file:
            offered = [offer.strip().removeprefix("offer:") for offer in file]
        check(line, offered, wanted, unwanted)


def type_line(how, folder, keys):
    """Starts zsh on a terminal, types at its prompt, and waits until it has completed the line."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-i", "-d"], how)
    try:
        read_until(terminal, b"prompt%")
        # The shell prints this when it has worked off the keys before.
        os.write(terminal, keys.encode() + b"\x15print do''ne\n")
        read_until(terminal, b"done")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def read_until(terminal, mark):
    seen, end = b"", time.monotonic() + 60 * BUSY
    while mark not in seen:
        assert time.monotonic() < end, f"zsh printed only {seen!r}"
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096)


cases.main({"bash": bash, "zsh": zsh, "fish": fish})
