"""What programs that are timed in turns have in common: their flags, alpa's benchmark on request, Adam, and seconds of JAX's steps."""
import argparse
import ctypes
import json
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import time


def ends_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def arguments(text, *operands, **flags):
    """The parsed command line of a script whose help is `text`. An operand is a name, or a name and its choices. A flag has its default: a
    number, a text, False for a switch, a list of choices whose first it is, or a dictionary for `add_argument`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for operand in operands:
        name, choices = (operand, None) if isinstance(operand, str) else operand
        parser.add_argument(name, choices=choices)
    for name, default in flags.items():
        if default is False:
            how = {"action": "store_true"}
        elif isinstance(default, dict):
            how = default
        elif isinstance(default, list):
            how = {"choices": default, "default": default[0]}
        else:
            how = {"type": type(default), "default": default}
        parser.add_argument(f"--{name}", **how)
    return parser.parse_args()


class OnRequest:
    """A benchmark of alpa that reads numbers of steps and answers with the seconds they took."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=ends_with_us)

    def seconds_of(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def facts(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return {"peak_bytes": next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))}


class Apart:
    """The program `maker(*arguments)` in a process of its own, whose peak of memory is the program's."""

    def __init__(self, maker, *arguments):
        self.pipe, other = multiprocessing.Pipe()
        multiprocessing.Process(target=Apart.serve, args=(other, maker, arguments), daemon=True).start()
        self.name, self.bytes = self.pipe.recv(), 0

    @staticmethod
    def serve(pipe, maker, arguments):
        ends_with_us()
        program = maker(*arguments)
        pipe.send(program.name)
        while True:
            seconds = program.seconds_of(pipe.recv())
            pipe.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))

    def seconds_of(self, steps):
        self.pipe.send(steps)
        seconds, self.bytes = self.pipe.recv()
        return seconds

    def facts(self):
        return {"peak_bytes": self.bytes}


def forced_host_devices(n):
    """JAX with so many devices of the CPU, and a function that lays an array out on them: along "d", or None, for each dimension."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={n}"
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
    jax.config.update("jax_platforms", "cpu")
    mesh = jax.make_mesh((n,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax, lambda x, *axes: jax.device_put(x, NamedSharding(mesh, PartitionSpec(*axes)))


class JaxSteps:
    """Runs `self.step` on `self.state`, which the step returns with the loss behind it."""

    def seconds_of(self, steps):
        import jax
        start = time.perf_counter()
        for _ in range(steps):
            self.state = self.step(*self.state)[:-1]
            jax.block_until_ready(self.state)
        return time.perf_counter() - start


def adam(w, m, v, g, t):
    """New parameter and moments; the rate is so small that nothing converges while it is measured."""
    import jax.numpy as jnp
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 1e-7 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8), m, v


def adam_steps(loss_of, parameters):
    """JAX's step with Adam for `JaxSteps`, compiled, and its first state. The step passes arrays behind the state on to `loss_of`."""
    import jax
    import jax.numpy as jnp

    def step(p, m, v, t, *batch):
        loss, g = jax.value_and_grad(loss_of)(p, *batch)
        flat, tree = jax.tree_util.tree_flatten(p)
        rows = [adam(*row, t) for row in zip(flat, *map(jax.tree_util.tree_leaves, (m, v, g)))]
        return [jax.tree_util.tree_unflatten(tree, column) for column in zip(*rows)] + [t + 1, loss]

    zeros = [jax.tree_util.tree_map(jnp.zeros_like, parameters) for _ in range(2)]
    return jax.jit(step, donate_argnums=(0, 1, 2)), [parameters, *zeros, jnp.float32(1)]


def take_turns(programs, rounds, **facts):
    """Times each program for about a second a round. Prints `facts`, seconds of a step and their ratio to the first program's."""
    seconds, steps = {program: [] for program in programs}, {}
    for program in programs:
        program.seconds_of(2)
        steps[program] = max(1, int(1 / program.seconds_of(1)))
    for _ in range(rounds):
        for program in programs:
            seconds[program].append(program.seconds_of(steps[program]) / steps[program])
    for program in programs:
        of_first = statistics.median(s / o for s, o in zip(seconds[program], seconds[programs[0]]))
        print(json.dumps({"name": program.name} | facts | {
            "median_seconds": round(statistics.median(seconds[program]), 4), "best_seconds": round(min(seconds[program]), 4),
            "of_alpa": round(of_first, 3)} | getattr(program, "facts", lambda: {})()), flush=True)
