"""Clean Debian systems in folders, made by mmdebstrap from the package sources that this host's apt uses."""

import glob
import os
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
import cases  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def only(pattern):
    """The file of `make deb` with such a name."""
    found = glob.glob(f"{ROOT}/build/deb/{pattern}")
    if not found:
        raise cases.Skip("there is no package: make deb")
    assert len(found) == 1, found
    return found[0]


def sources_archive(scratch):
    """Packs the sources of Penstock as they are, with the changes that are not committed."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE,
                            check=True).stdout
    path = f"{scratch}/sources.tar"
    subprocess.run(["tar", "-c", "-f", path, "-C", ROOT, "--null", "--ignore-failed-read", "-T", "-"], input=listed, check=True)
    return path


def targets(*filters):
    """The sources of apt on this host: [(URI, suite, codename)]."""
    printed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE) $(CODENAME) $(RELEASE)", "Created-By: Packages",
                              "Origin: Debian", "Component: main", *filters], stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted({tuple(line.split()) for line in printed.splitlines()})


def sources(codename):
    """Lines of sources.list for a release of Debian, at the places where this host's apt finds its own."""
    own = host_codename()
    lines = []
    for uri, _, code, release in targets():
        if code.split("-")[0] == own:
            lines.append(f"deb {uri} {release.replace(own, codename)} main")
    if not lines:
        raise cases.Skip("this host's apt has no sources of Debian")
    return "\n".join(lines) + "\n"


def host_codename():
    with open("/etc/os-release") as file:
        facts = dict(line.strip().split("=", 1) for line in file if "=" in line)
    return facts.get("VERSION_CODENAME", "").strip('"')


def make(codename, hooks, target="/dev/null", packages=(), architectures=None, environment=None, seconds=5000, variant="apt"):
    """Makes a clean system and runs the hooks of mmdebstrap in it. `target` is a folder for it, which stays; without one the system
    is removed. The system's first architecture is this host's; `environment` is that of the hooks. The variant "extract" has the files of
    the packages alone."""
    if not shutil.which("mmdebstrap"):
        raise cases.Skip("mmdebstrap is not installed: scripts/install-deps package")
    kind = "null" if target == "/dev/null" else "directory"
    command = ["mmdebstrap", f"--variant={variant}", f"--format={kind}"]
    if packages:
        command.append(f"--include={','.join(packages)}")
    if architectures:
        command.append(f"--architectures={architectures}")
    command += [f"--customize-hook={hook}" for hook in hooks]
    done = subprocess.run([*command, codename, target, "-"], input=sources(codename), text=True, timeout=seconds,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"mmdebstrap ended with {done.returncode}: see above"


def run_in(codename, script, copies=(), **how):
    """Makes a clean system, copies files into its folder /test, with serving.sh, runs the shell script in it, and removes it. Raises an
    error if the script fails. `how` are arguments of make()."""
    serving = f"{os.path.dirname(os.path.abspath(__file__))}/serving.sh"
    make(codename, ['mkdir "$1/test"', *(f"copy-in {path} /test" for path in (*copies, serving, script)),
                    f'chroot "$1" sh -eux /test/{os.path.basename(script)}'], **how)
