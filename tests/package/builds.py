"""Builds in clean systems: for 64-bit ARM, and with the compilers of other releases of Debian."""

import os

from debian import cases, run_in, sources_archive

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = ["cmake", "ninja-build", "pkg-config", "python3", "python3-lark", "python3-jinja2", "libasio-dev", "libcli11-dev",
         "libtomlplusplus-dev", "nlohmann-json3-dev"]
LIBRARIES = ["libfmt-dev", "libfuse3-dev", "libedit-dev", "libsqlite3-dev", "libibverbs-dev", "librdmacm-dev", "libkrb5-dev", "libssl-dev", "libsystemd-dev",
             "libmicrohttpd-dev", "prometheus-cpp-dev", "systemtap-sdt-dev"]
TESTS = ["libgtest-dev", "libgmock-dev", "libarchive-dev"]


def arm64(scratch):
    packages = ["g++-aarch64-linux-gnu", "qemu-user", *TOOLS, *(f"{library}:arm64" for library in LIBRARIES + TESTS)]
    run_in("bookworm", f"{HERE}/arm64.sh", [sources_archive(scratch)], packages=packages, architectures="amd64,arm64")


def bookworm(scratch):
    """clang-19 is the first clang that compiles std::expected of libstdc++."""
    run_in("bookworm", f"{HERE}/compilers.sh", [sources_archive(scratch)], packages=["g++", "clang-19", "lld-19", *TOOLS, *LIBRARIES],
           environment={"COMPILERS": "g++ clang++-19"})


def trixie(scratch):
    run_in("trixie", f"{HERE}/compilers.sh", [sources_archive(scratch)], packages=["g++", "clang", "lld", *TOOLS, *LIBRARIES],
           environment={"COMPILERS": "g++ clang++"})


cases.main({"arm64": arm64, "bookworm": bookworm, "trixie": trixie})
