#!/usr/bin/env python3
"""The training step of bench/cuda_step.cc in PyTorch or JAX, one of them in this process.

Parameters and Adam's moments in f32, computed in bf16 (autocast; JAX: copies of the parameters), fused attention, images channels
last; the batch on the device throughout. Prints a JSON object: seconds of a step, the median over ROUNDS of STEPS steps each.
scripts/gpu_check sets them beside ours. JAX has GPT alone.
"""
import argparse
import functools
import json
import math
import os
import statistics
import sys
import time
from types import SimpleNamespace

PEERS = {"eager": "PyTorch, fused Adam", "compile": "PyTorch, torch.compile, fused Adam", "jax": "JAX, jit"}
SIZES = {"gpt": {"tiny": dict(layers=2, hidden=64, heads=4), "350M": dict(layers=24, hidden=1024, heads=16), "1.3B": dict(layers=24, hidden=2048, heads=32)},
         "moe": {"tiny": dict(layers=2, hidden=64, heads=4, experts=4), "380M": dict(layers=8, hidden=768, heads=16, experts=8)},
         "wide-resnet": {"tiny": dict(channels=4, width=2, blocks=(1, 1), classes=10, small_images=True),
                         "250M": dict(channels=160, width=2, blocks=(3, 4, 6, 3), classes=1024, small_images=False)}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS, help="; ".join(f"{peer}: {name}" for peer, name in PEERS.items()))
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--size", default="tiny", help="default: tiny")
    for name, default in (("batch", 8), ("sequence", 1024), ("vocabulary", 51200), ("image", 224), ("rounds", 5), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    options = parser.parse_args()
    if options.size not in SIZES[options.model]:
        parser.error(f"{options.model} has sizes {', '.join(SIZES[options.model])}")
    if options.peer == "jax" and options.model != "gpt":
        parser.error("jax has gpt alone")
    return options


class TorchStep:
    """One step of PyTorch; `run` queues it."""

    def __init__(self, options, sizes):
        import torch
        self.torch, self.device, self.version = torch, options.device, torch.__version__
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        if options.model == "wide-resnet":
            from resnet import torch_resnet
            network = torch_resnet(**vars(sizes)).to(options.device, memory_format=torch.channels_last)
            x = torch.randn(options.batch, 3, options.image, options.image, device=options.device)
            self.batch = x.to(memory_format=torch.channels_last), torch.arange(options.batch, device=options.device) % 10
            loss_of = lambda x, y: torch.nn.functional.cross_entropy(network(x), y)
        else:
            if options.model == "gpt":
                from gpt import torch_gpt as make
            else:
                from experts import torch_moe as make
            network = make(sizes).to(options.device)
            self.batch = (torch.randint(options.vocabulary, (options.batch, options.sequence), device=options.device),)
            loss_of = network
        self.loss_of = torch.compile(loss_of) if options.peer == "compile" else loss_of
        self.optimizer = torch.optim.Adam(network.parameters(), lr=1e-7, fused=True)
        self.loss = None

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device, self.torch.bfloat16):
            self.loss = self.loss_of(*self.batch)
        self.loss.backward()
        self.optimizer.step()

    def finish(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return float(self.loss.detach())


class JaxStep:
    """One step of JAX; `run` queues it."""

    def __init__(self, options, sizes):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import jax.numpy as jnp
        from gpt import jax_gpt
        from turns import adam_steps
        if options.device == "cpu":
            jax.config.update("jax_platforms", "cpu")
        elif jax.default_backend() != "gpu":
            raise RuntimeError(f"JAX runs on {jax.default_backend()} here, not on the GPU")
        self.jax, self.version = jax, jax.__version__
        sizes.attention = "cudnn" if options.device == "cuda" else None
        parameters, loss_of = jax_gpt(sizes, lambda x, *axes: x)
        in_bf16 = functools.partial(jax.tree_util.tree_map, lambda x: x.astype(jnp.bfloat16))
        tokens = jax.random.randint(jax.random.PRNGKey(1), (options.batch, options.sequence), 0, options.vocabulary)
        self.tokens = tokens
        self.step, self.state = adam_steps(lambda p, tokens: loss_of(in_bf16(p), tokens), parameters)
        self.loss = None

    def run(self):
        *self.state, self.loss = self.step(*self.state, self.tokens)

    def finish(self):
        self.jax.block_until_ready(self.state)
        return float(self.loss)


def main():
    options = arguments()
    sizes = SimpleNamespace(**SIZES[options.model][options.size])
    if options.model != "wide-resnet":
        sizes.sequence, sizes.vocabulary = options.sequence, options.vocabulary
    if options.model == "moe":
        sizes.width, sizes.group = 8 * sizes.hidden, min(2048, options.batch * options.sequence)
    step = (JaxStep if options.peer == "jax" else TorchStep)(options, sizes)
    for _ in range(3):  # compiles
        step.run()
    step.finish()
    seconds = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.steps):
            step.run()
        loss = step.finish()
        seconds.append((time.perf_counter() - start) / options.steps)
    if not math.isfinite(loss):
        raise SystemExit(f"the loss is {loss}")
    print(json.dumps({"name": f"{PEERS[options.peer]}, {step.version}", "who": "peer", "model": f"{options.model} {options.size}", "precision": "bf16",
                      "batch": "resident", "median_seconds": round(statistics.median(seconds), 9), "best_seconds": round(min(seconds), 9),
                      "loss": round(loss, 4)}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
