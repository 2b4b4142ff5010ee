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


if __name__ == "__main__":
    unittest.main()
