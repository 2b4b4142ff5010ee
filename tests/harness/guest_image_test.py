#!/usr/bin/python3
"""Tests the choice of the guest's kernel, and the download of its packages."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import guest_image  # noqa: E402
from guest_image import GuestUnavailable, choose_release  # noqa: E402

SOURCE = "6.1.192-2"


def quietly(function, *arguments):
    """Returns the function's result and its output."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return function(*arguments), said.getvalue()


class ReleaseTest(unittest.TestCase):
    def choose(self, headers, images=None):
        return quietly(choose_release, headers, SOURCE, lambda release: images is None or release in images)[0]

    def test_does_not_choose_a_backport(self):
        self.assertEqual(self.choose({"6.1.0-56-amd64": SOURCE, "6.12.9+bpo-amd64": "6.12.9-1~bpo12+1",
                                      "6.10.11+bpo-amd64": "6.10.11-1~bpo12+1", "6.1.0-56-rt-amd64": SOURCE,
                                      "6.1.0-57-cloud-amd64": "6.1.195-1"}), "6.1.0-56-amd64")

    def test_compares_releases_by_number(self):
        versions = {"6.1.0-9-amd64": None, "6.1.0-56-amd64": None, "6.1.0-10-amd64": None}
        self.assertEqual(self.choose(versions), "6.1.0-56-amd64")

    def test_prefers_the_version_of_the_source(self):
        self.assertEqual(self.choose({"6.1.0-56-amd64": SOURCE, "6.1.0-57-amd64": "6.1.195-1"}), "6.1.0-56-amd64")

    def test_skips_a_kernel_without_an_image(self):
        headers = {"6.1.0-56-amd64": "6.1.190-1", "6.1.0-57-amd64": "6.1.195-1"}
        self.assertEqual(self.choose(headers, images=["6.1.0-56-amd64"]), "6.1.0-56-amd64")

    def test_chooses_a_release_even_if_no_image_is_available(self):
        self.assertEqual(self.choose({"6.1.0-56-amd64": SOURCE, "6.1.0-55-amd64": "6.1.190-1"}, images=[]), "6.1.0-56-amd64")

    def test_prints_a_version_that_differs_from_the_source(self):
        release, said = quietly(choose_release, {"6.1.0-57-amd64": "6.1.195-1"}, SOURCE, lambda _: True)
        self.assertEqual(release, "6.1.0-57-amd64")
        self.assertIn(SOURCE, said)
        self.assertIn("6.1.195-1", said)

    def test_names_the_missing_package_of_headers(self):
        with self.assertRaisesRegex(GuestUnavailable, r"linux-headers-amd64.*only those of 6\.12\.9\+bpo-amd64"):
            self.choose({"6.12.9+bpo-amd64": None})
        with self.assertRaisesRegex(GuestUnavailable, "linux-headers-amd64"):
            self.choose({})


# Fails so many times, as apt-get does while another one renews the lists, and then succeeds.
APT_GET = """#!/bin/sh
echo "$@" >>%(log)s
[ $(wc -l <%(log)s) -gt %(failures)d ] || { echo "E: Unable to locate package $2"; exit 100; }
: >$2_1_amd64.deb
"""


class DownloadTest(unittest.TestCase):
    def download(self, failures):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.mkdir(f"{folder.name}/bin")
        os.mkdir(f"{folder.name}/target")
        self.log = f"{folder.name}/log"
        with open(f"{folder.name}/bin/apt-get", "w") as script:
            script.write(APT_GET % {"log": self.log, "failures": failures})
        os.chmod(f"{folder.name}/bin/apt-get", 0o755)
        with mock.patch.dict(os.environ, PATH=f"{folder.name}/bin:{os.environ['PATH']}"), \
                mock.patch.object(guest_image, "PAUSE_SECONDS", 0):
            path, said = quietly(guest_image.download, "some-package", f"{folder.name}/target")
        return os.path.relpath(path, folder.name), said

    def test_retries_a_failed_download_and_prints_it(self):
        path, said = self.download(failures=2)
        self.assertEqual(path, "target/some-package_1_amd64.deb")
        self.assertEqual(said.count("Unable to locate package some-package"), 2)
        self.assertIn("attempt 1 of", said)

    def test_the_error_after_the_last_attempt_names_apt_get_update(self):
        with self.assertRaisesRegex(RuntimeError, "some-package.*apt-get update"):
            self.download(failures=1000)
        with open(self.log) as log:
            self.assertEqual(len(log.readlines()), guest_image.ATTEMPTS)


if __name__ == "__main__":
    unittest.main()
