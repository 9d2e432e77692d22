#!/usr/bin/env python3
"""Trains a loss of jax on eight of alpa's devices by AdamW, and compares every loss with jax's own steps."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import alpa

RATE, DECAY, BETA1, BETA2, EPSILON = 1e-2, 0.01, 0.9, 0.999, 1e-8


def loss(params, batch):
    hidden = jax.nn.relu(batch["x"] @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return jnp.mean((hidden @ params["out"] - batch["y"]) ** 2)


@jax.jit
def jax_step(params, m, v, t, batch):
    value, g = jax.value_and_grad(loss)(params, batch)
    m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, g)
    v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, g)
    new = lambda w, m, v: w - RATE * (m / (1 - BETA1**t) / (jnp.sqrt(v / (1 - BETA2**t)) + EPSILON) + DECAY * w)
    return jax.tree.map(new, params, m, v), m, v, value


def main():
    rng = np.random.default_rng(0)
    array = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    params = {"hidden": {"kernel": array(16, 64) / 4, "bias": jnp.zeros(64)}, "out": array(64, 4) / 8}
    x = array(64, 16)
    batch = {"x": x, "y": jnp.sin(x[:, :4])}
    run = alpa.parallelize(loss, params, batch, optimizer=alpa.adamw(RATE, weight_decay=DECAY), devices=8)
    print(run.plan)
    m = v = jax.tree.map(jnp.zeros_like, params)
    for t in range(1, 11):
        params, m, v, expected = jax_step(params, m, v, t, batch)
        found = run.step(batch).loss
        print(f"step {t} loss {found:.5f}, of jax {expected:.5f}")
        assert abs(found - expected) < 1e-4 * abs(expected)
    for a, b in zip(jax.tree.leaves(run.arguments), jax.tree.leaves(params)):
        assert np.abs(a - b).max() < 1e-4


if __name__ == "__main__":
    main()
