#!/usr/bin/env python3
"""bindings/python with the library that ALPA_LIBRARY names: arguments, arrays and errors, on text that needs no jax."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "bindings/python/examples")]
try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)

import alpa
import text as example


def loaded(**options):
    return alpa.parallelize(example.TEXT, devices=2, optimizer=alpa.sgd(0.5), **options)


class Strided:
    """What only DLPack reads."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Python(unittest.TestCase):
    def batch(self, dtype=np.float32):
        return {"batch.x": np.ones((32, 64), dtype), "batch.y": np.zeros((32, 8), dtype)}

    def test_plans_have_numbers_words_and_a_report(self):
        plan = alpa.plan(example.TEXT, cluster="dgx-a100", hosts=2, method="data")
        self.assertEqual((plan.mesh_shape, plan.axis_names, plan.stages), ((16,), ("x",), 1))
        self.assertEqual([a["spec"] for a in plan.arguments], [[[], []], [["x"], []], [["x"], []]])
        self.assertEqual(plan.state_specs["params.w.adam_m"], [[], []])
        self.assertEqual([c.operation for c in plan.constraints][0], "einsum")
        self.assertGreater(plan.seconds, 0)
        self.assertLessEqual(plan.lower_bound_seconds or 0, plan.seconds)
        self.assertLessEqual(str(plan).count("\n"), 10)
        page = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"alpa_{os.getpid()}.html"
        plan.report(page)
        self.assertIn("alpa.report/2", page.read_text())
        page.unlink()

    def test_arrays_are_read_where_they_are_and_results_own_their_memory(self):
        run = loaded()
        w = np.arange(512, dtype=np.float32).reshape(64, 8)
        run.state["params.w"] = Strided(w)
        found = run.state["params.w"]
        del run
        np.testing.assert_array_equal(found, w)
        found += 1  # writable, and no one else's

    def test_other_layouts_and_wider_types_are_converted(self):
        run, again = loaded(), loaded()
        w = np.random.default_rng(0).normal(size=(64, 8))
        run.state["params.w"], again.state["params.w"] = np.asfortranarray(w), w.astype(np.float32)
        np.testing.assert_array_equal(run.state["params.w"], again.state["params.w"])
        self.assertEqual(run.step(self.batch(np.float64)).loss, again.step(self.batch()).loss)

    def test_one_seed_gives_one_state(self):
        a, b, c = (loaded(seed=seed).state["params.w"] for seed in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        self.assertFalse((a == c).all())

    def test_mistakes_are_errors_that_say_what_to_do(self):
        run = loaded()
        for call, message in (
            (lambda: alpa.plan(example.TEXT), "give one of the options cluster "),
            (lambda: alpa.plan(example.TEXT, devices=4, precision="f8"),
             "option precision is f8; it must be as_written, bf16_mixed or f16_mixed"),
            (lambda: alpa.plan("module", devices=4), "StableHLO, line 1, column 1: "),
            (lambda: alpa.plan(example.TEXT, devices=4).in_specs, "a text has no pytrees; its specs are in plan.arguments"),
            (lambda: run.step({"batch.x": 1}), "the batch has ['batch.x']; it must have ['batch.x', 'batch.y']"),
            (lambda: run.step({**self.batch(), "batch.y": np.zeros((32, 8), complex)}),
             "batch.y is complex128; it must be float32"),
        ):
            with self.assertRaises(alpa.AlpaError) as raised:
                call()
            self.assertTrue(str(raised.exception).startswith(message), raised.exception)
        with self.assertRaises(KeyError):
            run.state["w"]

    def test_the_version_is_that_of_the_wheel(self):
        self.assertIn(f'\nversion = "{alpa.__version__}"\n', (ROOT / "bindings/python/pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
