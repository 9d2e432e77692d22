"""GPT of bench/transformer_step.cc in JAX and in PyTorch: blocks of layer norm, causal attention, layer norm, GELU feed-forward; tied
embeddings, learnt positions, cross-entropy. `o` has layers, hidden, heads, sequence and vocabulary,
and for JAX maybe attention, an implementation of its fused attention."""


def jax_gpt(o, sharded, cut=None, apart=False):
    """Parameters, laid out by `sharded`, and the loss of them and of tokens [B, T]. Along the axis `cut` the matrices of a block
    are cut as Megatron-LM does it; `apart`: columns of q, k and v are so."""
    import jax
    import jax.numpy as jnp
    head = o.hidden // o.heads
    normal = lambda i, shape, *axes: sharded(jax.random.normal(jax.random.PRNGKey(i), shape) * 0.02, *axes)
    constant = lambda value, size, *axes: sharded(jnp.full(size, jnp.float32(value)), *axes)
    norm_of = lambda: (constant(1, o.hidden), constant(0, o.hidden))
    three = (3, o.hidden) if apart else (3 * o.hidden,)
    three_axes = (None,) * (len(three) - 1) + (cut,)
    blocks = [{"n1": norm_of(), "n2": norm_of(),
               "qkv": (normal(4 * i, (o.hidden, *three), None, *three_axes), constant(0, three, *three_axes)),
               "out": (normal(4 * i + 1, (o.hidden, o.hidden), cut, None), constant(0, o.hidden)),
               "up": (normal(4 * i + 2, (o.hidden, 4 * o.hidden), None, cut), constant(0, 4 * o.hidden, cut)),
               "down": (normal(4 * i + 3, (4 * o.hidden, o.hidden), cut, None), constant(0, o.hidden))} for i in range(o.layers)]
    parameters = {"blocks": blocks, "tokens": normal(99, (o.vocabulary, o.hidden), cut, None), "bias": constant(0, o.vocabulary, cut),
                  "positions": normal(98, (o.sequence, o.hidden)), "norm": norm_of()}

    def norm(x, p):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p[0] + p[1]

    def block(x, p):
        y = jnp.tensordot(norm(x, p["n1"]), p["qkv"][0], 1) + p["qkv"][1]
        q, k, v = jnp.split(y, 3, -1) if y.ndim == 3 else (y[:, :, i] for i in range(3))
        heads = lambda y: y.reshape(*y.shape[:2], o.heads, head)
        y = jax.nn.dot_product_attention(heads(q), heads(k), heads(v), is_causal=True, implementation=getattr(o, "attention", None))
        x = x + y.reshape(x.shape) @ p["out"][0] + p["out"][1]
        return x + jax.nn.gelu(norm(x, p["n2"]) @ p["up"][0] + p["up"][1]) @ p["down"][0] + p["down"][1]

    def loss_of(p, tokens):
        x = p["tokens"][tokens] + p["positions"]
        for b in p["blocks"]:
            x = block(x, b)
        logits = norm(x, p["norm"]) @ p["tokens"].T + p["bias"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), tokens[..., None], -1))

    return parameters, loss_of


def torch_gpt(o):
    """A module whose result is the loss of tokens [B, T]; its member `blocks` has the blocks."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(o.hidden), nn.LayerNorm(o.hidden)
            self.qkv, self.out = nn.Linear(o.hidden, 3 * o.hidden), nn.Linear(o.hidden, o.hidden)
            self.up, self.down = nn.Linear(o.hidden, 4 * o.hidden), nn.Linear(4 * o.hidden, o.hidden)

        def forward(self, x):
            heads = lambda y: y.view(*y.shape[:2], o.heads, o.hidden // o.heads).transpose(1, 2)
            q, k, v = map(heads, self.qkv(self.n1(x)).split(o.hidden, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(o.vocabulary, o.hidden)
            self.positions = nn.Parameter(0.02 * torch.randn(o.sequence, o.hidden))
            self.blocks = nn.ModuleList(Block() for _ in range(o.layers))
            self.norm, self.bias = nn.LayerNorm(o.hidden), nn.Parameter(torch.zeros(o.vocabulary))
            nn.init.normal_(self.tokens.weight, 0, 0.02)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions
            for block in self.blocks:
                x = block(x)
            return self.head(x, ids)

        def head(self, x, ids):
            logits = F.linear(self.norm(x), self.tokens.weight, self.bias)
            return F.cross_entropy(logits.view(-1, o.vocabulary), ids.view(-1))

    return Gpt()
