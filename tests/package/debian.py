"""Clean Debian systems in folders, made by mmdebstrap from the package sources that this host's apt uses."""

import os
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
import cases  # noqa: E402


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


def run_in(codename, script, copies=(), packages=(), architectures=None, environment=None, seconds=5000):
    """Makes a clean system, copies files into its folder /test, runs the shell script in it, and removes it. Raises an
    error if the script fails. The system's first architecture is this host's; `environment` is that of the script."""
    if not shutil.which("mmdebstrap"):
        raise cases.Skip("mmdebstrap is not installed: scripts/install-deps package")
    command = ["mmdebstrap", "--variant=apt", "--format=null"]
    if packages:
        command.append(f"--include={','.join(packages)}")
    if architectures:
        command.append(f"--architectures={architectures}")
    command.append("--customize-hook=mkdir \"$1/test\"")
    for path in copies:
        command.append(f"--customize-hook=copy-in {path} /test")
    command.append(f"--customize-hook=copy-in {script} /test")
    command.append(f"--customize-hook=chroot \"$1\" sh -eux /test/{os.path.basename(script)}")
    done = subprocess.run([*command, codename, "/dev/null", "-"], input=sources(codename), text=True, timeout=seconds,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"mmdebstrap ended with {done.returncode}: see above"
