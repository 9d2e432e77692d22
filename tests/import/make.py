#!/usr/bin/env python3
"""Makes the texts and numbers of tests/import/data: what jax writes of small models and computes.

    pip install jax flax optax safetensors && python3 tests/import/make.py

NAME.mlir.gz is the generic form of StableHLO of a function of (params, batch) or of a whole step of
(state, batch). NAME.safetensors has its arguments as "in.N", its results as "out.N" and, of a loss,
the gradient of argument N as "grad.N"; of a step, the losses of ten on the same batch as "losses.0"
and the state behind them as "end.N".
"""
import gzip
import math
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "data"
MODELS = {}
STEPS = 10


def model(f):
    MODELS[f.__name__] = f
    return f


def array(key, *shape, scale=1.0):
    rng = np.random.default_rng(abs(hash_of(key)))
    return jnp.asarray(rng.normal(size=shape) * scale, jnp.float32)


def hash_of(text):
    value = 0
    for c in str(text):
        value = (value * 31 + ord(c)) % 2**31
    return value


def ids(key, most, *shape):
    rng = np.random.default_rng(hash_of(key))
    return jnp.asarray(rng.integers(0, most, size=shape), jnp.int32)


def dense(name, n, m):
    return {"kernel": array(name, n, m, scale=n**-0.5), "bias": array(name + "b", m, scale=0.1)}


def affine(p, x):
    return x @ p["kernel"] + p["bias"]


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


# ---- MLP ----
def mlp_params():
    return {"hidden": dense("hidden", 16, 32), "out": dense("out", 32, 10)}


def mlp_batch():
    return {"x": array("x", 8, 16), "y": ids("y", 10, 8)}


def mlp_loss(params, batch):
    return cross_entropy(affine(params["out"], jax.nn.relu(affine(params["hidden"], batch["x"]))),
                         batch["y"])


@model
def mlp():
    return mlp_loss, mlp_params(), mlp_batch()


def whole(loss, optimizer, params):
    def step(state, batch):
        value, grads = jax.value_and_grad(loss)(state["params"], batch)
        updates, opt = optimizer.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, value

    return step, {"params": params, "opt": optimizer.init(params)}


def adamw():
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 20)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))


@model
def mlp_sgd():
    step, state = whole(mlp_loss, optax.sgd(0.1), mlp_params())
    return step, state, mlp_batch()


@model
def mlp_adamw():
    step, state = whole(mlp_loss, adamw(), mlp_params())
    return step, state, mlp_batch()


# ---- Llama-like ----
V, T, C, H, K, D, F = 24, 6, 16, 4, 2, 4, 20


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x):
    angles = jnp.arange(T)[:, None] * 10000.0 ** (-jnp.arange(0, D, 2) / D)[None]
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def llama_attention(p, x):
    b = x.shape[0]
    q = rotary((x @ p["q"]).reshape(b, T, H, D))
    k = rotary((x @ p["k"]).reshape(b, T, K, D))
    v = (x @ p["v"]).reshape(b, T, K, D)
    k, v = jnp.repeat(k, H // K, 2), jnp.repeat(v, H // K, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)
    scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -1e9)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return y.reshape(b, T, H * D) @ p["o"]


