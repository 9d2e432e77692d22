#!/usr/bin/env python3
"""docs/python.md lists the libraries that the wheel brings."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Libraries(unittest.TestCase):
    def test_the_page_lists_what_the_wheel_brings(self):
        done = subprocess.run([ROOT / "scripts/wheel", "--libraries"], capture_output=True, text=True, check=True)
        rows = re.findall(r"^\| [^|]+ \| (lib\S+\.so[^|]*) \|$", (ROOT / "docs/python.md").read_text(), re.MULTILINE)
        self.assertEqual(sorted(name for row in rows for name in row.split(", ")), sorted(done.stdout.split()))


if __name__ == "__main__":
    unittest.main()
