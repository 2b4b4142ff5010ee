#!/usr/bin/env python3
"""The checker of docs/conformance.toml finds what it is there to find."""
import pathlib
import tempfile
import unittest

import conformance


def entry(**changes):
    good = {"id": "x-1", "section": "RFC 1 §2", "level": "MUST", "text": "be good", "code": ["a.h:Good"], "test": ["m.S.Case"]}
    return good | changes


class Problems(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "a.h").write_text("class Good {};")

    def tearDown(self):
        self.folder.cleanup()

    def find(self, *entries, known=("m.S.Case",), ran=(("m", "S.Case"),)):
        return list(conformance.problems(entries, self.root, set(known), set(ran)))

    def test_a_good_entry_has_none(self):
        self.assertEqual(self.find(entry()), [])

    def test_missing_code(self):
        self.assertTrue(self.find(entry(code=["b.h:Good"])))
        self.assertTrue(self.find(entry(code=["a.h:Goo"])))
        self.assertTrue(self.find(entry(code=[])))

    def test_missing_test(self):
        self.assertTrue(self.find(entry(), known=()))
        self.assertTrue(self.find(entry(test=[])))

    def test_a_test_that_did_not_run(self):
        self.assertTrue(self.find(entry(), ran=()))

    def test_an_exception_excuses_a_missing_test(self):
        self.assertEqual(self.find(entry(test=[], exception="nobody can see it")), [])

    def test_doubled_ids_and_unknown_fields(self):
        self.assertTrue(self.find(entry(), entry()))
        self.assertTrue(self.find(entry(colour="blue")))
        self.assertTrue(self.find(entry(level="PERHAPS")))


class Names(unittest.TestCase):
    def test_a_case_with_a_parameter(self):
        command = ["m_test", "--gtest_filter=All/S.Case/1", "--gtest_also_run_disabled_tests"]
        for shown in ("/(false, 128)", "/1  # GetParam() = one", "/1"):
            self.assertEqual(conformance.ctest_name({"name": "a/m.All/S.Case" + shown, "command": command}), "a/m.All/S.Case/1")

    def test_what_is_no_unit_test(self):
        self.assertEqual(conformance.ctest_name({"name": "e2e.rdma", "command": ["python3", "e2e.py", "rdma"]}), "e2e.rdma")
        self.assertEqual(conformance.ctest_name({"name": "a.B_NOT_BUILT"}), "a.B_NOT_BUILT")

    def test_results_of_a_module_with_a_slash(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            result = build / "results" / "a_m_test" / "a" / "m.All" / "S.Case" / "1.xml"
            result.parent.mkdir(parents=True)
            result.write_text('<testsuites><testsuite><testcase name="Case/1" status="run" classname="All/S"/>'
                              '<testcase name="Case/2" status="notrun" classname="All/S"/></testsuite></testsuites>')
            self.assertEqual(conformance.tests_that_ran(build), {("a_m", "All/S.Case/1")})


if __name__ == "__main__":
    unittest.main()
