#!/usr/bin/env python3
"""Tests that the checker of docs/conformance.toml finds each kind of problem."""
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

    def find(self, *entries, programs=("e2e.rdma",), units=(("m.S.Case", True),)):
        return list(conformance.problems(entries, self.root, set(programs), dict(units)))

    def test_accepts_a_good_entry(self):
        self.assertEqual(self.find(entry()), [])

    def test_reports_missing_code(self):
        self.assertTrue(self.find(entry(code=["b.h:Good"])))
        self.assertTrue(self.find(entry(code=["a.h:Goo"])))
        self.assertTrue(self.find(entry(code=[])))

    def test_reports_a_missing_test(self):
        self.assertTrue(self.find(entry(), units=()))
        self.assertTrue(self.find(entry(test=[])))
        self.assertTrue(self.find(entry(test=["m.S.Case", "m.S.Other"])))

    def test_reports_a_failed_test(self):
        self.assertTrue(self.find(entry(), units=[("m.S.Case", False)]))

    def test_accepts_a_test_that_is_a_program(self):
        self.assertEqual(self.find(entry(test=["e2e.rdma"])), [])
        self.assertTrue(self.find(entry(test=["e2e.tcp"])))

    def test_an_exception_excuses_a_missing_test(self):
        self.assertEqual(self.find(entry(test=[], exception="nobody can see it")), [])

    def test_reports_doubled_ids_and_unknown_fields(self):
        self.assertTrue(self.find(entry(), entry()))
        self.assertTrue(self.find(entry(colour="blue")))
        self.assertTrue(self.find(entry(level="PERHAPS")))


class Results(unittest.TestCase):
    def test_reads_the_results_of_a_module_with_a_slash(self):
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / "results" / "a" / "m.unit2.xml"
            result.parent.mkdir(parents=True)
            result.write_text('<testsuites><testsuite><testcase name="Case/1" status="run" classname="All/S"/>'
                              '<testcase name="Case/2" status="notrun" classname="All/S"/>'
                              '<testcase name="Case/3" status="run" classname="All/S"><skipped/></testcase>'
                              '<testcase name="Case/4" status="run" classname="All/S"><failure/></testcase>'
                              '</testsuite></testsuites>')
            self.assertEqual(conformance.unit_results(pathlib.Path(folder)),
                             {"a/m.All/S.Case/1": True, "a/m.All/S.Case/2": False, "a/m.All/S.Case/3": False,
                              "a/m.All/S.Case/4": False})


if __name__ == "__main__":
    unittest.main()
