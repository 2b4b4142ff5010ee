"""Tests of the Debian packages in build/deb."""

import glob
import json
import os
import re
import shutil
import subprocess

from debian import cases, host_codename, make, only, run_in, sources_archive

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGES = ("penstock", "penstock-ceph", "libpenstock1", "libpenstock-dev", "python3-penstock")


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def lintian(_):
    said = subprocess.run(["lintian", "--fail-on", "error,warning", only("penstock_*.changes")], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    print(said.stdout)
    assert said.returncode == 0 and not re.search(r"^[EW]: ", said.stdout, re.M)


def contents(scratch):
    """What the packages must have, and how the program was linked."""
    listed = output_of("dpkg-deb", "--contents", only("penstock_*.deb"))
    files = {line.split()[5].removeprefix(".") for line in listed.splitlines()}
    pages = {os.path.basename(path) for path in glob.glob(f"{ROOT}/docs/man/*.[15]")}
    wanted = {f"/usr/share/man/man{page[-1]}/{page}.gz" for page in pages} | {
        "/usr/bin/penstock", "/usr/sbin/mount.penstock", "/usr/share/man/man8/mount.penstock.8.gz", "/etc/penstock/penstock.toml",
        "/usr/lib/sysusers.d/penstock.conf", "/usr/lib/tmpfiles.d/penstock.conf",
        *(f"/lib/systemd/system/{os.path.basename(path)}" for path in glob.glob(f"{ROOT}/packaging/systemd/*")),
        "/usr/share/bash-completion/completions/penstock", "/usr/share/zsh/vendor-completions/_penstock",
        "/usr/share/fish/vendor_completions.d/penstock.fish"}
    assert wanted <= files, f"missing: {sorted(wanted - files)}"
    assert not [file for file in files if file.endswith((".a", ".h", "LICENSE"))], files
    assert output_of("dpkg-deb", "--info", only("penstock_*.deb"), "conffiles").split() == ["/etc/penstock/penstock.toml"]
    only("penstock-dbgsym_*.deb")
    subprocess.run(["dpkg-deb", "--extract", only("penstock_*.deb"), scratch], check=True)
    program = f"{scratch}/usr/bin/penstock"
    linked = output_of("readelf", "--wide", "--dynamic", "--program-headers", "--file-header", "--notes", program)
    for mark in ("DYN (Position-Independent Executable file)", "GNU_RELRO", "BIND_NOW", "Build ID"):
        assert mark in linked, f"{mark} is not in the program"
    assert re.search(r"GNU_STACK .* RW ", linked), "its stack is executable"
    symbols = output_of("readelf", "--wide", "--dyn-syms", program)
    assert "__stack_chk_fail" in symbols and "_chk@" in symbols, "it was compiled without checks"
    for folder in (os.fsencode(f"{ROOT}/src"), b"/build/deb/penstock-"):
        with open(program, "rb") as file:
            assert folder not in file.read(), f"it names the folder in which it was built: {folder}"


def files_of(package):
    """The files and links of a package, not its folders."""
    lines = output_of("dpkg-deb", "--contents", only(f"{package}_*.deb")).splitlines()
    return {line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")}


def library_contents(scratch):
    """What the packages of the library have: each file is in one of them, and the documents of penstock are not."""
    folder = f"/usr/lib/{output_of('dpkg-architecture', '-qDEB_HOST_MULTIARCH').strip()}"
    found = {package: {file for file in files_of(package) if not file.startswith(f"/usr/share/doc/{package}/")}
             for package in ("libpenstock1", "libpenstock-dev", "python3-penstock")}
    assert found["libpenstock1"] == {f"{folder}/libpenstock.so.1", f"{folder}/libpenstock.so.1.0.0"}, found
    headers = {f"/usr/{os.path.relpath(path, ROOT)}" for path in glob.glob(f"{ROOT}/include/penstock/**/*.h*", recursive=True)}
    assert headers | {f"{folder}/libpenstock.so", f"{folder}/pkgconfig/penstock.pc", "/usr/share/man/man3/libpenstock.3.gz",
                      f"{folder}/cmake/penstock/penstockConfig.cmake"} <= found["libpenstock-dev"], found
    examples = {os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/examples/*/*")
                if not path.endswith(("_test.py", "CMakeLists.txt"))}
    assert {file.split("libpenstock-dev/")[1] for file in files_of("libpenstock-dev") if "/examples/" in file} == examples, examples
    modules = {f"/usr/lib/python3/dist-packages/penstock/{os.path.basename(path)}" for path in glob.glob(f"{ROOT}/python/penstock/*.py")}
    assert modules | {"/usr/lib/python3/dist-packages/penstock/_native.abi3.so"} <= found["python3-penstock"], found
    for package in found:
        subprocess.run(["dpkg-deb", "--extract", only(f"{package}_*.deb"), scratch], check=True)
    linked = output_of("readelf", "--wide", "--dynamic", f"{scratch}{folder}/libpenstock.so.1")
    assert "Library soname: [libpenstock.so.1]" in linked and "BIND_NOW" in linked and "RUNPATH" not in linked, linked
    linked = output_of("readelf", "--wide", "--dynamic", f"{scratch}/usr/lib/python3/dist-packages/penstock/_native.abi3.so")
    assert "[libpenstock.so.1]" in linked and "RUNPATH" not in linked, linked
    depends = output_of("dpkg-deb", "--field", only("python3-penstock_*.deb"), "Depends")
    assert "libpenstock1 (>=" in depends and "python3-cffi-backend" in depends, depends
    assert "libpenstock" not in output_of("dpkg-deb", "--field", only("penstock_*.deb"), "Depends"), "the program is not linked statically"


def ceph_contents(scratch):
    """The module for CephFS is in a package of its own, which alone depends on Ceph's libraries. clean_system.sh loads it."""
    folder = f"/usr/lib/{output_of('dpkg-architecture', '-qDEB_HOST_MULTIARCH').strip()}/penstock"
    found = {file for file in files_of("penstock-ceph") if not file.startswith("/usr/share/doc/penstock-ceph/")}
    assert found == {f"{folder}/penstock-ceph.so"}, found
    only("penstock-ceph-dbgsym_*.deb")
    subprocess.run(["dpkg-deb", "--extract", only("penstock-ceph_*.deb"), scratch], check=True)
    linked = output_of("readelf", "--wide", "--dynamic", f"{scratch}{folder}/penstock-ceph.so")
    assert "[libcephfs.so.2]" in linked and "BIND_NOW" in linked and "RUNPATH" not in linked, linked
    names = output_of("nm", "--dynamic", "--defined-only", "--format=just-symbols", f"{scratch}{folder}/penstock-ceph.so").split()
    assert names == ["penstock_ceph_module"], names
    fields = {package: output_of("dpkg-deb", "--field", only(f"{package}_*.deb"), "Version", "Pre-Depends", "Depends", "Recommends")
              for package in PACKAGES}
    version = re.search("^Version: (.*)", fields["penstock"], re.M)[1]
    depends = fields["penstock-ceph"]
    assert f"penstock (= {version})" in depends and "libcephfs2" in depends and "librados2" in depends, depends
    for package in set(PACKAGES) - {"penstock-ceph"}:
        assert not re.search("ceph|rados", fields[package]), f"{package} needs Ceph: {fields[package]}"


def install(scratch):
    """`cmake --install` of a build folder, into a folder of the caller, and a program that is built with what lies there."""
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.environ["PENSTOCK"])))
    subprocess.run(["cmake", "--install", build, "--prefix", f"{scratch}/prefix"], stdout=subprocess.DEVNULL, check=True)
    found = {os.path.relpath(path, f"{scratch}/prefix") for path in glob.glob(f"{scratch}/prefix/**", recursive=True)}
    wanted = {"bin/penstock", "etc/penstock/penstock.toml", "share/man/man1/penstock.1", "share/man/man5/penstock-url.5",
              "share/bash-completion/completions/penstock", "share/zsh/site-functions/_penstock",
              "share/fish/vendor_completions.d/penstock.fish", "share/doc/penstock/README.md", "lib/systemd/system/penstock.service",
              "lib/systemd/system/penstock-tcp.socket", "share/doc/penstock/docs/limits.md", "lib/penstock/penstock-ceph.so"}
    assert wanted <= found, f"missing: {sorted(wanted - found)}"
    assert re.match(r"penstock \d+[.]\d+[.]\d+", output_of(f"{scratch}/prefix/bin/penstock", "--version"))
    config, = glob.glob(f"{scratch}/prefix/lib/**/penstock.pc", recursive=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", config], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    subprocess.run(["cc", "-o", f"{scratch}/copy_tree", f"{ROOT}/examples/library/copy_tree.c", *flags], check=True)


def reproducible(scratch):
    """A build in another folder makes the same packages, octet by octet."""
    first = [only(f"{package}_*.deb") for package in PACKAGES]
    first += [only(f"{package}-dbgsym_*.deb") for package in PACKAGES if package != "libpenstock-dev"]
    with open(f"{scratch}/log", "w") as log:
        subprocess.run([f"{ROOT}/scripts/make-deb"], env={**os.environ, "DEB_FOLDER": f"{scratch}/elsewhere"}, stdout=log, stderr=log,
                       check=True)
    for package in first:
        again = f"{scratch}/elsewhere/{os.path.basename(package)}"
        with open(package, "rb") as one, open(again, "rb") as other:
            assert one.read() == other.read(), f"{os.path.basename(package)} differs"


def clean_system(_):
    """Installs the package in a clean system of this host's release, uses it, also with the module for CephFS, removes and purges it."""
    run_in(host_codename(), f"{HERE}/clean_system.sh", [only("penstock_*.deb"), only("penstock-ceph_*.deb")], packages=["man-db"])


def library(_):
    """Builds the examples with what the packages install in a clean system, and runs them."""
    run_in(host_codename(), f"{HERE}/library.sh",
           [only(f"{package}_*.deb") for package in ("penstock", "libpenstock1", "libpenstock-dev", "python3-penstock")],
           packages=["gcc", "g++", "make", "cmake", "pkg-config", "libarchive-dev", "man-db", "python3-fsspec", "python3-pandas"])


def fsspec_suite(scratch):
    """fsspec's own tests for file systems, on what the packages install in a clean system. Debian 12's fsspec does not have them; this is
    Debian 13's, which is Python alone."""
    make("trixie", [], f"{scratch}/trixie", packages=["python3-fsspec"], variant="extract")
    packages = [only(f"{package}_*.deb") for package in ("penstock", "libpenstock1", "python3-penstock")]
    run_in(host_codename(), f"{HERE}/fsspec_suite.sh",
           [*packages, sources_archive(scratch), f"{scratch}/trixie/usr/lib/python3/dist-packages/fsspec"], packages=["python3-pytest"])


def container(scratch):
    """Builds the image of Containerfile on a clean system, and uses it as root and as a user who is not in it."""
    if not shutil.which("buildah"):
        raise cases.Skip("buildah is not installed: scripts/install-deps package")
    storage = ["--root", f"{scratch}/storage", "--runroot", f"{scratch}/run", "--storage-driver", "vfs"]
    isolated = ["--isolation", "chroot"]

    def buildah(*arguments, **how):
        return subprocess.run(["buildah", *storage, *arguments], check=True, stdout=subprocess.PIPE, text=True, **how).stdout.strip()

    make(host_codename(), [], f"{scratch}/base")
    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, f"{scratch}/base", "/")
    buildah("commit", "--quiet", base, "base")
    context = f"{scratch}/context"
    os.mkdir(context)
    subprocess.run(["tar", "-x", "-f", sources_archive(scratch), "-C", context], check=True)
    with open(f"{scratch}/log", "w") as log:
        built = subprocess.run(["buildah", *storage, "build", *isolated, "--network", "host", "--build-arg", "DEBIAN=localhost/base", "--tag",
                                "penstock", "--file", "Containerfile", context], stdout=log, stderr=log)
    if built.returncode != 0:
        with open(f"{scratch}/log") as log:
            print(*log.readlines()[-60:], sep="")
    assert built.returncode == 0, "the image is not built"
    shown = json.loads(buildah("inspect", "--type", "image", "penstock"))["OCIv1"]["config"]
    assert shown["Entrypoint"] == ["penstock"], shown
    assert {"2049/tcp", "20049/tcp", "20048/tcp", "20048/udp"} <= set(shown["ExposedPorts"]), shown
    assert shown["Cmd"] == ["serve", "/export"], shown
    # The volumes of the image hide folders of the host in this isolation, and belong to root.
    for user, served in (("0:0", "/export"), ("4711:4711", "/served")):
        folder = f"{scratch}/served-{user.split(':')[0]}"
        os.mkdir(folder)
        os.chown(folder, *map(int, user.split(":")))
        container = buildah("from", "penstock")
        # The image's ports belong to nobody else in a namespace of their own.
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        subprocess.run([*alone, "buildah", *storage, "run", *isolated, "--user", user, "--volume", f"{folder}:/served", "--volume",
                        f"{HERE}:/test:ro", container, "sh", "/test/container.sh", served], check=True)


cases.main({"lintian": lintian, "contents": contents, "library_contents": library_contents, "ceph_contents": ceph_contents,
            "install": install, "reproducible": reproducible, "clean_system": clean_system, "library": library, "fsspec_suite": fsspec_suite,
            "container": container})
