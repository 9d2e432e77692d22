#!/usr/bin/env python3
"""example_test.py FILE: a program of Python, or the ```python blocks of a page, succeed; modules that they import may be
missing."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
text = (ROOT / sys.argv[1]).read_text()
if sys.argv[1].endswith(".md"):
    text = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert text, f"{sys.argv[1]} has no block of Python"

for module in re.findall(r"^import (numpy|jax)\b", text, re.MULTILINE):
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
        print(f"skipped: this Python has no {module}")
        sys.exit(77)
environment = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "JAX_PLATFORMS": "cpu"}
sys.exit(subprocess.run([sys.executable, "-c", text], env=environment).returncode)
