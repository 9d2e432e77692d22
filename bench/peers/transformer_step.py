#!/usr/bin/env python3
"""The training step of a transformer, alpa's and those of JAX and PyTorch, on the CPU with the same threads, in turn.

The model is a GPT (gpt.py), or a Llama-like decoder, BERT or ViT (torch_transformers.py, PyTorch only), with Adam, f32, with --half
in bf16 mixed (PyTorch's autocast). PyTorch uses its fused attention and fused Adam, with --lora RANK PEFT's adapters
of attention. With several devices the peers are JAX's GPT: as many forced host devices, with shardings by hand: rows of the batch
(jax-data), or heads, columns of the first and rows of the second matrix, and the vocabulary (jax-megatron). Prints one JSON object per line: median seconds of a step, their ratio to
alpa's (median of the rounds), and peak memory of each process. --peers are jax,eager,compile, or of several devices
jax-data,jax-megatron.

    bench/peers/transformer_step.py build/bin/bench_transformer_step [--model gpt --layers 4 --hidden 512 --heads 8 --sequence 256 --vocabulary 8192
        --batch 4 --rounds 7 --peers LIST --half --threads 2 --devices 1 --method shard]
"""
import time

from gpt import jax_gpt, torch_gpt
from turns import Apart, OnRequest, adam_steps, arguments, forced_host_devices, take_turns

SIZES = (("layers", 4), ("hidden", 512), ("heads", 8), ("sequence", 256), ("vocabulary", 8192), ("image", 224), ("batch", 4), ("devices", 1), ("lora", 0))
O = arguments(__doc__, "bench", **dict(SIZES), rounds=7, threads=2, peers="", method="shard", model=["gpt", "llama", "bert", "vit"], half=False)
O.peers = O.peers or ("jax-data,jax-megatron" if O.devices > 1 else "eager,compile" if O.half or O.model != "gpt" else "jax,eager,compile")


def jax_step(plan=""):
    jax, sharded = forced_host_devices(O.devices)
    import jax.numpy as jnp
    parameters, loss_of = jax_gpt(O, sharded, "d" if plan == "megatron" else None, apart=O.devices > 1)
    tokens = sharded(jnp.arange(O.batch * O.sequence).reshape(O.batch, O.sequence) * 7919 % O.vocabulary,
                     "d" if plan == "data" else None)
    step, state = adam_steps(lambda p: loss_of(p, tokens), parameters)

    def run():
        nonlocal state
        state = step(*state)[:-1]
        jax.block_until_ready(state)
    return run


def torch_step(compiled):
    import torch
    from torch_transformers import MODELS, batch_of
    torch.set_num_threads(O.threads)
    if O.model == "gpt":
        model, batch = torch_gpt(O), [(torch.arange(O.batch * O.sequence) * 7919 % O.vocabulary).view(O.batch, O.sequence)]
    else:
        model, batch = MODELS[O.model](O), batch_of(O)
    if O.lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=O.lora, lora_alpha=16, target_modules=["q", "k", "v", "out"]))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-7, fused=True)
    loss_of = torch.compile(model) if compiled else model

    def run():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=O.half):
            loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
    return run


MAKERS = {"jax": jax_step, "jax-data": lambda: jax_step("data"), "jax-megatron": lambda: jax_step("megatron"), "eager": lambda: torch_step(False), "compile": lambda: torch_step(True)}


class Peer:
    def __init__(self, name):
        self.name, self.run = name, MAKERS[name]()

    def seconds_of(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.run()
        return time.perf_counter() - start


if __name__ == "__main__":
    sizes = [word for name, _ in SIZES for word in (f"--{name}", str(getattr(O, name)))] + ["--model", O.model] + ["--half"] * O.half
    programs = [OnRequest("alpa", [O.bench, *sizes, "--method", O.method, "--on-request"])] + [Apart(Peer, name) for name in O.peers.split(",")]
    take_turns(programs, O.rounds, model=O.model, half=O.half, threads=O.threads, method=O.method, **{name: getattr(O, name) for name, _ in SIZES})
