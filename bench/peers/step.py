#!/usr/bin/env python3
"""The training step of bench/cuda_step.cc in PyTorch or JAX, one of them in this process.

Parameters and Adam's moments in f32, computed in bf16 (autocast; JAX: copies of the parameters), fused attention, images channels
last; the batch on the device throughout. Prints a JSON object: seconds of a step, the median over ROUNDS of STEPS steps each.
scripts/gpu_check sets them beside ours. JAX has GPT alone.
"""
import argparse
import functools
import sys
from types import SimpleNamespace

import resident

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


class TorchStep(resident.TorchStep):
    def __init__(self, options, sizes):
        super().__init__(options)
        torch = self.torch
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
        self.loss_of = loss_of
        if options.peer == "compile" and options.model == "gpt":  # equal blocks are compiled once, all else in one piece
            for block in network.blocks:
                block.compile()
            network.head = torch.compile(network.head)
        elif options.peer == "compile":
            self.loss_of = torch.compile(loss_of)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=1e-7, fused=True)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device, self.torch.bfloat16):
            self.loss = self.loss_of(*self.batch)
        self.loss.backward()
        self.optimizer.step()


class JaxStep(resident.JaxStep):
    def __init__(self, options, sizes):
        super().__init__(options)
        jax = self.jax
        import jax.numpy as jnp
        from gpt import jax_gpt
        from turns import adam_steps
        sizes.attention = "cudnn" if options.device == "cuda" else None
        parameters, loss_of = jax_gpt(sizes, lambda x, *axes: x)
        in_bf16 = functools.partial(jax.tree_util.tree_map, lambda x: x.astype(jnp.bfloat16))
        tokens = jax.random.randint(jax.random.PRNGKey(1), (options.batch, options.sequence), 0, options.vocabulary)
        self.batch = tokens
        self.step, self.state = adam_steps(lambda p, tokens: loss_of(in_bf16(p), tokens), parameters)


def main():
    options = arguments()
    sizes = SimpleNamespace(**SIZES[options.model][options.size])
    if options.model != "wide-resnet":
        sizes.sequence, sizes.vocabulary = options.sequence, options.vocabulary
    if options.model == "moe":
        sizes.width, sizes.group = 8 * sizes.hidden, min(2048, options.batch * options.sequence)
    step = (JaxStep if options.peer == "jax" else TorchStep)(options, sizes)
    resident.measure(step, options, PEERS[options.peer], model=f"{options.model} {options.size}", precision="bf16")


if __name__ == "__main__":
    sys.exit(main())
