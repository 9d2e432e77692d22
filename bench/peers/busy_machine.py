#!/usr/bin/env python3
"""How much busy loops on the same cores slow down a training step: alpa's and JAX's, on the CPU, in turn.

Every round runs alpa, then JAX on a quiet machine, then alpa, then JAX beside --loops busy loops (processes of their own). The step
is that of bench/busy_machine.cc. Prints one JSON object per line: median seconds of a step, quiet and busy, and the median
over rounds of the slowdown; last the ratio of the slowdowns.

    bench/peers/busy_machine.py build/bin/bench_busy_machine [--dim 512 --batch 64 --layers 10 --devices 1 --loops 2 --rounds 15]
"""
import json
import signal
import statistics
import subprocess
import sys
import time

from turns import JaxSteps, OnRequest, adam_steps, arguments, ends_with_us

O = arguments(__doc__, "bench", dim=512, batch=64, layers=10, devices=1, loops=2, rounds=15)


class Jax(JaxSteps):
    def __init__(self):
        import jax
        jax.config.update("jax_platforms", "cpu")
        import jax.numpy as jnp
        self.name = f"JAX {jax.__version__}"
        keys = jax.random.split(jax.random.PRNGKey(0), O.layers + 2)
        parameters = [(jax.random.normal(k, (O.dim, O.dim)) * O.dim ** -0.5, jnp.zeros(O.dim)) for k in keys[:O.layers]]
        x, y = (jax.random.normal(k, (O.batch, O.dim)) for k in keys[O.layers:])

        def loss_of(parameters):
            h = x
            for i, (w, b) in enumerate(parameters):
                h = h @ w + b
                if i + 1 < O.layers:
                    h = jax.nn.relu(h)
            return jnp.mean(jnp.square(h - y))

        self.step, self.state = adam_steps(loss_of, parameters)


def run_loops(loops, running):
    for loop in loops:
        loop.send_signal(signal.SIGCONT if running else signal.SIGSTOP)
    time.sleep(0.05)  # until they are spread over the cores


loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=ends_with_us) for _ in range(O.loops)]
run_loops(loops, False)
alpa = OnRequest("alpa", [O.bench, "--on-request", f"--dim={O.dim}", f"--batch={O.batch}", f"--layers={O.layers}", f"--devices={O.devices}"])
programs = [alpa, Jax()]
steps, seconds = {}, {}
for program in programs:
    program.seconds_of(5)
    steps[program] = max(1, int(0.5 * 10 / program.seconds_of(10)))  # about half a second of quiet steps
for _ in range(O.rounds):
    for busy in (False, True):
        run_loops(loops, busy)
        for program in programs:
            seconds.setdefault((program, busy), []).append(program.seconds_of(steps[program]) / steps[program])
for loop in loops:
    loop.kill()

slowdowns = []
for program in programs:
    quiet, busy = seconds[program, False], seconds[program, True]
    slowdowns.append(statistics.median(b / q for b, q in zip(busy, quiet)))
    print(json.dumps({"name": program.name, "devices": O.devices if program is programs[0] else 1, "loops": O.loops,
                      "quiet_seconds": round(statistics.median(quiet), 6), "busy_seconds": round(statistics.median(busy), 6),
                      "slowdown": round(slowdowns[-1], 3)}))
print(json.dumps({"name": "alpa's slowdown to JAX's", "ratio": round(slowdowns[0] / slowdowns[1], 3)}))