def llama_block(p, x):
    x = x + llama_attention(p, rms_norm(x, p["norm1"]))
    h = rms_norm(x, p["norm2"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def llama_layer(i):
    n = f"l{i}"
    return {"q": array(n + "q", C, H * D, scale=0.2), "k": array(n + "k", C, K * D, scale=0.2),
            "v": array(n + "v", C, K * D, scale=0.2), "o": array(n + "o", H * D, C, scale=0.2),
            "gate": array(n + "g", C, F, scale=0.2), "up": array(n + "u", C, F, scale=0.2),
            "down": array(n + "d", F, C, scale=0.2),
            "norm1": 1 + array(n + "n1", C, scale=0.1), "norm2": 1 + array(n + "n2", C, scale=0.1)}


def llama_params():
    return {"embed": array("e", V, C), "layers": [llama_layer(i) for i in range(2)],
            "norm": 1 + array("n", C, scale=0.1), "head": array("h", C, V, scale=0.2)}


def llama_loss(params, batch):
    x = params["embed"][batch["ids"]]
    for p in params["layers"]:
        x = llama_block(p, x)
    return cross_entropy(rms_norm(x, params["norm"]) @ params["head"], batch["labels"])


def llama_batch():
    return {"ids": ids("ids", V, 4, T), "labels": ids("labels", V, 4, T)}


@model
def llama():
    return llama_loss, llama_params(), llama_batch()


def stacked():
    params = llama_params()
    params["layers"] = jax.tree.map(lambda *x: jnp.stack(x), *params["layers"])
    return params


def llama_scan_loss(params, batch):
    x = params["embed"][batch["ids"]]
    x, _ = jax.lax.scan(jax.checkpoint(lambda x, p: (llama_block(p, x), None)), x,
                        params["layers"])
    return cross_entropy(rms_norm(x, params["norm"]) @ params["head"], batch["labels"])


@model
def llama_scan():
    return llama_scan_loss, stacked(), llama_batch()


@model
def llama_scan_adamw():
    step, state = whole(llama_scan_loss, adamw(), stacked())
    return step, state, llama_batch()


# ---- BERT ----
def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def norm_params(name):
    return {"scale": 1 + array(name + "s", C, scale=0.1), "bias": array(name + "b", C, scale=0.1)}


def encoder_layer(n):
    return {"q": dense(n + "q", C, C), "k": dense(n + "k", C, C), "v": dense(n + "v", C, C),
            "o": dense(n + "o", C, C), "up": dense(n + "u", C, F), "down": dense(n + "d", F, C),
            "norm1": norm_params(n + "1"), "norm2": norm_params(n + "2")}


def encoder_attention(p, x, mask=None):
    b, t, _ = x.shape
    q, k, v = (affine(p[n], x).reshape(b, t, H, D) for n in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)
    if mask is not None:
        scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return affine(p["o"], y.reshape(b, t, C))


def drop(key, x, rate=0.1):
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def bert_params():
    return {"embed": array("e", V, C), "position": array("p", T, C),
            "layers": [encoder_layer(f"b{i}") for i in range(2)], "head": dense("head", C, V)}


def bert_batch():
    mask = jnp.asarray(np.arange(T)[None] < np.array([6, 5, 4, 3])[:, None], jnp.int32)
    return {"ids": ids("ids", V, 4, T), "labels": ids("labels", V, 4, T), "mask": mask}


def bert_loss(params, batch, key=None):
    x = params["embed"][batch["ids"]] + params["position"]
    for p in params["layers"]:
        y = encoder_attention(p, x, batch["mask"])
        if key is not None:
            key, now = jax.random.split(key)
            y = drop(now, y)
        x = layer_norm(p["norm1"], x + y)
        h = affine(p["down"], jax.nn.gelu(affine(p["up"], x), approximate=False))
        x = layer_norm(p["norm2"], x + h)
    losses = optax.softmax_cross_entropy_with_integer_labels(affine(params["head"], x),
                                                             batch["labels"])
    return (losses * batch["mask"]).sum() / batch["mask"].sum()


@model
def bert():
    return bert_loss, bert_params(), bert_batch()


@model
def bert_dropout():
    def loss(params, batch):
        return bert_loss(params, batch, jax.random.wrap_key_data(batch["key"]))

    return loss, bert_params(), {**bert_batch(), "key": jnp.asarray([1, 2], jnp.uint32)}


# ---- ViT ----
@model
def vit():
    params = {"patch": {"kernel": array("pk", 4, 4, 3, C, scale=0.2), "bias": array("pb", C)},
              "position": array("pos", 17, C), "cls": array("cls", 1, 1, C),
              "layers": [encoder_layer(f"v{i}") for i in range(2)], "norm": norm_params("n"),
              "head": dense("head", C, 10)}

    def loss(params, batch):
        x = jax.lax.conv_general_dilated(batch["x"], params["patch"]["kernel"], (4, 4), "VALID",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = (x + params["patch"]["bias"]).reshape(x.shape[0], 16, C)
        x = jnp.concatenate([jnp.tile(params["cls"], (x.shape[0], 1, 1)), x], 1)
        x = x + params["position"]
        for p in params["layers"]:
            x = x + encoder_attention(p, layer_norm(p["norm1"], x))
            h = affine(p["up"], layer_norm(p["norm2"], x))
            x = x + affine(p["down"], jax.nn.gelu(h))
        return cross_entropy(affine(params["head"], layer_norm(params["norm"], x)[:, 0]),
                             batch["y"])

    return loss, params, {"x": array("x", 4, 16, 16, 3), "y": ids("y", 10, 4)}


# ---- ResNet ----
def conv(x, kernel, stride=1):
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(p, x):
    mean, square = x.mean((0, 1, 2)), (x * x).mean((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-5) * p["scale"] + p["bias"]


def resnet_norm(n, c):
    return {"scale": 1 + array(n + "s", c, scale=0.1), "bias": array(n + "b", c, scale=0.1)}


def resnet_params():
    return {"stem": array("stem", 3, 3, 3, 8, scale=0.3), "norm": resnet_norm("n", 8),
            "c1": array("c1", 3, 3, 8, 16, scale=0.2), "n1": resnet_norm("n1", 16),
            "c2": array("c2", 3, 3, 16, 16, scale=0.2), "n2": resnet_norm("n2", 16),
            "short": array("short", 1, 1, 8, 16, scale=0.3), "head": dense("head", 16, 10)}


def resnet_loss(p, batch):
    x = jax.nn.relu(batch_norm(p["norm"], conv(batch["x"], p["stem"], 1)))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    y = jax.nn.relu(batch_norm(p["n1"], conv(x, p["c1"], 2)))
    y = batch_norm(p["n2"], conv(y, p["c2"]))
    x = jax.nn.relu(y + conv(x, p["short"], 2))
    return cross_entropy(affine(p["head"], x.mean((1, 2))), batch["y"])


def resnet_batch():
    return {"x": array("x", 4, 16, 16, 3), "y": ids("y", 10, 4)}


@model
def resnet():
    return resnet_loss, resnet_params(), resnet_batch()


@model
def resnet_adamw():
    step, state = whole(resnet_loss, adamw(), resnet_params())
    return step, state, resnet_batch()


@model
def llama_adamw():
    step, state = whole(llama_loss, adamw(), llama_params())
    return step, state, llama_batch()


@model
def bert_adamw():
    step, state = whole(bert_loss, adamw(), bert_params())
    return step, state, bert_batch()


# ---- The four families in flax: whole steps ----
def flax_step(loss, variables):
    """`loss` gives its value and the new statistics of batch norm, which are state beside AdamW's."""
    params, rest = variables["params"], {k: v for k, v in variables.items() if k != "params"}
    optimizer = adamw()

    def step(state, batch):
        def of(params):
            return loss({"params": params, **state["rest"]}, batch)

        (value, rest), grads = jax.value_and_grad(of, has_aux=True)(state["params"])
        updates, opt = optimizer.update(grads, state["opt"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt": opt, "rest": rest}, value

    return step, {"params": params, "opt": optimizer.init(params), "rest": rest}


def flax_decoder(scan):
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _=None):
            mask = nn.make_causal_mask(x[..., 0])
            attention = nn.MultiHeadDotProductAttention(H, use_bias=False)
            x = x + attention(nn.RMSNorm()(x), mask=mask)
            y = nn.RMSNorm()(x)
            y = nn.silu(nn.Dense(F, use_bias=False)(y)) * nn.Dense(F, use_bias=False)(y)
            return x + nn.Dense(C, use_bias=False)(y), None

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, ids):
            x = nn.Embed(V, C)(ids)
            if scan:
                layers = nn.scan(nn.remat(Block), variable_axes={"params": 0},
                                 split_rngs={"params": True}, length=2)
                x, _ = layers()(x, None)
            else:
                for _ in range(2):
                    x, _ = Block()(x)
            return nn.Dense(V)(nn.RMSNorm()(x))

    def loss(variables, batch):
        return cross_entropy(Decoder().apply(variables, batch["ids"]), batch["labels"]), {}

    batch = {"ids": ids("ids", V, 4, T), "labels": ids("labels", V, 4, T)}
    return loss, Decoder().init(jax.random.key(0), batch["ids"]), batch


@model
def flax_llama():
    loss, variables, batch = flax_decoder(scan=False)
    return lambda params, batch: loss({"params": params}, batch)[0], variables["params"], batch


@model
def flax_llama_adamw():
    loss, variables, batch = flax_decoder(scan=False)
    return *flax_step(loss, variables), batch


@model
def flax_llama_scan_adamw():
    loss, variables, batch = flax_decoder(scan=True)
    return *flax_step(loss, variables), batch


@model
def flax_bert_adamw():
    import flax.linen as nn

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, ids, mask):
            x = nn.Embed(V, C)(ids)
            x = x + self.param("position", nn.initializers.normal(0.02), (T, C))
            pairs = nn.make_attention_mask(jnp.ones_like(mask), mask)
            for _ in range(2):
                x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(H)(x, mask=pairs))
                x = nn.LayerNorm()(x + nn.Dense(C)(nn.gelu(nn.Dense(F)(x))))
            return nn.Dense(V)(x)

    def loss(variables, batch):
        logits = Encoder().apply(variables, batch["ids"], batch["mask"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["labels"])
        return (losses * batch["mask"]).sum() / batch["mask"].sum(), {}

    batch = bert_batch()
    variables = Encoder().init(jax.random.key(0), batch["ids"], batch["mask"])
    return *flax_step(loss, variables), batch


def flax_images(net, statistics):
    """A step of a classifier of images."""
    def loss(variables, batch):
        logits, rest = net.apply(variables, batch["x"], mutable=statistics)
        return cross_entropy(logits, batch["y"]), rest

    batch = {"x": array("fi", 4, 8, 8, 3), "y": ids("fy", 5, 4)}
    return *flax_step(loss, net.init(jax.random.key(0), batch["x"])), batch


@model
def flax_vit_adamw():
    import flax.linen as nn

    class Vit(nn.Module):
        @nn.compact
        def __call__(self, images):
            x = nn.Conv(C, (4, 4), strides=4)(images)
            x = x.reshape(x.shape[0], -1, C)
            x = x + self.param("position", nn.initializers.normal(0.02), x.shape[1:])
            for _ in range(2):
                x = x + nn.MultiHeadDotProductAttention(H)(nn.LayerNorm()(x))
                x = x + nn.Dense(C)(nn.gelu(nn.Dense(F)(nn.LayerNorm()(x))))
            return nn.Dense(5)(nn.LayerNorm()(x).mean(1))

    return flax_images(Vit(), [])


@model
def flax_resnet_adamw():
    import flax.linen as nn

    class Resnet(nn.Module):
        @nn.compact
        def __call__(self, x):
            for channels, strides in ((8, 1), (12, 2)):
                y = nn.Conv(channels, (3, 3), strides, use_bias=False)(x)
                y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
                y = nn.Conv(channels, (3, 3), use_bias=False)(y)
                y = nn.BatchNorm(use_running_average=False)(y)
                x = nn.relu(y + nn.Conv(channels, (1, 1), strides, use_bias=False)(x))
            return nn.Dense(5)(x.mean((1, 2)))

    return flax_images(Resnet(), ["batch_stats"])


def text_of(f, *args, named=False):
    module = jax.jit(f).lower(*args).compiler_ir("stablehlo")
    return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=named)


def stored(array):
    array = np.asarray(array)
    return array.view(np.int32) if array.dtype == np.uint32 else array.copy(order="C")


def write(name, text, numbers):
    with gzip.GzipFile(FOLDER / f"{name}.mlir.gz", "wb", mtime=0) as file:
        file.write(text.encode())
    save_file({k: stored(v) for k, v in numbers.items()}, FOLDER / f"{name}.safetensors")
    print(name, len(text))


# ---- Kinds: small functions of one or two arrays, each in a module of its own ----
def kinds():
    x, y = array("kx", 4, 6), array("ky", 6, 5)
    i = ids("ki", 4, 3)
    t, images = array("kt", 2, 3, 4), array("kim", 2, 8, 8, 4)
    k1, kernel = array("k1", 3, 6, 2), array("kk", 3, 3, 4, 6)
    at = ids("kat", 6, 4, 1)
    lax = jax.lax
    conv = lax.conv_general_dilated

    def pool(x, dims, window, strides, padding, how=lax.max, start=-jnp.inf):
        return lax.reduce_window(x, start, how, window, strides, padding)

    return {
        "rows": (lambda x: x[i], x),
        "columns": (lambda x: x[:, i], x),
        "points": (lambda x: x[i, i + 1], x),
        "rows of three": (lambda t: t[:, jnp.array([2, 0, 0])], t),
        "row": (lambda x: x[2] * x[-1], x),
        "along": (lambda x: jnp.take_along_axis(x, at, 1), x),
        "along rows": (lambda x: jnp.take_along_axis(x, ids("kar", 4, 2, 6), 0), x),
        "outside": (lambda x: jnp.take(x, jnp.array([1, 3]), 0, mode="clip"), x),
        "added": (lambda x: x.at[i].add(jnp.ones((3, 6))) ** 2, x),
        "added points": (lambda x: (x.at[i, i].add(2.0)) ** 2, x),
        "set row": (lambda x: lax.dynamic_update_slice(x, x[:1, :2] * 3, (2, 1)) ** 2, x),
        "slice": (lambda x: x[1:3, ::2] ** 2, x),
        "dynamic": (lambda x: lax.dynamic_slice(x, (i[0], 0), (1, 6)) ** 2, x),
        "pad": (lambda x: lax.pad(x, 0.5, ((1, 2, 0), (-1, 0, 1))) ** 2, x),
        "flip": (lambda x: x[::-1] * x[:, ::-1], x),
        "roll": (lambda x: jnp.roll(x, 2, 1) * x, x),
        "stack": (lambda x: jnp.stack([x, x * 2], 1) ** 2, x),
        "transposed": (lambda t: jnp.transpose(t, (2, 0, 1)).reshape(8, 3) ** 2, t),
        "product": (lambda x, y: jnp.einsum("ab,bc->ca", x, y), x, y),
        "batched": (lambda t: jnp.einsum("abc,adc->bda", t, t), t),
        "outer": (lambda x: jnp.einsum("ab,cd->acbd", x, x)[:2], x),
        "max": (lambda x: x.max(0) * x.min(1).sum(), x),
        "value of max from": (lambda x: lax.reduce(lax.stop_gradient(x), 0.5, lax.max, (1,))
                              .sum() + x, x),
        "value of min from": (lambda x: lax.reduce(lax.stop_gradient(x), -0.5, lax.min, (0,))
                              .sum() + x, x),
        "value of sum from": (lambda x: lax.reduce(lax.stop_gradient(x), 2.0, lax.add, (0, 1))
                              + x, x),
        "unsigned": (lambda x: x * jnp.minimum(jnp.maximum(
            jnp.arange(6, dtype=jnp.uint32) * jnp.uint32(900000000), jnp.uint32(2200000000)),
            jnp.uint32(3000000000)).astype(jnp.float32) / 1e9, x),
        "argmax": (lambda x: jax.nn.one_hot(x.argmax(-1), 6) * x, x),
        "clip": (lambda x: jnp.clip(x, -0.5, 0.7) ** 2, x),
        "where": (lambda x: jnp.where((x > 0) & (x < 1) | (x < -1), x * x, jnp.sin(x)), x),
        "logic": (lambda x: jnp.where(jnp.any(x > 1.5, 1, keepdims=True)
                                      ^ ~jnp.all(x > -2, 1, keepdims=True), x, x * x), x),
        "softplus": (lambda x: jax.nn.softplus(x) + jnp.expm1(x) * jnp.log1p(x * x), x),
        "swish": (lambda x: jax.nn.silu(x) + jax.nn.elu(x) + jnp.tanh(x) + jnp.cbrt(x), x),
        "gelus": (lambda x: jax.nn.gelu(x) * jax.nn.gelu(x, approximate=False), x),
        "powers": (lambda x: x**3 + jnp.abs(x)**1.5 + jax.lax.rsqrt(x * x + 1), x),
        "rounded": (lambda x: jnp.floor(x) * x + jnp.ceil(x) + jnp.sign(x) * x, x),
        "erf": (lambda x: jax.scipy.special.erf(x) * jax.scipy.special.erfc(x), x),
        "loop": (lambda x: lax.fori_loop(0, 5, lambda n, y: y * 0.5 + x * n, x), x),
        "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1], x),
        "map": (lambda x: lax.map(lambda r: r * r.sum(), x), x),
        "cumsum": (lambda x: jnp.cumsum(x, 1) ** 2, x),
        "norm": (lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True), x),
        "mean of log softmax at labels": (lambda x: -jnp.take_along_axis(
            jax.nn.log_softmax(x), jnp.array([5, 0, 3, 3])[:, None], -1).mean(), x),
        "log softmax with one-hot labels": (lambda x: -jnp.sum(
            jax.nn.log_softmax(x) * jax.nn.one_hot(jnp.array([5, 6, 0, -1]), 6), -1) ** 2, x),
        "one-hot labels of rows": (lambda t: optax.softmax_cross_entropy(
            t, jax.nn.one_hot(jnp.array([[3, 1, 0], [2, 2, 7]]), 4)).mean(), t),
        "log softmax": (lambda x: jax.nn.log_softmax(x) * x, x),
        "half": (lambda x: (x.astype(jnp.bfloat16) * 2).astype(jnp.float32), x),
        "integers": (lambda x: x * (jnp.arange(6) // 4 - 2 + jnp.arange(6) % 4), x),
        "attention with a mask of numbers": (lambda q: jnp.einsum(
            "bhts,bshd->bthd", jax.nn.softmax(jnp.where(
                jnp.tril(jnp.ones((1, 1, 3, 3))), jnp.einsum("bthd,bshd->bhts", q, q) / 2, -1e30)), q),
            array("kq", 2, 3, 2, 4)),
        "shifted": (lambda x: x * (((x * 900).astype(jnp.int32) >> 3)
                                   + (jnp.arange(6) - 3 >> jnp.arange(28, 34))), x),
        "table": (lambda x: x * jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)),
                                            jnp.float32), x),
        "conv": (lambda x, k: conv(x, k, (2, 1), "SAME",
                                   dimension_numbers=("NHWC", "HWIO", "NHWC")), images, kernel),
        "conv nchw": (lambda x, k: conv(x, k, (1, 1), ((0, 1), (2, 0))),
                      images.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1)),
        "conv 1d": (lambda x, k: conv(x[None], k, (1,), "SAME", rhs_dilation=(2,),
                                      dimension_numbers=("NWC", "WIO", "NWC")),
                    array("kw", 7, 6), k1),
        "depthwise": (lambda x, k: conv(x, k, (1, 1), "VALID", feature_group_count=4,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC")),
                      images, array("kd", 3, 3, 1, 8)),
        "conv transpose": (lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), images, kernel),
        "max pool": (lambda x: pool(x, 4, (1, 2, 3, 1), (1, 2, 1, 1), "VALID"), images),
        "sum pool": (lambda x: pool(x, 4, (1, 1, 3, 3), (1, 1, 2, 2), "SAME", lax.add, 0.0),
                     images.transpose(0, 3, 1, 2)),
        "value of grad pool": (lambda x: jax.grad(
            lambda x: (pool(x, 4, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum())(x), images),
        "grad conv": (lambda x, k: jax.grad(lambda x: (conv(
            x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum())(x),
            images, kernel),
        "grad kernel": (lambda x, k: jax.grad(lambda k: (conv(
            x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum())(k),
            images, kernel),
        "grad rows": (lambda x: jax.grad(lambda x: (x[i] ** 2).sum())(x) * x, x),
        "softmax 0": (lambda x: jax.nn.softmax(x, 0) * x, x),
        "mean": (lambda t: (t - t.mean((0, 2), keepdims=True)) ** 2 / t.var(), t),
    }


# ---- flax: its own layers, as functions of their parameters ----
def flax_layers():
    import flax.linen as nn

    x, images = array("fx", 2, 6, 16), array("fi", 2, 8, 8, 3)
    pad = jnp.asarray(np.arange(6)[None] < np.array([6, 4])[:, None])

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, mask=None):
            mask = nn.make_causal_mask(x[..., 0]) if mask is None else mask
            y = nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=mask)
            x = x + y
            return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))

    class Cnn(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3))(x)))
            x = nn.avg_pool(nn.relu(nn.GroupNorm(4)(nn.Conv(8, (3, 3), strides=2)(x))), (2, 2))
            return nn.Dense(4)(x.reshape(x.shape[0], -1))

    def of(module, *args):
        variables = module.init(jax.random.key(0), *args)
        leaves, tree = jax.tree.flatten(variables["params"])
        rest = {k: v for k, v in variables.items() if k != "params"}

        def f(*leaves):
            given = {"params": jax.tree.unflatten(tree, leaves), **rest}
            return module.apply(given, *args, mutable=list(rest))[0]

        return f, *leaves

    return {
        "causal block": of(Block(), x),
        "block with padding": of(Block(), x, nn.make_attention_mask(pad, pad)),
        "convolutions": of(Cnn(), images),
        "embedding": of(nn.Embed(7, 5), ids("fe", 7, 3, 4)),
        "rms norm": of(nn.RMSNorm(), x),
        "lstm": of(nn.RNN(nn.LSTMCell(5)), x),
        "gru": of(nn.RNN(nn.GRUCell(5)), x),
    }


