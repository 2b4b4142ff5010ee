#!/usr/bin/python3
"""Writes a table to an NFS server and reads it again, by an nfs:// URL: with pandas if it is installed, otherwise with csv.

    pandas_or_plain.py nfs://server/export/table.csv"""

import csv
import importlib.util
import sys

import fsspec  # finds penstock.NfsFileSystem for nfs:// by itself

ROWS = [("Amsterdam", 0.9), ("Oslo", 0.7), ("Zürich", 0.4)]


def with_pandas(url):
    import pandas

    # pandas takes nfs:// URLs for its own, which it opens by urllib. So it gets files.
    with fsspec.open(url, "w", newline="") as file:
        pandas.DataFrame(ROWS, columns=["city", "millions"]).to_csv(file, index=False)
    with fsspec.open(url) as file:
        table = pandas.read_csv(file)
    return float(table.millions.sum())


def with_csv(url):
    with fsspec.open(url, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["city", "millions"])
        writer.writerows(ROWS)
    with fsspec.open(url, "r", newline="") as file:
        return sum(float(row["millions"]) for row in csv.DictReader(file))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    [url] = sys.argv[1:]
    has_pandas = importlib.util.find_spec("pandas") is not None
    total = with_pandas(url) if has_pandas else with_csv(url)
    print(f"{total:.1f} million people, by {'pandas' if has_pandas else 'csv'}")


if __name__ == "__main__":
    main()
