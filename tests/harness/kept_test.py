#!/usr/bin/python3
"""Tests that several processes share files that are made once, also if some are killed meanwhile."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from kept import kept  # noqa: E402

# Makes a file slowly, reports it, and reports the file that it found.
MAKER = f"""
import sys, time; sys.path.insert(0, {HERE!r})
from kept import kept
def make(path):
    with open(path, "w") as out:
        out.write("half,")
        out.flush()
        print("making", flush=True)
        time.sleep(float(sys.argv[2]))
        out.write("whole")
print("found", open(kept(sys.argv[1], make)).read(), flush=True)
"""


def maker(path, seconds):
    return subprocess.Popen([sys.executable, "-B", "-c", MAKER, path, str(seconds)], stdout=subprocess.PIPE, text=True)


class KeptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.path = folder.name, f"{folder.name}/thing"

    def test_one_process_makes_the_file_and_the_others_wait(self):
        said = [process.communicate()[0] for process in [maker(self.path, 0.3) for _ in range(3)]]
        self.assertEqual("".join(said).splitlines().count("making"), 1)
        for each in said:
            self.assertIn("found half,whole", each)

    def test_ignores_the_unfinished_file_of_a_killed_process(self):
        process = maker(self.path, 60)
        self.assertEqual(process.stdout.readline(), "making\n")
        process.kill()
        process.communicate()
        self.assertFalse(os.path.exists(self.path))
        self.assertIn("found half,whole", maker(self.path, 0).communicate()[0])
        self.assertEqual(sorted(os.listdir(self.folder)), ["locks", "thing"])

    def test_retries_after_a_failure(self):
        def fail(path):
            with open(path, "w"):
                raise RuntimeError("no")

        with self.assertRaises(RuntimeError):
            kept(self.path, fail)
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(kept(self.path, os.mkdir), self.path)
        self.assertTrue(os.path.isdir(self.path))

    def test_a_kept_folder_may_need_another_one(self):
        def make(path):
            os.mkdir(path)
            kept(f"{self.folder}/part", lambda part: os.mkdir(part))

        kept(self.path, make)
        self.assertTrue(os.path.isdir(f"{self.folder}/part"))


if __name__ == "__main__":
    unittest.main()
