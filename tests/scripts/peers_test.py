#!/usr/bin/env python3
"""Scripts that compare programs in turns have one command line: what they run, then flags, of which --rounds is one of all."""
import pathlib
import subprocess
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
ONE_PROCESS = "processes.py"  # of bench/peers: one process of a launch, which bench/process_peers.py starts


def scripts():
    peers = [path for path in BENCH.glob("peers/*.py") if path.name != ONE_PROCESS]
    return [path for path in sorted(peers + list(BENCH.glob("*.py"))) if path.read_text().startswith("#!")]


class Peers(unittest.TestCase):
    def test_every_script_takes_rounds_as_a_flag(self):
        self.assertGreater(len(scripts()), 12)
        for script in scripts():
            done = subprocess.run([sys.executable, "-B", script, "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{script}: {done.stderr}")
            self.assertRegex(done.stdout, r"\[--rounds ROUNDS\]", script)


if __name__ == "__main__":
    unittest.main()
