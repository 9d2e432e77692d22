#!/usr/bin/env python3
"""The training step of bench/mlp.h (Dense + bias, ReLU between; mean squared error; Adam), alpa's and JAX's, on the CPU, in turn.

With one device both use all cores of the process. With more, JAX has as many forced host devices and shardings by hand: rows of
the batch (data), or kernels by columns and rows in turn (megatron). Prints one JSON object per line: median seconds of a step,
their ratio to alpa's (median of the rounds), and peak memory of the process.

    bench/peers/mlp.py build/bin/bench_mlp_step [--dim 512 --batch 64 --layers 10 --devices 1 --method shard --rounds 7]
"""
from turns import Apart, JaxSteps, OnRequest, adam_steps, arguments, forced_host_devices, take_turns

SIZES = (("dim", 512), ("batch", 64), ("layers", 10), ("devices", 1))
O = arguments(__doc__, "bench", **dict(SIZES), rounds=7, method="shard")


class Jax(JaxSteps):
    def __init__(self, plan):
        jax, sharded = forced_host_devices(O.devices)
        import jax.numpy as jnp
        self.name = f"JAX {jax.__version__}, {plan}"
        megatron = plan == "megatron"
        keys = jax.random.split(jax.random.PRNGKey(0), O.layers + 1)
        parameters = []
        for i in range(O.layers):
            w = jax.random.normal(keys[i + 1], (O.dim, O.dim)) * (2 / O.dim) ** 0.5
            columns = (None, "d") if megatron and i % 2 == 0 else ("d", None) if megatron else ()
            parameters.append((sharded(w, *columns), sharded(jnp.zeros(O.dim), *columns[1:])))
        x = sharded(jax.random.normal(keys[0], (O.batch, O.dim)), *(("d",) if plan == "data" else ()))

        def loss_of(parameters):
            y = x
            for i, (w, b) in enumerate(parameters):
                y = y @ w + b
                y = jax.nn.relu(y) if i + 1 < O.layers else y
            return jnp.mean((y - x) ** 2)

        self.step, self.state = adam_steps(loss_of, parameters)


sizes = [word for name, _ in SIZES for word in (f"--{name}", str(getattr(O, name)))]
plans = ["one device"] if O.devices == 1 else ["data", "megatron"]
programs = [OnRequest("alpa", [O.bench, *sizes, "--method", O.method, "--on-request"])] + [Apart(Jax, plan) for plan in plans]
take_turns(programs, O.rounds, **{name: getattr(O, name) for name, _ in SIZES}, method=O.method)
