# Builds for 64-bit ARM with Debian's cross compiler, g++-aarch64-linux-gnu, and runs tests in QEMU's emulation of a process. It needs the
# libraries' packages of the architecture arm64: tests/package/arm64.sh runs where all of it is installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# pkg-config describes the libraries of this host otherwise.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
