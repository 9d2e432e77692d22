"""Steps whose batch stays on the device: what those of PyTorch and of JAX have in common, and how they are measured."""
import json
import math
import os
import statistics
import time


class TorchStep:
    """One step of PyTorch on options.device. Others set `loss` in `run`, which queues it."""

    def __init__(self, options):
        import torch
        self.torch, self.device, self.version, self.loss = torch, options.device, torch.__version__, None
        torch.manual_seed(0)

    def finish(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return float(self.loss.detach())


class JaxStep:
    """One step of JAX on options.device; `run` queues it. Others set `step`, a function of the values of `state` and `batch`."""

    def __init__(self, options):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        if options.device == "cpu":
            jax.config.update("jax_platforms", "cpu")
        elif jax.default_backend() != "gpu":
            raise RuntimeError(f"JAX runs on {jax.default_backend()} here, not on the GPU")
        self.jax, self.version, self.loss = jax, jax.__version__, None

    def run(self):
        *self.state, self.loss = self.step(*self.state, self.batch)

    def finish(self):
        self.jax.block_until_ready(self.state)
        return float(self.loss)


def measure(step, options, name, **facts):
    """Prints a JSON object: seconds of a step, the median over options.rounds of options.steps steps each."""
    for _ in range(5):  # compiles, and lets graphs be captured
        step.run()
    loss = step.finish()
    seconds = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.steps):
            step.run()
        loss = step.finish()
        seconds.append((time.perf_counter() - start) / options.steps)
    if not math.isfinite(loss):
        raise RuntimeError(f"the loss is {loss}")
    print(json.dumps({"name": f"{name}, {step.version}", "who": "peer", **facts, "batch": "resident",
                      "median_seconds": round(statistics.median(seconds), 9), "best_seconds": round(min(seconds), 9),
                      "loss": round(loss, 4)}), flush=True)
