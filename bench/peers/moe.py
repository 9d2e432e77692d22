#!/usr/bin/env python3
"""The training step of bench/moe_step.cc (decoder, experts in every second layer, dispatch and combine as einsums) of alpa,
PyTorch and JAX, in turn.

Adam, f32, two choices of 8 experts, one group, THREADS threads each. With several DEVICES the peer is JAX, on as many forced host
devices that split the batch and the experts. Prints one JSON object per program: median seconds of a
step, the median over rounds of its seconds divided by alpa's, and peak memory of its process.

    taskset -c 0,1 bench/peers/moe.py build/bin/bench_moe_step [BATCH [SEQUENCE [ROUNDS [THREADS [DEVICES]]]]]   4 256 7 2 1
"""
import sys
import time

from turns import Apart, JaxSteps, OnRequest, adam_steps, forced_host_devices, take_turns

BENCH = sys.argv[1]
BATCH, SEQUENCE, ROUNDS, THREADS, DEVICES = [int(a) for a in sys.argv[2:]] + [4, 256, 7, 2, 1][len(sys.argv) - 2:]
LAYERS, HIDDEN, HEADS, EXPERTS, WIDTH, WORDS = 4, 512, 8, 8, 2048, 8192
TOKENS = BATCH * SEQUENCE
CAPACITY = 2 * TOKENS // EXPERTS


def parameters_of(normal, zeros, ones):
    layers = []
    for layer in range(LAYERS):
        p = {name: ones(HIDDEN) for name in ("norm1", "norm2")} | {f"{name}_bias": zeros(HIDDEN) for name in ("norm1", "norm2")}
        for name in ("q", "k", "v", "o"):
            p |= {name: normal(HIDDEN, HIDDEN), f"{name}_bias": zeros(HIDDEN)}
        if layer % 2:
            p |= {"gate": normal(HIDDEN, EXPERTS), "up": normal(EXPERTS, HIDDEN, WIDTH), "down": normal(EXPERTS, WIDTH, HIDDEN)}
        else:
            p |= {"up": normal(HIDDEN, WIDTH), "up_bias": zeros(WIDTH), "down": normal(WIDTH, HIDDEN), "down_bias": zeros(HIDDEN)}
        layers.append(p)
    return {"table": normal(WORDS, HIDDEN), "positions": normal(SEQUENCE, HIDDEN), "norm": ones(HIDDEN), "norm_bias": zeros(HIDDEN),
            "head": zeros(WORDS), "layers": layers}


class Torch:
    def __init__(self, compiled):
        import torch
        import torch.nn.functional as F
        torch.set_num_threads(THREADS)
        self.name = f"PyTorch {torch.__version__}, " + ("compile" if compiled else "eager")
        leaves = []

        def leaf(x):
            leaves.append(x.requires_grad_())
            return x

        p = parameters_of(lambda *s: leaf(torch.randn(*s) * 0.02), lambda *s: leaf(torch.zeros(*s)), lambda *s: leaf(torch.ones(*s)))
        tokens = torch.tensor([(i * i + 5 * i) % WORDS for i in range(TOKENS)]).reshape(BATCH, SEQUENCE)

        def route(gates):
            first = F.one_hot(gates.argmax(-1), EXPERTS).float()
            second = F.one_hot((gates - 2 * first).argmax(-1), EXPERTS).float()
            place = first * (first.cumsum(1) - first) + second * (second.cumsum(1) - second + first.sum(1, keepdim=True))
            weight = gates * (first + second)
            weight = weight / weight.sum(-1, keepdim=True)
            here = place[..., None] == torch.arange(CAPACITY, dtype=torch.float32)
            zero = torch.zeros(())
            balance = EXPERTS * (first.mean(1) * gates.mean(1)).sum(-1).mean()
            return torch.where(here, (first + second)[..., None], zero), torch.where(here, weight[..., None], zero), balance

        def block(p, x):
            h = F.layer_norm(x, (HIDDEN,), p["norm1"], p["norm1_bias"])
            q, k, v = ((h @ p[n] + p[n + "_bias"]).reshape(BATCH, SEQUENCE, HEADS, -1).transpose(1, 2) for n in "qkv")
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + a @ p["o"] + p["o_bias"]
            h = F.layer_norm(x, (HIDDEN,), p["norm2"], p["norm2_bias"])
            if "gate" not in p:
                return x + F.gelu(h @ p["up"] + p["up_bias"], approximate="tanh") @ p["down"] + p["down_bias"], 0.0
            t = h.reshape(1, TOKENS, HIDDEN)
            dispatch, combine, balance = route(torch.softmax(t @ p["gate"], -1))
            sent = torch.einsum("gsec,gsm->egcm", dispatch, t).reshape(EXPERTS, -1, HIDDEN)
            result = (F.gelu(sent @ p["up"], approximate="tanh") @ p["down"]).reshape(EXPERTS, 1, -1, HIDDEN)
            return x + torch.einsum("gsec,egcm->gsm", combine, result).reshape(x.shape), balance

        def loss_of():
            x, balance = F.embedding(tokens, p["table"]) + p["positions"], 0.0
            for layer in p["layers"]:
                x, b = block(layer, x)
                balance = balance + b
            logits = F.layer_norm(x, (HIDDEN,), p["norm"], p["norm_bias"]) @ p["table"].T + p["head"]
            return F.cross_entropy(logits.reshape(TOKENS, WORDS), tokens.reshape(TOKENS)) + 0.01 * balance / (LAYERS // 2)

        self.loss_of = torch.compile(loss_of) if compiled else loss_of
        self.optimizer = torch.optim.Adam(leaves, lr=1e-7)

    def seconds_of(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss_of().backward()
            self.optimizer.step()
        return time.perf_counter() - start


class Jax(JaxSteps):
    def __init__(self):
        jax, sharded = forced_host_devices(DEVICES)
        import jax.numpy as jnp
        self.name = f"JAX {jax.__version__}, " + ("jit" if DEVICES == 1 else "batch and experts split")
        keys = iter(jax.random.split(jax.random.PRNGKey(0), 100))
        laid = lambda x: sharded(x, *(("d",) if x.ndim == 3 else ()))  # weights of experts have three dimensions
        p = parameters_of(lambda *s: laid(jax.random.normal(next(keys), s) * 0.02), lambda *s: laid(jnp.zeros(s)),
                          lambda *s: laid(jnp.ones(s)))
        tokens = sharded(jnp.array([(i * i + 5 * i) % WORDS for i in range(TOKENS)]).reshape(BATCH, SEQUENCE), "d")

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
            q, k, v = ((h @ p[n] + p[n + "_bias"]).reshape(BATCH, SEQUENCE, HEADS, -1) for n in "qkv")
            products = jnp.einsum("bthd,bshd->bhts", q, k) / (HIDDEN // HEADS) ** 0.5
            seen = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool)), products, -1e9))
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


programs = [OnRequest("alpa", [BENCH, f"--batch={BATCH}", f"--sequence={SEQUENCE}", f"--devices={DEVICES}"]), Apart(Jax)]
if DEVICES == 1:
    programs += [Apart(Torch, False), Apart(Torch, True)]
take_turns(programs, ROUNDS, batch=BATCH, sequence=SEQUENCE, threads=THREADS, devices=DEVICES)
