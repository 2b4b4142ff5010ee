# Builds for 64-bit ARM with Debian's cross compiler, g++-aarch64-linux-gnu, and runs tests in QEMU's emulation of a process. It needs the
# libraries' packages of the architecture arm64: tests/package/arm64.py installs all of it in a clean system.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
