#!/usr/bin/env python3
"""bindings/python on functions of jax: pytrees, arguments that are not read, masks, and outputs."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings/python"))
try:
    import jax
except ImportError:
    print("skipped: this Python has no jax")
    sys.exit(77)

import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import alpa


def loss(params, batch):
    return jnp.mean((batch["x"] @ params["w"]) ** 2)


def step(state, batch):
    value, gradient = jax.value_and_grad(loss)({"w": state["w"]}, batch)
    new = {"w": state["w"] - gradient["w"], "count": state["count"] + 1, "mask": state["mask"]}
    return new, (value, batch["x"] @ state["w"])


class Jax(unittest.TestCase):
    def test_specs_have_the_structure_of_arguments_that_are_not_read_too(self):
        f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
        plan = alpa.plan(loss, {"w": f32(16, 8), "unread": f32(4)}, {"x": f32(8, 16), "unread": f32(8, 2)}, devices=4,
                         method="zero3")
        self.assertEqual(plan.in_specs[0]["w"], P("x"))
        self.assertEqual(plan.in_specs[1]["x"], P("x"))
        self.assertEqual(set(plan.in_specs[0]) | set(plan.in_specs[1]), {"w", "unread", "x"})
        self.assertEqual(plan.out_specs, P())

    def test_a_whole_step_keeps_types_and_returns_its_numbers_and_tensors(self):
        state = {"w": jnp.ones((16, 8)), "count": jnp.int32(0), "mask": jnp.array([True, False])}
        batch = {"x": jnp.arange(128.0).reshape(8, 16) / 128, "unread": jnp.zeros(8, bool)}
        run = alpa.parallelize(step, state, batch, devices=4)
        result = run.step(batch)
        expected, (value, output) = step(state, batch)
        np.testing.assert_allclose(list(result.metrics.values()), [value], rtol=1e-6)
        np.testing.assert_allclose(list(result.outputs.values())[0], output, rtol=1e-6)
        found = run.arguments
        self.assertEqual(jax.tree.map(lambda a: a.dtype, found), jax.tree.map(lambda a: a.dtype, expected))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)

    def test_a_batch_with_other_leaves_is_an_error_that_names_them(self):
        run = alpa.parallelize(loss, {"w": jnp.ones((16, 8))}, {"x": jnp.ones((8, 16))}, devices=1)
        with self.assertRaisesRegex(alpa.AlpaError, "the batch has 0 leaves; the step takes 1: batch.x"):
            run.step({})

    def test_specs_of_several_stages_are_refused(self):
        def deep(params, batch):
            for w in params:
                batch = jnp.tanh(batch @ w)
            return jnp.mean(batch**2)

        plan = alpa.plan(deep, [jnp.ones((64, 64))] * 4, jnp.ones((16, 64)), devices=2, method="pipeline", stages=2)
        self.assertEqual(plan.stages, 2)
        with self.assertRaisesRegex(alpa.AlpaError, 'the plan has 2 stages.*method="shard" plans one'):
            plan.in_specs


if __name__ == "__main__":
    unittest.main()
