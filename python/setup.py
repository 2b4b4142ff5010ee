"""Builds the package: one extension module for all versions of Python from 3.9 on. pyproject.toml has the rest."""

import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # setup.py runs build_ffi.py as a file, also from elsewhere

setup(packages=["penstock"], cffi_modules=["build_ffi.py:ffibuilder"], options={"bdist_wheel": {"py_limited_api": "cp39"}},
      zip_safe=False)
