#!/usr/bin/env python3
"""example_test.py NAME: bindings/python/examples/NAME.py succeeds; the modules that it needs may be missing."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / f"bindings/python/examples/{sys.argv[1]}.py"

for module in re.findall(r"^import (numpy|jax)\b", EXAMPLE.read_text(), re.MULTILINE):
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
        print(f"skipped: this Python has no {module}")
        sys.exit(77)
environment = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")}
sys.exit(subprocess.run([sys.executable, EXAMPLE], env=environment).returncode)