def write_functions(file, functions):
    texts, numbers = [], {}
    for n, (name, (f, *args)) in enumerate(functions.items()):
        def total(*given, f=f):
            found = f(*given)
            return (found * jnp.cos(jnp.arange(found.size).reshape(found.shape))).sum()

        texts.append(f"// {name}\n" + text_of(total, *args))
        grads = jax.grad(total, argnums=tuple(range(len(args))))(*args)
        numbers[f"out.{n}"] = total(*args)
        for a, (x, g) in enumerate(zip(args, grads)):
            numbers |= {f"in.{n}.{a}": x, f"grad.{n}.{a}": g}
    write(file, "// -----\n".join(texts), numbers)


# ---- Functions that draw random numbers, where others may be drawn ----
def random_numbers():
    x = jnp.zeros((64, 48))

    def dropped(x, key):
        return (x * drop(jax.random.wrap_key_data(key), x, 0.3)).sum()

    def again(x, key):  # jax.checkpoint draws the mask again for the gradient
        value, grad = jax.value_and_grad(jax.checkpoint(dropped))(x, key)
        return grad, value

    def uniform(x, key):
        one, two = jax.random.split(jax.random.wrap_key_data(key))
        numbers = [jax.random.uniform(k, x.shape[1:], minval=-2, maxval=3)
                   for k in (one, two, one)]
        return jnp.stack(numbers) + x, (x * x).sum()

    return {"dropout": (dropped, x), "dropout again": (again, x),
            "uniform": (uniform, jnp.zeros((3, 64, 48)))}


