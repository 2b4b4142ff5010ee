#!/usr/bin/python3
"""fsspec's own tests for file systems (fsspec.tests.abstract), on nfs:// URLs. They are part of fsspec since 2023.5, with pytest."""

import sys
import tempfile

from served import SKIPPED, Export

try:
    import pytest
    from fsspec.tests import abstract
except ImportError as why:
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)

from penstock.filesystem import NfsFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class", params=[("tcp", "4.1"), ("tcp", "3"), ("rdma", "4.2")], ids="-".join)
    def served(self, request):
        with Export() as export:
            options = NfsFileSystem._get_kwargs_from_urls(export.url("/", *request.param))
            fs = NfsFileSystem(auto_mkdir=True, **options)
            yield fs
            fs.close()

    @pytest.fixture
    def fs(self, served):
        return served

    @pytest.fixture
    def fs_path(self):
        return "/export"


def suites():
    """Makes a class of tests from each of fsspec's."""
    for name in dir(abstract):
        suite = getattr(abstract, name)
        if isinstance(suite, type) and name.startswith("Abstract") and name.endswith("Tests"):
            yield f"Test{name[len('Abstract'):]}", type(name, (suite, Fixtures), {})


globals().update(suites())

if __name__ == "__main__":
    # A folder of its own: pytest removes old ones of its usual folder, also while another run uses them.
    with tempfile.TemporaryDirectory(prefix="penstock-fsspec-") as folder:
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-o", "python_files=*_test.py", f"--basetemp={folder}/tests", __file__,
                              *sys.argv[1:]]))
