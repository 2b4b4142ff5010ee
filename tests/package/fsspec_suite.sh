# Runs in a clean system, as root, with packages, sources and a newer fsspec in /test: fsspec's own tests for file systems, on what the
# packages install. If that fsspec had no tests, the script would end with another status than zero.
apt-get install -y --no-install-recommends /test/*.deb
mkdir /src
tar -xf /test/sources.tar -C /src
cd /src
PENSTOCK=/usr/bin/penstock PYTHONPATH=/test python3 -B python/tests/fsspec_suite_test.py