def write_random_numbers():
    texts = [f"// {name}\n" + text_of(f, x, jnp.asarray([1, 2], jnp.uint32))
             for name, (f, x) in random_numbers().items()]
    write("random_numbers", "// -----\n".join(texts), {})


def write_mlp_data():
    """Examples for the MLP, by its argument names: the class is the largest of ten sums."""
    x = array("data", 64, 16)
    save_file({"batch.x": stored(x), "batch.y": stored((x @ array("of", 16, 10)).argmax(-1))},
              FOLDER / "mlp_data.safetensors")


def main(names):
    FOLDER.mkdir(exist_ok=True)
    write_mlp_data()
    write_random_numbers()
    files = {"kinds": kinds, "flax": flax_layers}
    for name in files:
        if not names or name in names:
            write_functions(name, files[name]())
    for name in [name for name in names or MODELS if name in MODELS]:
        f, state, batch = MODELS[name]()
        text = text_of(f, state, batch, named=name == "mlp")
        found = jax.jit(f)(state, batch)
        numbers = {f"in.{i}": a for i, a in enumerate(jax.tree.leaves((state, batch)))}
        numbers |= {f"out.{i}": a for i, a in enumerate(jax.tree.leaves(found))}
        if isinstance(found, tuple):
            losses, step = [], jax.jit(f)
            for _ in range(STEPS):
                state, loss = step(state, batch)
                losses.append(loss)
            numbers |= {f"end.{i}": a for i, a in enumerate(jax.tree.leaves(state))}
            numbers["losses.0"] = np.asarray(losses, np.float32)
        else:
            grads = jax.tree.leaves(jax.grad(f)(state, batch))
            numbers |= {f"grad.{i}": a for i, a in enumerate(grads)}
        write(name, text, numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
