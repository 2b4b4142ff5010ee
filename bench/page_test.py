#!/usr/bin/python3
"""Tests the page about performance that bench/page makes of the results of a run."""

import copy
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import plots  # noqa: E402
import report  # noqa: E402

loader = importlib.machinery.SourceFileLoader("page", f"{HERE}/page")
page = importlib.util.module_from_spec(importlib.util.spec_from_loader("page", loader))
loader.exec_module(page)

KEYS = (*report.LARGE, *report.SMALL_ONE, *report.SMALL_MANY, *report.OF_NAMES)
VERSIONS = "3", "4.0", "4.1", "4.2"


def measured(rates, keys=KEYS):
    return {key: {"per_second": rates, "client_cpu_us": [3.0, 3.0, 3.0], "server_cpu_us": [4.0, 4.0, 4.0]} for key in keys}


def results():
    """A run with all parts. Penstock over TCP is twice as fast as one iperf3 stream, and nfs-ganesha half as fast."""
    return copy.deepcopy({
        "facts": {"when": "2026-01-02", "rounds": 3, "seconds": 0.5, "file_mib": 64, "processors": 2, "model": "a processor", "memory_gib": 7, "kernel": "9.9",
                  "file_system": "tmpfs", "programs": {"Penstock": "penstock 1"}},
        "limits": {"iperf3": {"mib_per_second": [100.0, 100.0, 100.0]}, "ping-pong": {"per_second": [50.0, 50.0, 50.0], "cpu_us": [1.0, 1.0, 1.0]},
                   "memcpy": {"mib_per_second": [900.0, 1000.0, 1100.0]}, "pread": {"mib_per_second": [5.0, 5.0, 5.0]}},
        "ways": {way: {version: measured(rates) for version in VERSIONS} for way, rates in {
            report.TCP: [200.0, 200.0, 200.0], report.GANESHA: [50.0, 50.0, 50.0], "Penstock, iWARP": [100.0, 300.0, 500.0]}.items()},
        "looking": {version: measured([20.0, 20.0, 20.0], report.LOOKS) for version in VERSIONS},
        "libnfs": {server: measured([100.0, 100.0, 100.0], KEYS[:12]) for server in ("Penstock", "nfs-ganesha")},
        "guest": {"kernel": "6.1", "is_emulated": False, "rates": {version: {
            "knfsd": {"write 1 MiB": [10.0, 10.0, 10.0], "stat": [4.0, 4.0, 4.0]},
            "Penstock": {"write 1 MiB": [15.0, 15.0, 15.0], "stat": [1.0, 1.0, 1.0]}} for version in ("3 tcp", "4.2 rdma")}},
        "costs": {"measured": {"3 tcp null 32": {"instructions": 1234, "system calls": 1.5, "allocations": 0, "locks": 2}},
                  "budget": {"3 tcp null 32": {"instructions": 1300}}},
        "left_out": {}})


def text_of(run):
    return report.files_of(run)[report.PAGE]


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


