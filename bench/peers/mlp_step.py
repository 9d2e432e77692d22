#!/usr/bin/env python3
"""The training step of bench/cuda_mlp_step.cc in PyTorch and JAX, on the same card.

LAYERS x (Dense + bias, ReLU between), mean squared error, Adam (fused where the framework has it); the batch is on the card
already. Prints one JSON object per line: seconds of one step, the median over ROUNDS of STEPS steps each. What is not
installed is said in a line and left out.

    bench/peers/mlp_step.py [DIM [BATCH [LAYERS [ROUNDS [STEPS]]]]]      defaults: 2048 2048 10 5 20
"""
import json
import statistics
import sys
import time

DIM, BATCH, LAYERS, ROUNDS, STEPS = [int(a) for a in sys.argv[1:]] + [2048, 2048, 10, 5, 20][len(sys.argv) - 1:]


def report(name, precision, run, wait):
    """run() queues one step; wait() returns when all are over."""
    for _ in range(5):
        run()
    wait()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(STEPS):
            run()
        wait()
        seconds.append((time.perf_counter() - start) / STEPS)
    print(json.dumps({"name": f"{name}, {precision}", "median_seconds": statistics.median(seconds),
                      "best_seconds": min(seconds)}), flush=True)


def torch_steps():
    import torch

    def step_of(precision, compiled):
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.manual_seed(0)
        layers = []
        for i in range(LAYERS):
            layers.append(torch.nn.Linear(DIM, DIM))
            if i + 1 < LAYERS:
                layers.append(torch.nn.ReLU())
        model = torch.nn.Sequential(*layers).to("cuda", dtype)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        x = torch.randn(BATCH, DIM, device="cuda", dtype=dtype)
        y = torch.randn(BATCH, DIM, device="cuda", dtype=dtype)

        def loss_of(x, y):
            return torch.nn.functional.mse_loss(model(x), y)

        forward = torch.compile(loss_of, mode="reduce-overhead") if compiled else loss_of

        def run():
            optimizer.zero_grad(set_to_none=True)
            forward(x, y).backward()
            optimizer.step()

        return run

    for precision in ("f32", "tf32", "bf16"):
        for name, compiled in (("PyTorch eager", False), ("torch.compile", True)):
            try:
                report(f"{name} {torch.__version__}", precision, step_of(precision, compiled), torch.cuda.synchronize)
            except Exception as error:  # the compiler may be missing a tool; the other rows still count
                print(f"{name}, {precision}: {str(error).splitlines()[0]}", file=sys.stderr)


def jax_steps():
    import jax
    import jax.numpy as jnp

    def step_of(precision):
        dtype = jnp.bfloat16 if precision == "bf16" else jnp.float32
        jax.config.update("jax_default_matmul_precision", {"f32": "highest", "tf32": "tensorfloat32"}.get(precision, "bfloat16"))
        keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 2)
        parameters = [(jax.random.normal(k, (DIM, DIM), dtype) * DIM ** -0.5, jnp.zeros(DIM, dtype)) for k in keys[:LAYERS]]
        zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters)
        x, y = (jax.random.normal(k, (BATCH, DIM), dtype) for k in keys[LAYERS:])

        def loss_of(parameters, x, y):
            for i, (w, b) in enumerate(parameters):
                x = x @ w + b
                if i + 1 < LAYERS:
                    x = jax.nn.relu(x)
            return jnp.mean(jnp.square(x - y))

        def update(w, m, v, g, t):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return (w - 1e-3 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8)).astype(w.dtype), m, v

        def step(parameters, m, v, t):
            loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
            flat, tree = jax.tree_util.tree_flatten(parameters)
            rows = [update(*row, t) for row in zip(flat, *map(jax.tree_util.tree_leaves, (m, v, gradients)))]
            return [jax.tree_util.tree_unflatten(tree, column) for column in zip(*rows)] + [t + 1, loss]

        compiled = jax.jit(step, donate_argnums=(0, 1, 2))
        state = [parameters, zeros, jax.tree_util.tree_map(jnp.zeros_like, parameters), jnp.float32(1)]

        def run():
            state[:] = compiled(*state)[:4]

        return run, lambda: jax.block_until_ready(state)

    for precision in ("f32", "tf32", "bf16"):
        report(f"JAX jit {jax.__version__}", precision, *step_of(precision))


for peer in (torch_steps, jax_steps):
    try:
        peer()
    except ImportError as error:
        print(f"{peer.__name__}: {error}; left out", file=sys.stderr)
