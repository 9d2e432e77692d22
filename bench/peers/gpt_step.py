#!/usr/bin/env python3
"""The training step of a GPT, alpa's and those of JAX and PyTorch, on the CPU with the same threads, in turn.

bench/gpt_step.cc: blocks of layer norm, causal attention, layer norm, GELU feed-forward; tied embeddings, learnt positions,
cross-entropy, Adam, f32. PyTorch uses its fused attention and fused Adam. Prints one JSON object per line: median seconds of a
step, their ratio to alpa's (median of the rounds), and peak memory of each process.

    bench/peers/gpt_step.py build/bin/bench_gpt_step [--layers 4 --hidden 512 --heads 8 --sequence 256 --vocabulary 8192
        --batch 4 --rounds 7 --peers jax,eager,compile --threads 2]
"""
import argparse
import multiprocessing
import resource
import time

from turns import OnRequest, adam, ends_with_us, take_turns

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bench")
SIZES = (("layers", 4), ("hidden", 512), ("heads", 8), ("sequence", 256), ("vocabulary", 8192), ("batch", 4))
for name, default in SIZES + (("rounds", 7), ("threads", 2)):
    parser.add_argument(f"--{name}", type=int, default=default)
parser.add_argument("--peers", default="jax,eager,compile")
O = parser.parse_args()
HEAD = O.hidden // O.heads


def jax_step():
    import jax
    jax.config.update("jax_platforms", "cpu")
    import jax.numpy as jnp
    normal = lambda i, shape: jax.random.normal(jax.random.PRNGKey(i), shape) * 0.02
    blocks = [{"n1": (jnp.ones(O.hidden), jnp.zeros(O.hidden)), "n2": (jnp.ones(O.hidden), jnp.zeros(O.hidden)),
               "qkv": (normal(4 * i, (O.hidden, 3 * O.hidden)), jnp.zeros(3 * O.hidden)),
               "out": (normal(4 * i + 1, (O.hidden, O.hidden)), jnp.zeros(O.hidden)),
               "up": (normal(4 * i + 2, (O.hidden, 4 * O.hidden)), jnp.zeros(4 * O.hidden)),
               "down": (normal(4 * i + 3, (4 * O.hidden, O.hidden)), jnp.zeros(O.hidden))} for i in range(O.layers)]
    parameters = {"blocks": blocks, "tokens": normal(99, (O.vocabulary, O.hidden)), "bias": jnp.zeros(O.vocabulary),
                  "positions": normal(98, (O.sequence, O.hidden)), "norm": (jnp.ones(O.hidden), jnp.zeros(O.hidden))}

    def norm(x, p):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p[0] + p[1]

    def block(x, p):
        q, k, v = jnp.split(norm(x, p["n1"]) @ p["qkv"][0] + p["qkv"][1], 3, -1)
        heads = lambda y: y.reshape(*y.shape[:2], O.heads, HEAD)
        y = jax.nn.dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + y.reshape(x.shape) @ p["out"][0] + p["out"][1]
        return x + jax.nn.gelu(norm(x, p["n2"]) @ p["up"][0] + p["up"][1]) @ p["down"][0] + p["down"][1]

    def loss_of(p, tokens):
        x = p["tokens"][tokens] + p["positions"]
        for b in p["blocks"]:
            x = block(x, b)
        logits = norm(x, p["norm"]) @ p["tokens"].T + p["bias"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1))

    def step(p, m, v, t):
        loss, g = jax.value_and_grad(loss_of)(p, tokens)
        flat, tree = jax.tree_util.tree_flatten(p)
        rows = [adam(*row, t) for row in zip(flat, *map(jax.tree_util.tree_leaves, (m, v, g)))]
        return [jax.tree_util.tree_unflatten(tree, column) for column in zip(*rows)] + [t + 1]

    tokens = jnp.arange(O.batch * O.sequence).reshape(O.batch, O.sequence) * 7919 % O.vocabulary
    zeros = lambda: jax.tree_util.tree_map(jnp.zeros_like, parameters)
    state = [parameters, zeros(), zeros(), jnp.float32(1)]
    compiled = jax.jit(step, donate_argnums=(0, 1, 2))

    def run():
        nonlocal state
        state = compiled(*state)
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


MAKERS = {"jax": jax_step, "eager": lambda: torch_step(False), "compile": lambda: torch_step(True)}


def serve(maker, pipe):
    ends_with_us()
    run = MAKERS[maker]()
    while True:
        steps = pipe.recv()
        start = time.perf_counter()
        for _ in range(steps):
            run()
        pipe.send((time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


class Peer:
    """A framework in a process of its own."""

    def __init__(self, name):
        self.name, self.bytes = name, 0
        self.pipe, other = multiprocessing.Pipe()
        multiprocessing.Process(target=serve, args=(name, other), daemon=True).start()

    def seconds_of(self, steps):
        self.pipe.send(steps)
        seconds, self.bytes = self.pipe.recv()
        return seconds

    def facts(self):
        return {"peak_bytes": self.bytes}


class Alpa(OnRequest):
    def facts(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return {"peak_bytes": next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))}


if __name__ == "__main__":
    sizes = [word for name, _ in SIZES for word in (f"--{name}", str(getattr(O, name)))]
    programs = [Alpa("alpa", [O.bench, *sizes, "--on-request"])] + [Peer(name) for name in O.peers.split(",")]
    take_turns(programs, O.rounds, threads=O.threads, **{name: getattr(O, name) for name, _ in SIZES})
