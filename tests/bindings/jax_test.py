#!/usr/bin/env python3
"""bindings/python on functions of jax: pytrees, arguments that are not read, masks, and outputs."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "bench")]
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
try:
    import jax
except ImportError:
    print("skipped: this Python has no jax")
    sys.exit(77)

import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import alpa
import xla_specs


def loss(params, batch):
    return jnp.mean((batch["x"] @ params["w"]) ** 2)


def step(state, batch):
    value, gradient = jax.value_and_grad(loss)({"w": state["w"]}, batch)
    new = {"w": state["w"] - gradient["w"], "count": state["count"] + 1, "mask": state["mask"]}
    return new, (value, batch["x"] @ state["w"])


def sharded(plan, function, *args):
    """A function compiled with the plan's specs for eight devices of jax."""
    mesh = plan.mesh()
    return jax.jit(function, in_shardings=plan.in_shardings(mesh), out_shardings=plan.out_shardings(mesh)).lower(*args).compile()


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

    def test_a_constrained_step_has_its_numbers_and_the_bytes_that_were_predicted(self):
        wanted, state, batch = xla_specs.mlp(512, 2, 64, 512)
        state, batch = xla_specs.filled(state), xla_specs.filled(batch)
        plan = alpa.plan(wanted, state, batch, devices=8, mesh="2x4")
        compiled = sharded(plan, plan.constrained(plan.mesh()), state, batch)
        self.assertLess(xla_specs.distance(compiled(state, batch), jax.jit(wanted)(state, batch)), 1e-5)
        predicted = sum(traffic["bytes"] for traffic in plan.traffic.values())
        sent = sum(xla_specs.collectives(compiled.as_text()).values())
        self.assertGreater(predicted, 0)
        self.assertAlmostEqual(sent / predicted, 1, delta=0.1)

    def test_calls_and_checkpoints_are_constrained_within(self):
        @jax.jit
        def layer(w, x):
            return jnp.tanh(x @ w)

        def deep(params, x):
            for w in params:
                x = jax.checkpoint(layer)(w, x)
            return jnp.mean(x**2)

        wanted = xla_specs.sgd(deep)
        params = [jnp.ones((64, 64)) / 64] * 2
        state, batch = {"params": params, "velocity": params}, jnp.arange(512.0).reshape(8, 64) / 512
        plan = alpa.plan(wanted, state, batch, devices=8, method="zero3")
        products = [c for c in plan.constraints if c.product]
        text = jax.jit(plan.constrained(plan.mesh())).lower(state, batch).as_text()
        self.assertGreaterEqual(text.count("sdy.sharding_constraint") + text.count("@Sharding"), len(products))
        compiled = sharded(plan, plan.constrained(plan.mesh()), state, batch)
        self.assertLess(xla_specs.distance(compiled(state, batch), jax.jit(wanted)(state, batch)), 1e-5)

    def test_loops_are_constrained_within_forwards_and_backwards(self):
        def looped(params, x):
            x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, params)
            return jnp.mean(x**2)

        wanted = xla_specs.sgd(looped)
        params = jnp.arange(3 * 512 * 512.0).reshape(3, 512, 512) / 2e8
        state, batch = {"params": params, "velocity": params}, jnp.arange(64 * 512.0).reshape(64, 512) / 3e4
        plan = alpa.plan(wanted, state, batch, devices=8, mesh="2x4")
        with self.assertWarnsRegex(UserWarning, "line [0-9]+: rounds of a loop share one layout.*others for 1 of its rounds"):
            compiled = sharded(plan, plan.constrained(plan.mesh()), state, batch)
        self.assertLess(xla_specs.distance(compiled(state, batch), jax.jit(wanted)(state, batch)), 1e-5)
        # The layouts of rounds reach the program: without them jax sums kernels' gradients over all devices.
        self.assertIn("reduce_scatter", xla_specs.collectives(compiled.as_text()))
        self.assertNotIn("reduce_scatter", xla_specs.collectives(sharded(plan, wanted, state, batch).as_text()))

    def test_products_in_while_loops_and_other_shapes_are_refused(self):
        def looped(params, x):
            _, x = jax.lax.while_loop(lambda at: at[0] < 3, lambda at: (at[0] + 1, jnp.tanh(at[1] @ params)), (0, x))
            return jnp.mean(x**2)

        args = jnp.ones((64, 64)), jnp.ones((8, 64))
        plan = alpa.plan(looped, *args, devices=8)
        with self.assertRaisesRegex(alpa.AlpaError, "a product .einsum. is in a .*while.*in_shardings.* alone"):
            jax.eval_shape(plan.constrained(plan.mesh()), *args)
        plan = alpa.plan(loss, {"w": jnp.ones((16, 8))}, {"x": jnp.ones((8, 16))}, devices=8)
        with self.assertRaisesRegex(alpa.AlpaError, "x is float32.4,16., but the plan is of float32.8,16."):
            plan.constrained(plan.mesh())({"w": jnp.ones((16, 8))}, {"x": jnp.ones((4, 16))})


if __name__ == "__main__":
    unittest.main()
