#!/usr/bin/python3
"""The parts of the Python module that need no server."""

import os
import re
import subprocess
import sys
import unittest

from served import main, penstock

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(PYTHON)


class Header(unittest.TestCase):
    """The declarations that the module is built from are those of the header."""

    @classmethod
    def setUpClass(cls):
        sys.dont_write_bytecode = True
        import build_ffi
        cls.builder = build_ffi
        cls.header = build_ffi.read_header(build_ffi.include_directory())
        with open(os.path.join(build_ffi.include_directory(), "penstock", "penstock.h"), encoding="utf-8") as file:
            cls.text = file.read()

    def test_every_function_is_declared(self):
        marked = re.findall(r"^PENSTOCK_API [^;]*?(penstock_\w+)\(", self.text, re.MULTILINE)
        self.assertGreater(len(marked), 40)
        self.assertEqual(marked, [name for _, name, _ in self.header.functions])
        from penstock._native import lib
        for name in marked:
            self.assertTrue(hasattr(lib, name), name)

    def test_every_operation_has_a_function_that_waits(self):
        from penstock._native import lib
        waiting = re.findall(r"(penstock_\w+)\([^()]*const penstock_call ?\* ?call\);", self.text)
        self.assertEqual(waiting, [name for name, _ in self.header.operations])
        for name in waiting:
            self.assertTrue(hasattr(lib, "penstock_py_" + name[len("penstock_"):]), name)

    def test_every_structure_can_be_initialized(self):
        from penstock._native import ffi, lib
        self.assertGreaterEqual(len(self.header.initial), 9)
        for macro in self.header.initial:
            kind = self.builder.initial_type(macro)
            value = ffi.new(f"{kind} *")
            getattr(lib, f"penstock_py_initialize_{kind}")(value)
            self.assertEqual(value.size, ffi.sizeof(kind), kind)

    def test_a_function_in_an_unknown_form_is_refused(self):
        with self.assertRaises(AssertionError):
            self.builder.Header(self.text + "PENSTOCK_API int (*penstock_strange(void))(int);\n")


class Package(unittest.TestCase):
    def test_the_version_is_that_of_the_project(self):
        with open(os.path.join(PYTHON, "pyproject.toml"), encoding="utf-8") as file:
            mine = re.search(r'^version = "(.*)"$', file.read(), re.MULTILINE).group(1)
        with open(os.path.join(PYTHON, "..", "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertEqual(mine, re.search(r"project\(penstock VERSION (\S+)", file.read()).group(1))

    def test_the_library_tells_its_version(self):
        self.assertRegex(penstock.version(), r"^\d+\.\d+")

    def test_fsspec_is_not_imported_by_programs_that_do_without_it(self):
        code = "import sys, penstock; sys.exit('fsspec' in sys.modules or 'asyncio' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-B", "-c", code]).returncode, 0)


class Runtimes(unittest.TestCase):
    def test_options_are_checked(self):
        for options in ({"threads": 0}, {"threads": -1}, {"threads": 2**40}, {"blocking_threads": -1}):
            with self.assertRaises(ValueError, msg=options):
                penstock.Runtime(**options)
        for options in ({"threads": 257}, {"blocking_threads": 3}, {"rdma": "smoke signals"}):
            with self.assertRaises(OSError, msg=options) as caught:
                penstock.Runtime(**options)
            self.assertEqual(caught.exception.errno, 22)
            self.assertTrue(caught.exception.strerror)

    def test_a_closed_runtime_says_so(self):
        with penstock.Runtime(threads=2) as runtime:
            self.assertFalse(runtime.closed)
        self.assertTrue(runtime.closed)
        runtime.close()
        with self.assertRaisesRegex(ValueError, "closed runtime"):
            penstock.connect("nfs://127.0.0.1/", runtime=runtime)


class Addresses(unittest.TestCase):
    def test_wrong_urls_are_refused(self):
        for url in ("", "nfs:/x", "http://127.0.0.1/", "nfs://127.0.0.1/?vers=5", "nfs://127.0.0.1/?nothing=1"):
            with self.assertRaises(OSError, msg=url) as caught:
                penstock.connect(url)
            self.assertEqual((caught.exception.errno, caught.exception.filename), (22, url))
        with self.assertRaises(ValueError):
            penstock.connect("nfs://127.0.0.1/\0")

    def test_a_server_that_is_not_there_refuses(self):
        with self.assertRaises(ConnectionRefusedError):
            penstock.connect("nfs://127.0.0.1:1/?vers=4.1", timeout=60)


class Modes(unittest.TestCase):
    def test_modes_are_those_of_open(self):
        from penstock.calls import check_mode, mode_flags
        for mode in ("", "rw", "rr", "b", "rbt", "q", "r+w", "+"):
            with self.assertRaises(ValueError, msg=mode):
                check_mode(mode)
        self.assertEqual(check_mode("w+b"), ("w+", True))
        self.assertEqual(check_mode("rt"), ("r", False))
        kept = os.O_CLOEXEC
        self.assertEqual(mode_flags("r"), (os.O_RDONLY | kept, True, False, False))
        self.assertEqual(mode_flags("r+"), (os.O_RDWR | kept, True, True, False))
        self.assertEqual(mode_flags("w"), (os.O_WRONLY | os.O_CREAT | os.O_TRUNC | kept, False, True, False))
        self.assertEqual(mode_flags("x+"), (os.O_RDWR | os.O_CREAT | os.O_EXCL | kept, True, True, False))
        self.assertEqual(mode_flags("a"), (os.O_WRONLY | os.O_CREAT | kept, False, True, True))


if __name__ == "__main__":
    main()
