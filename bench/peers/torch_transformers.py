"""Llama-like decoder, BERT and ViT of bench/transformer_step.cc in PyTorch, with its fused attention. Each is a module whose result
is the loss of a batch. `o` has layers, hidden, heads, sequence, vocabulary, image and batch."""
import torch
from torch import nn
from torch.nn import functional as F

PATCH, CLASSES, EVERY = 16, 1000, 7  # as there: BERT hides every 7th token


def heads_of(y, heads):
    return y.view(*y.shape[:2], heads, -1).transpose(1, 2)


def joined(y):
    return y.transpose(1, 2).flatten(2)


class EncoderBlock(nn.Module):
    def __init__(self, o, norm_first):
        super().__init__()
        self.heads, self.norm_first = o.heads, norm_first
        self.n1, self.n2 = nn.LayerNorm(o.hidden), nn.LayerNorm(o.hidden)
        self.qkv, self.out = nn.Linear(o.hidden, 3 * o.hidden), nn.Linear(o.hidden, o.hidden)
        self.up, self.down = nn.Linear(o.hidden, 4 * o.hidden), nn.Linear(4 * o.hidden, o.hidden)

    def attention(self, x):
        q, k, v = (heads_of(y, self.heads) for y in self.qkv(x).chunk(3, -1))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v)))

    def feed_forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.n1(x))
            return x + self.feed_forward(self.n2(x))
        x = self.n1(x + self.attention(x))
        return self.n2(x + self.feed_forward(x))


class Bert(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(o.vocabulary, o.hidden), nn.Embedding(o.sequence, o.hidden)
        self.first, self.last = nn.LayerNorm(o.hidden), nn.LayerNorm(o.hidden)
        self.blocks = nn.ModuleList(EncoderBlock(o, False) for _ in range(o.layers))
        self.transform, self.bias = nn.Linear(o.hidden, o.hidden), nn.Parameter(torch.zeros(o.vocabulary))
        nn.init.normal_(self.tokens.weight, 0, 0.02)

    def forward(self, ids, labels):
        x = self.first(self.tokens(ids) + self.positions.weight[:ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        x = self.last(F.gelu(self.transform(x), approximate="tanh"))
        return F.cross_entropy(F.linear(x, self.tokens.weight, self.bias).flatten(0, 1), labels.flatten(), ignore_index=-1)


class Vit(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patches = nn.Conv2d(3, o.hidden, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, o.hidden))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (o.image // PATCH) ** 2 + 1, o.hidden))
        self.blocks = nn.ModuleList(EncoderBlock(o, True) for _ in range(o.layers))
        self.norm, self.head = nn.LayerNorm(o.hidden), nn.Linear(o.hidden, CLASSES)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), labels)


class LlamaBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.key_heads, width = o.heads, max(1, o.heads // 4), 11 * o.hidden // 4
        linear = lambda *sizes: nn.Linear(*sizes, bias=False)
        self.n1, self.n2 = nn.RMSNorm(o.hidden, 1e-6), nn.RMSNorm(o.hidden, 1e-6)
        keys = o.hidden // o.heads * self.key_heads
        self.q, self.k, self.v, self.out = linear(o.hidden, o.hidden), linear(o.hidden, keys), linear(o.hidden, keys), linear(o.hidden, o.hidden)
        self.gate, self.up, self.down = linear(o.hidden, width), linear(o.hidden, width), linear(width, o.hidden)

    def forward(self, x, cos, sin):
        y = self.n1(x)
        turned = lambda h: h * cos + torch.cat([-h[..., h.shape[-1] // 2:], h[..., :h.shape[-1] // 2]], -1) * sin
        q, k, v = turned(heads_of(self.q(y), self.heads)), turned(heads_of(self.k(y), self.key_heads)), heads_of(self.v(y), self.key_heads)
        x = x + self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens = nn.Embedding(o.vocabulary, o.hidden)
        self.blocks = nn.ModuleList(LlamaBlock(o) for _ in range(o.layers))
        self.norm, self.head = nn.RMSNorm(o.hidden, 1e-6), nn.Linear(o.hidden, o.vocabulary, bias=False)
        width = o.hidden // o.heads
        angles = torch.outer(torch.arange(o.sequence), 10000 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, labels):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


MODELS = {"llama": Llama, "bert": Bert, "vit": Vit}


def batch_of(o):
    """What the model's `forward` takes."""
    ids = lambda *shape, below: (torch.arange(torch.Size(shape).numel()) * 7919 % below).view(shape)
    if o.model == "vit":
        return torch.randn(o.batch, 3, o.image, o.image), ids(o.batch, below=CLASSES)
    tokens = ids(o.batch, o.sequence, below=o.vocabulary)
    if o.model == "llama":
        return tokens, tokens
    hidden = torch.arange(o.batch * o.sequence).view(o.batch, o.sequence) % EVERY == 0
    return tokens, torch.where(hidden, tokens, -1)