class PageTest(unittest.TestCase):
    def test_a_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds(self):
        # The medians are 10 and 4. The ratios of the rounds are 1, 2.5 and 5; their quartiles are 1.75 and 3.75.
        value, spread = report.ratio([10, 10, 10], [10, 4, 2])
        self.assertEqual((value, spread), (2.5, 1.0))

    def test_large_operations_are_compared_with_iperf3_and_others_with_the_ping_pong(self):
        text = text_of(results())
        self.assertIn("| 3 | Penstock, TCP | 200 (2.00 ±0.00) | 4.00 |", section(text, "Large READs and WRITEs"))
        self.assertIn("| 3 | Penstock, TCP | 200 (4.00 ±0.00) | 4.00 |", section(text, "Small operations"))
        self.assertIn("| 4.1 | Penstock, iWARP | 300 (6.00 ±2.00) | 4.00 |", section(text, "Names"))

    def test_each_comparison_has_the_other_side_first(self):
        text = text_of(results())
        self.assertIn("| 4.2 | READ 1 MiB, depth 8 | 50.0 | 4.00 ±0.00 | 4.00 | 1.00 ±0.00 |", section(text, "Beside nfs-ganesha"))
        self.assertIn("| 4.2 | READDIR, depth 16 | 20.0 | 10.00 ±0.00 | 4.00 | 1.00 ±0.00 |", section(text, "Beside nfs-ganesha"))
        self.assertIn("| Penstock | NULL, depth 1 | 200 | 0.50 ±0.00 | 3.00 | 1.00 ±0.00 |", section(text, "libnfs as the client"))
        self.assertIn("| nfs-ganesha | NULL, depth 1 | 50.0 | 2.00 ±0.00 | 3.00 | 1.00 ±0.00 |", section(text, "libnfs as the client"))
        self.assertIn("| what | version 3, TCP: knfsd | Penstock, ratio | version 4.2, iWARP: knfsd | Penstock, ratio |", section(text, "The kernel's client"))
        self.assertIn("| write 1 MiB | 10.0 MiB/s | 1.50 ±0.00 | 10.0 MiB/s | 1.50 ±0.00 |", section(text, "The kernel's client"))
        self.assertIn("| stat | 4.00 /s | 0.25 ±0.00 |", section(text, "The kernel's client"))
        self.assertIn("| 3 | TCP | NULL | 32 | 1,234 | 1,300 | 1.50 | 0.00 | 2.00 |", section(text, "What one operation costs the server"))

    def test_a_part_that_is_left_out_is_named_with_its_reason(self):
        for part, title in {"limits": "The limits of the machine", "penstock": "Small operations", "ganesha": "Beside nfs-ganesha",
                            "libnfs": "libnfs as the client", "guest": "The kernel's client", "costs": "What one operation costs the server"}.items():
            with self.subTest(part):
                run = results()
                run["left_out"][part] = "a good reason"
                for name in {"penstock": ("ways",), "ganesha": ("looking",)}.get(part, (part,)):
                    del run[name]
                if part == "ganesha":
                    del run["ways"][report.GANESHA], run["libnfs"]["nfs-ganesha"]
                text = text_of(run)
                self.assertIn(f"Left out: `{part}`: a good reason.", section(text, "The machine and the programs"))
                self.assertIn(f"**Left out.** This run did not have the part `{part}`: a good reason.", section(text, title))
                self.assertNotIn("|", section(text, title))

    def test_a_run_with_one_part_has_a_page(self):
        run = {"facts": results()["facts"], "limits": results()["limits"],
               "left_out": {part: "not asked for" for part in ("penstock", "ganesha", "libnfs", "guest", "costs")}}
        files = report.files_of(run)
        self.assertEqual(set(files), {report.PAGE, report.DATA})
        self.assertIn("| memcpy | one copy of as many octets as the file has | 1,000 MiB/s | ±5 % |", files[report.PAGE])

    def test_an_emulated_guest_is_named_as_such(self):
        run = results()
        self.assertNotIn("emulated", text_of(run))
        run["guest"]["is_emulated"] = True
        self.assertIn("QEMU emulated the processors of this guest", section(text_of(run), "The kernel's client"))

    def test_the_page_shows_each_plot_with_a_sentence(self):
        files = report.files_of(results())
        shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)\n\nEach bar is [^\n]+\.\n", files[report.PAGE])
        self.assertEqual(sorted(shown), sorted(path for path in files if path.endswith(".svg")))
        self.assertEqual(len(shown), 8)

    def test_the_text_has_no_number_of_a_run(self):
        """The sentences hold whatever the numbers are: those of another run are the same."""
        def sentences(run):
            return [line for line in text_of(run).splitlines() if line and not line.startswith("|")]

        other = results()
        for versions in other["ways"].values():
            for version in versions:
                versions[version] = measured([7.0, 70.0, 700.0])
        other["limits"]["iperf3"]["mib_per_second"] = [1.0, 2.0, 3.0]
        self.assertEqual(sentences(other), sentences(results()))

    def test_the_stored_results_give_the_page_again(self):
        files = report.files_of(results())
        self.assertEqual(report.files_of(json.loads(files[report.DATA])), files)


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.docs = pathlib.Path(self.folder.name)
        self.files = report.files_of(results())
        page.write(self.files, self.docs)

    def tearDown(self):
        self.folder.cleanup()

    def test_what_was_written_agrees(self):
        self.assertEqual(page.differences(self.files, self.docs), [])

    def test_notices_a_number_that_was_changed_by_hand(self):
        text = (self.docs / report.PAGE).read_text()
        (self.docs / report.PAGE).write_text(text.replace("2.00 ±0.00", "2.01 ±0.00", 1))
        self.assertEqual(page.differences(self.files, self.docs), ["performance.md is not what the stored results give"])

    def test_notices_a_plot_that_is_missing_and_one_too_many(self):
        (self.docs / "plots/performance-large.svg").rename(self.docs / "plots/performance-old.svg")
        self.assertEqual(page.differences(self.files, self.docs),
                         ["plots/performance-large.svg is missing", "plots/performance-old.svg does not belong to the page"])

    def test_a_new_page_removes_plots_that_it_does_not_have_and_no_others(self):
        (self.docs / "plots/performance-old.svg").write_text("old")
        (self.docs / "plots/state.svg").write_text("another page's")
        page.write(self.files, self.docs)
        self.assertFalse((self.docs / "plots/performance-old.svg").exists())
        self.assertTrue((self.docs / "plots/state.svg").exists())


class BarsTest(unittest.TestCase):
    def rectangles(self, image):
        tag = "{http://www.w3.org/2000/svg}rect"
        return [each for each in ElementTree.fromstring(image).iter(tag) if "x" in each.attrib]

    def test_a_bar_is_as_long_as_its_value(self):
        bars = self.rectangles(plots.bars("a title", "x < y", {"one": {"first": (1.0, 0.1), "second": (3.0, 0.0)}, "two": {"second": (1.5, 0.0)}}))
        widths = [float(bar.get("width")) for bar in bars]
        self.assertEqual(len(widths), 3)
        self.assertAlmostEqual(widths[1] / widths[0], 3, places=2)
        self.assertAlmostEqual(widths[2] / widths[0], 1.5, places=2)

    def test_a_name_has_one_color_in_all_groups(self):
        first, second, again = self.rectangles(plots.bars("t", "x", {"one": {"a": (1, 0), "b": (1, 0)}, "two": {"b": (1, 0)}}))
        self.assertEqual(second.get("fill"), again.get("fill"))
        self.assertNotEqual(first.get("fill"), second.get("fill"))

    def test_the_axis_ends_beyond_the_largest_value_with_its_spread(self):
        for largest in (0.0031, 0.9, 1.0, 1.01, 7.3, 42000.0):
            with self.subTest(largest):
                image = plots.bars("t", "x", {"one": {"a": (largest, largest / 2)}})
                (bar,) = self.rectangles(image)
                self.assertLessEqual(float(bar.get("width")) * 1.5, plots.WIDTH + 0.2)


if __name__ == "__main__":
    unittest.main()
