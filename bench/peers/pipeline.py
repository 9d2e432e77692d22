#!/usr/bin/env python3
"""A pipelined training step, alpa's and one written by hand in JAX, on the CPU, in turn.

The step is that of bench/pipeline.cc: an MLP of 10 layers of 1024, 1024 rows in 16 micro-batches, Adam; two stages of
five layers, each on four devices that split the rows. In JAX eight devices are forced on the host; micro-batches pass
from stage to stage by `ppermute` inside a scan (GPipe's order), and `jax.grad` makes the backward pass. Prints one JSON
object per line: median seconds of a step, last the median ratio of the rounds.

    bench/peers/pipeline.py build/bin/bench_pipeline [--rounds 9]
"""
import json
import os
import statistics

from turns import JaxSteps, OnRequest, adam, arguments

O = arguments(__doc__, "bench", rounds=9)
STAGES, DATA, DIM, LAYERS, ROWS, PARTS = 2, 4, 1024, 10, 1024, 16
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={STAGES * DATA}"


class Jax(JaxSteps):
    def __init__(self):
        import jax
        jax.config.update("jax_platforms", "cpu")
        import jax.numpy as jnp
        from jax.sharding import NamedSharding, PartitionSpec as P
        self.name = f"JAX {jax.__version__}, by hand"
        mesh = jax.make_mesh((STAGES, DATA), ("stage", "data"))
        keys = jax.random.split(jax.random.PRNGKey(0), 3)
        w = jax.random.normal(keys[0], (LAYERS, DIM, DIM)) * (2 / DIM) ** 0.5
        parameters = (w, jnp.zeros((LAYERS, DIM)))
        x, y = (jax.random.normal(k, (PARTS, ROWS // PARTS, DIM)) for k in keys[1:])
        own = LAYERS // STAGES

        def loss_of_device(parameters, x, y):
            stage = jax.lax.axis_index("stage")

            def layers(h):
                for i in range(own):
                    h = h @ parameters[0][i] + parameters[1][i]
                    h = jnp.where(stage * own + i < LAYERS - 1, jax.nn.relu(h), h)
                return h

            def tick(h, t):
                out = layers(jnp.where(stage == 0, x[jnp.minimum(t, PARTS - 1)], h))
                return jax.lax.ppermute(out, "stage", [(s, s + 1) for s in range(STAGES - 1)]), out

            start = jax.lax.pcast(jnp.zeros_like(x[0]), ("stage",), to="varying")
            _, outs = jax.lax.scan(tick, start, jnp.arange(PARTS + STAGES - 1))
            loss = jnp.mean(jnp.square(outs[STAGES - 1:] - y))
            loss = jax.lax.psum(jnp.where(stage == STAGES - 1, loss, 0.0), "stage")
            return jax.lax.pmean(loss, "data")

        split = P(None, "data")
        loss_of = jax.shard_map(loss_of_device, mesh=mesh, in_specs=((P("stage"), P("stage")), split, split), out_specs=P())

        def step(parameters, m, v, t):
            loss, gradients = jax.value_and_grad(loss_of)(parameters, *self.batch)
            rows = [adam(*row, t) for row in zip(parameters, m, v, gradients)]
            return [tuple(column) for column in zip(*rows)] + [t + 1, loss]

        place = lambda tree, spec: jax.device_put(tree, NamedSharding(mesh, spec))
        self.batch = place((x, y), split)
        self.step = jax.jit(step, donate_argnums=(0, 1, 2))
        zeros = [jax.tree_util.tree_map(jnp.zeros_like, parameters) for _ in range(2)]
        self.state = [place(tree, P("stage")) for tree in (parameters, *zeros)] + [jnp.float32(1)]


programs = [OnRequest("alpa, 1f1b", [O.bench, "--on-request"]), Jax()]
seconds = {program: [] for program in programs}
for program in programs:
    program.seconds_of(2)
for _ in range(O.rounds):
    for program in programs:
        seconds[program].append(program.seconds_of(2) / 2)
for program in programs:
    print(json.dumps({"name": program.name, "median_seconds": round(statistics.median(seconds[program]), 5)}))
ratios = [a / b for a, b in zip(*seconds.values())]
print(json.dumps({"name": "alpa's step to JAX's", "ratio": round(statistics.median(ratios), 3)}))
