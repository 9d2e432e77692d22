#!/usr/bin/env python3
"""The training step of bench/moe_step.cc (decoder, experts in every second layer) of alpa, PyTorch and JAX, in turn. Alpa moves
tokens by index, the peers dispatch and combine by einsums.

Adam, f32, two choices of 8 experts, one group, --threads threads each. With several --devices the peer is JAX, on as many forced host
devices that split the batch and the experts. Prints one JSON object per program: median seconds of a
step, the median over rounds of its seconds divided by alpa's, and peak memory of its process.

    taskset -c 0,1 bench/peers/moe.py build/bin/bench_moe_step [--batch 4 --sequence 256 --rounds 7 --threads 2 --devices 1]
"""
import time
from types import SimpleNamespace

from experts import parameters_of, torch_moe
from turns import Apart, JaxSteps, OnRequest, adam_steps, arguments, forced_host_devices, take_turns

O = arguments(__doc__, "bench", batch=4, sequence=256, rounds=7, threads=2, devices=1)
LAYERS, HIDDEN, HEADS, EXPERTS, WIDTH, WORDS = 4, 512, 8, 8, 2048, 8192
TOKENS = O.batch * O.sequence
CAPACITY = 2 * TOKENS // EXPERTS
SIZES = SimpleNamespace(layers=LAYERS, hidden=HIDDEN, heads=HEADS, experts=EXPERTS, width=WIDTH, vocabulary=WORDS, sequence=O.sequence, group=TOKENS)


class Torch:
    def __init__(self, compiled):
        import torch
        torch.set_num_threads(O.threads)
        self.name = f"PyTorch {torch.__version__}, " + ("compile" if compiled else "eager")
        model = torch_moe(SIZES)
        tokens = torch.tensor([(i * i + 5 * i) % WORDS for i in range(TOKENS)]).reshape(O.batch, O.sequence)
        loss_of = torch.compile(model) if compiled else model
        self.loss_of = lambda: loss_of(tokens)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)

    def seconds_of(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss_of().backward()
            self.optimizer.step()
        return time.perf_counter() - start


class Jax(JaxSteps):
    def __init__(self):
        jax, sharded = forced_host_devices(O.devices)
        import jax.numpy as jnp
        self.name = f"JAX {jax.__version__}, " + ("jit" if O.devices == 1 else "batch and experts split")
        keys = iter(jax.random.split(jax.random.PRNGKey(0), 100))
        laid = lambda x: sharded(x, *(("d",) if x.ndim == 3 else ()))  # weights of experts have three dimensions
        p = parameters_of(SIZES, lambda *s: laid(jax.random.normal(next(keys), s) * 0.02), lambda *s: laid(jnp.zeros(s)),
                          lambda *s: laid(jnp.ones(s)))
        tokens = sharded(jnp.array([(i * i + 5 * i) % WORDS for i in range(TOKENS)]).reshape(O.batch, O.sequence), "d")

        def norm(x, scale, bias):
            mean = x.mean(-1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias

        def route(gates):
            first = jax.nn.one_hot(gates.argmax(-1), EXPERTS)
            second = jax.nn.one_hot((gates - 2 * first).argmax(-1), EXPERTS)
            place = first * (first.cumsum(1) - first) + second * (second.cumsum(1) - second + first.sum(1, keepdims=True))
            weight = gates * (first + second)
            weight = weight / weight.sum(-1, keepdims=True)
            here = place[..., None] == jnp.arange(CAPACITY, dtype=jnp.float32)
            balance = EXPERTS * (first.mean(1) * gates.mean(1)).sum(-1).mean()
            return jnp.where(here, (first + second)[..., None], 0), jnp.where(here, weight[..., None], 0), balance

        def block(p, x):
            h = norm(x, p["norm1"], p["norm1_bias"])
            q, k, v = ((h @ p[n] + p[n + "_bias"]).reshape(O.batch, O.sequence, HEADS, -1) for n in "qkv")
            products = jnp.einsum("bthd,bshd->bhts", q, k) / (HIDDEN // HEADS) ** 0.5
            seen = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((O.sequence, O.sequence), bool)), products, -1e9))
            x = x + jnp.einsum("bhts,bshd->bthd", seen, v).reshape(x.shape) @ p["o"] + p["o_bias"]
            h = norm(x, p["norm2"], p["norm2_bias"])
            if "gate" not in p:
                return x + jax.nn.gelu(h @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"], 0.0
            t = h.reshape(1, TOKENS, HIDDEN)
            dispatch, combine, balance = route(jax.nn.softmax(t @ p["gate"]))
            sent = jnp.einsum("gsec,gsm->egcm", dispatch, t)
            result = jnp.einsum("egch,ehm->egcm", jax.nn.gelu(jnp.einsum("egcm,emh->egch", sent, p["up"])), p["down"])
            return x + jnp.einsum("gsec,egcm->gsm", combine, result).reshape(x.shape), balance

        def loss_of(p):
            x, balance = p["table"][tokens] + p["positions"], 0.0
            for layer in p["layers"]:
                x, b = block(layer, x)
                balance = balance + b
            logits = norm(x, p["norm"], p["norm_bias"]) @ p["table"].T + p["head"]
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
            return -picked.mean() + 0.01 * balance / (LAYERS // 2)

        self.step, self.state = adam_steps(loss_of, p)


programs = [OnRequest("alpa", [O.bench, f"--batch={O.batch}", f"--sequence={O.sequence}", f"--devices={O.devices}", "--on-request"]), Apart(Jax)]
if O.devices == 1:
    programs += [Apart(Torch, False), Apart(Torch, True)]
take_turns(programs, O.rounds, batch=O.batch, sequence=O.sequence, threads=O.threads, devices=O.devices)
