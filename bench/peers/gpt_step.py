#!/usr/bin/env python3
"""The training step of a GPT, alpa's and those of JAX and PyTorch, on the CPU with the same threads, in turn.

bench/gpt_step.cc: blocks of layer norm, causal attention, layer norm, GELU feed-forward; tied embeddings, learnt positions,
cross-entropy, Adam, f32. PyTorch uses its fused attention and fused Adam. With several devices the peers are JAX's: as many
forced host devices, with shardings by hand: rows of the batch (jax-data), or heads, columns of the first and rows of the second
matrix, and the vocabulary (jax-megatron). Prints one JSON object per line: median seconds of a step, their ratio to alpa's
(median of the rounds), and peak memory of each process.

    bench/peers/gpt_step.py build/bin/bench_gpt_step [--layers 4 --hidden 512 --heads 8 --sequence 256 --vocabulary 8192
        --batch 4 --rounds 7 --peers jax,eager,compile --threads 2 --devices 1 --method shard]
"""
import argparse
import time

from turns import Apart, OnRequest, adam_steps, forced_host_devices, take_turns

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bench")
SIZES = (("layers", 4), ("hidden", 512), ("heads", 8), ("sequence", 256), ("vocabulary", 8192), ("batch", 4), ("devices", 1))
for name, default in SIZES + (("rounds", 7), ("threads", 2)):
    parser.add_argument(f"--{name}", type=int, default=default)
parser.add_argument("--peers", help="default: jax,eager,compile; of several devices jax-data,jax-megatron")
parser.add_argument("--method", default="shard")
O = parser.parse_args()
O.peers = O.peers or ("jax,eager,compile" if O.devices == 1 else "jax-data,jax-megatron")
HEAD = O.hidden // O.heads


def jax_step(plan=""):
    jax, sharded = forced_host_devices(O.devices)
    import jax.numpy as jnp
    cut = "d" if plan == "megatron" else None  # along this axis the matrices of a block are cut as Megatron-LM does it
    normal = lambda i, shape, *axes: sharded(jax.random.normal(jax.random.PRNGKey(i), shape) * 0.02, *axes)
    constant = lambda value, size, *axes: sharded(jnp.full(size, jnp.float32(value)), *axes)
    norm_of = lambda: (constant(1, O.hidden), constant(0, O.hidden))
    # Columns of q, k and v are apart where they are cut.
    three = (3 * O.hidden,) if O.devices == 1 else (3, O.hidden)
    three_axes = (None,) * (len(three) - 1) + (cut,)
    blocks = [{"n1": norm_of(), "n2": norm_of(),
               "qkv": (normal(4 * i, (O.hidden, *three), None, *three_axes), constant(0, three, *three_axes)),
               "out": (normal(4 * i + 1, (O.hidden, O.hidden), cut, None), constant(0, O.hidden)),
               "up": (normal(4 * i + 2, (O.hidden, 4 * O.hidden), None, cut), constant(0, 4 * O.hidden, cut)),
               "down": (normal(4 * i + 3, (4 * O.hidden, O.hidden), cut, None), constant(0, O.hidden))} for i in range(O.layers)]
    parameters = {"blocks": blocks, "tokens": normal(99, (O.vocabulary, O.hidden), cut, None), "bias": constant(0, O.vocabulary, cut),
                  "positions": normal(98, (O.sequence, O.hidden)), "norm": norm_of()}

    def norm(x, p):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p[0] + p[1]

    def block(x, p):
        y = jnp.tensordot(norm(x, p["n1"]), p["qkv"][0], 1) + p["qkv"][1]
        q, k, v = jnp.split(y, 3, -1) if y.ndim == 3 else (y[:, :, i] for i in range(3))
        heads = lambda y: y.reshape(*y.shape[:2], O.heads, HEAD)
        y = jax.nn.dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + y.reshape(x.shape) @ p["out"][0] + p["out"][1]
        return x + jax.nn.gelu(norm(x, p["n2"]) @ p["up"][0] + p["up"][1]) @ p["down"][0] + p["down"][1]

    def loss_of(p):
        x = p["tokens"][tokens] + p["positions"]
        for b in p["blocks"]:
            x = block(x, b)
        logits = norm(x, p["norm"]) @ p["tokens"].T + p["bias"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1))

    tokens = sharded(jnp.arange(O.batch * O.sequence).reshape(O.batch, O.sequence) * 7919 % O.vocabulary,
                     "d" if plan == "data" else None)
    step, state = adam_steps(loss_of, parameters)

    def run():
        nonlocal state
        state = step(*state)[:-1]
        jax.block_until_ready(state)
    return run


def torch_step(compiled):
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(O.threads)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(O.hidden), nn.LayerNorm(O.hidden)
            self.qkv, self.out = nn.Linear(O.hidden, 3 * O.hidden), nn.Linear(O.hidden, O.hidden)
            self.up, self.down = nn.Linear(O.hidden, 4 * O.hidden), nn.Linear(4 * O.hidden, O.hidden)

        def forward(self, x):
            heads = lambda y: y.view(*y.shape[:2], O.heads, HEAD).transpose(1, 2)
            q, k, v = map(heads, self.qkv(self.n1(x)).split(O.hidden, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(O.vocabulary, O.hidden)
            self.positions = nn.Parameter(0.02 * torch.randn(O.sequence, O.hidden))
            self.blocks = nn.ModuleList(Block() for _ in range(O.layers))
            self.norm, self.bias = nn.LayerNorm(O.hidden), nn.Parameter(torch.zeros(O.vocabulary))
            nn.init.normal_(self.tokens.weight, 0, 0.02)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight, self.bias)
            return F.cross_entropy(logits.view(-1, O.vocabulary), ids.view(-1))

    model = Gpt()
    ids = (torch.arange(O.batch * O.sequence) * 7919 % O.vocabulary).view(O.batch, O.sequence)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7, fused=True)
    loss_of = torch.compile(model) if compiled else model

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss_of(ids).backward()
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
    sizes = [word for name, _ in SIZES for word in (f"--{name}", str(getattr(O, name)))]
    programs = [OnRequest("alpa", [O.bench, *sizes, "--method", O.method, "--on-request"])] + [Apart(Peer, name) for name in O.peers.split(",")]
    take_turns(programs, O.rounds, threads=O.threads, method=O.method, **{name: getattr(O, name) for name, _ in SIZES})
