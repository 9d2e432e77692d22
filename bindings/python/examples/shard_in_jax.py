#!/usr/bin/env python3
"""Plans a transformer's training step for eight devices, and lets jax run it with the plan's specs: the numbers are those of
one device. Eight CPU devices of jax stand for the cluster's."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np

import alpa

BATCH, TIME, CHANNELS, HEADS, VOCABULARY = 16, 32, 128, 8, 256


def block(p, x):
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = jnp.split(norm(x) @ p["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(BATCH, TIME, HEADS, -1) for t in (q, k, v))
    scores = jnp.einsum("bthc,bshc->bhts", q, k) / (CHANNELS // HEADS) ** 0.5
    mask = jnp.arange(TIME)[:, None] >= jnp.arange(TIME)
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    x = x + jnp.einsum("bhts,bshc->bthc", weights, v).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def loss(params, batch):
    x = params["embedding"][batch["tokens"]]
    for p in params["blocks"]:
        x = block(p, x)
    logits = jax.nn.log_softmax(x @ params["head"])
    return -jnp.take_along_axis(logits, batch["labels"][..., None], axis=-1).mean()


def train_step(state, batch):
    """SGD with momentum: (state, batch) → (new state, loss)."""
    value, gradients = jax.value_and_grad(loss)(state["params"], batch)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
    params = jax.tree.map(lambda w, v: w - 0.1 * v, state["params"], velocity)
    return {"params": params, "velocity": velocity}, value


def made(seed=0):
    rng = np.random.default_rng(seed)
    matrix = lambda n, m: jnp.asarray(rng.normal(size=(n, m)) * n**-0.5, jnp.float32)
    blocks = [{"qkv": matrix(CHANNELS, 3 * CHANNELS), "out": matrix(CHANNELS, CHANNELS), "up": matrix(CHANNELS, 4 * CHANNELS),
               "down": matrix(4 * CHANNELS, CHANNELS)} for _ in range(2)]
    params = {"embedding": matrix(VOCABULARY, CHANNELS), "blocks": blocks, "head": matrix(CHANNELS, VOCABULARY)}
    state = {"params": params, "velocity": jax.tree.map(jnp.zeros_like, params)}
    tokens = lambda: jnp.asarray(rng.integers(0, VOCABULARY, (BATCH, TIME)), jnp.int32)
    return state, {"tokens": tokens(), "labels": tokens()}


def main():
    state, batch = made()
    plan = alpa.plan(train_step, state, batch, cluster="dgx-a100", method="zero3")
    print(plan)
    print("embedding", plan.in_specs[0]["params"]["embedding"], "tokens", plan.in_specs[1]["tokens"])
    mesh = plan.mesh()
    sharded = jax.jit(plan.constrained(mesh), in_shardings=plan.in_shardings(mesh), out_shardings=plan.out_shardings(mesh))
    expected, expected_loss = jax.jit(train_step)(state, batch)
    found, found_loss = sharded(state, batch)
    distance = max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found)))
    print(f"loss {found_loss:.6f}, on one device {expected_loss:.6f}; largest difference of a parameter {distance:.1e}")
    assert abs(found_loss - expected_loss) < 1e-5 and distance < 1e-5


if __name__ == "__main__":
    main()
