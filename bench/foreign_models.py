"""Models of other people's packages: are they imported, planned, and computed as jax computes them?

    pip install jax flax dm-haiku equinox keras flaxmodels optax
    PYTHONPATH=bindings/python ALPA_LIBRARY=build/release/libalpa_c.so python3 bench/foreign_models.py [--json FILE] [NAME...]

Each model's loss is planned for eight A100 (AdamW, at most 20 s), and run once on one and on four CPU devices, with SGD of
rate 1, whose change of a parameter is its gradient. Errors are relative: of the loss, and the most of any gradient, to its
largest entry or 1. "rounding" is the same error of jax's own gradient where inputs change in their last bit: a network with
ReLUs on few rows is that sensitive. Exit status 1 if an error exceeds 1e-5 and twice that.
"""
import argparse
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import sys
import time

os.environ["KERAS_BACKEND"] = "jax"
import jax
import jax.numpy as jnp
import numpy as np
import optax

import alpa

MODELS = {}


def model(package):
    def known(make):
        MODELS[make.__name__] = (package, make)
        return make
    return known


def floats(*shape):
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


def ids(most, *shape):
    return jnp.asarray(np.random.default_rng(most).integers(0, most, size=shape), jnp.int32)


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


# ---- dm-haiku ----
def of_haiku(build, x, rows=None):
    import haiku as hk
    network = hk.transform_with_state(lambda x: build(hk)(x))
    params, state = network.init(jax.random.key(0), x)

    def loss(params, batch):
        return cross_entropy(network.apply(params, state, None, batch["x"])[0], batch["y"])

    return loss, params, {"x": x, "y": ids(10, rows or x.shape[0])}


@model("dm-haiku")
def haiku_mlp():
    return of_haiku(lambda hk: hk.nets.MLP([64, 32, 10]), floats(8, 20))


@model("dm-haiku")
def haiku_resnet18():
    return of_haiku(lambda hk: lambda x: hk.nets.ResNet18(10)(x, is_training=True), floats(4, 32, 32, 3))


@model("dm-haiku")
def haiku_resnet50():
    return of_haiku(lambda hk: lambda x: hk.nets.ResNet50(10, resnet_v2=True)(x, is_training=True), floats(4, 32, 32, 3))


@model("dm-haiku")
def haiku_mobilenet():
    return of_haiku(lambda hk: lambda x: hk.nets.MobileNetV1(num_classes=10)(x, is_training=True), floats(4, 64, 64, 3))


@model("dm-haiku")
def haiku_lstm():
    def build(hk):
        def unrolled(x):
            core = hk.LSTM(16)
            return hk.Linear(10)(hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0][-1])
        return unrolled
    return of_haiku(build, floats(6, 8, 12), rows=8)


@model("dm-haiku")
def haiku_transformer():
    def build(hk):
        def classified(tokens):
            x, mask = hk.Embed(50, 32)(tokens), jnp.tril(jnp.ones((1, 1, 12, 12)))
            for _ in range(2):
                h = hk.LayerNorm(-1, True, True)(x)
                x += hk.MultiHeadAttention(4, 8, w_init=hk.initializers.VarianceScaling(1.0))(h, h, h, mask=mask)
                x += hk.nets.MLP([64, 32], activation=jax.nn.gelu)(hk.LayerNorm(-1, True, True)(x))
            return hk.Linear(10)(x.mean(1))
        return classified
    return of_haiku(build, ids(50, 4, 12))


# ---- Keras ----
def of_keras(name, size):
    import keras
    network = getattr(keras.applications, name)(input_shape=(size, size, 3), weights=None, classes=10)
    kept = [v.value for v in network.non_trainable_variables]

    def loss(params, batch):
        shares = network.stateless_call(params, kept, batch["x"], training=False)[0]
        return -jnp.mean(jnp.log(jnp.take_along_axis(shares, batch["y"][:, None], 1) + 1e-7))

    return loss, [v.value for v in network.trainable_variables], {"x": floats(4, size, size, 3), "y": ids(10, 4)}


for name, size in {"MobileNetV2": 32, "EfficientNetB0": 32, "ConvNeXtTiny": 32, "DenseNet121": 32, "InceptionV3": 75}.items():
    MODELS["keras_" + name.lower()] = ("keras", functools.partial(of_keras, name, size))


# ---- Equinox ----
def of_equinox(build, x, labels):
    import equinox as eqx
    params, rest = eqx.partition(build(eqx, jax.random.split(jax.random.key(0), 4)), eqx.is_inexact_array)

    def loss(params, batch):
        return cross_entropy(jax.vmap(eqx.combine(params, rest))(batch["x"]), batch["y"])

    return loss, params, {"x": x, "y": labels}


@model("equinox")
def equinox_convolutions():
    def build(eqx, keys):
        nn = eqx.nn
        return nn.Sequential([nn.Conv2d(3, 8, 3, key=keys[0]), nn.MaxPool2d(2, 2), nn.Lambda(jax.nn.relu), nn.GroupNorm(4, 8),
                              nn.Lambda(jnp.ravel), nn.Linear(392, 32, key=keys[1]), nn.Lambda(jax.nn.silu),
                              nn.LayerNorm(32), nn.Linear(32, 10, key=keys[2])])
    return of_equinox(build, floats(4, 3, 16, 16), ids(10, 4))


@model("equinox")
def equinox_attention():
    def build(eqx, keys):
        embed, norm = eqx.nn.Embedding(40, 32, key=keys[0]), eqx.nn.RMSNorm(32)
        attention = eqx.nn.MultiheadAttention(4, 32, key=keys[1])
        rotary, mlp = eqx.nn.RotaryPositionalEmbedding(8), eqx.nn.MLP(32, 10, 48, 2, key=keys[2])

        class Decoder(eqx.Module):
            parts: tuple

            def __call__(self, tokens):
                embed, norm, attention, mlp = self.parts
                x = jax.vmap(embed)(tokens)
                h = jax.vmap(norm)(x)
                turn = jax.vmap(rotary, in_axes=1, out_axes=1)
                x += attention(h, h, h, mask=jnp.tril(jnp.ones((12, 12), bool)),
                               process_heads=lambda q, k, v: (turn(q), turn(k), v))
                return jax.vmap(mlp)(x)

        return Decoder((embed, norm, attention, mlp))
    return of_equinox(build, ids(40, 4, 12), ids(10, 4, 12))


# ---- flaxmodels ----
def of_flaxmodels(build, size):
    import flaxmodels
    network, x = build(flaxmodels), floats(4, size, size, 3)
    variables = network.init(jax.random.key(0), x)
    rest = {kind: values for kind, values in variables.items() if kind != "params"}

    def loss(params, batch):
        found = network.apply({"params": params, **rest}, batch["x"], train=False)
        return cross_entropy(found.reshape(found.shape[0], -1)[:, :10], batch["y"])

    return loss, variables["params"], {"x": x, "y": ids(10, 4)}


@model("flaxmodels")
def flaxmodels_resnet18():
    return of_flaxmodels(lambda f: f.ResNet18(output="logits", pretrained=None, num_classes=10, normalize=False), 64)


@model("flaxmodels")
def flaxmodels_vgg16():
    return of_flaxmodels(lambda f: f.VGG16(output="logits", pretrained=None, include_head=False, normalize=False), 32)


# ---- What comes out ----
def error(found, expected):
    """The most of any tensor's differences, relative to its largest entry or 1."""
    return max(float(np.abs(np.asarray(a) - b).max() / max(1, np.abs(b).max()))
               for a, b in zip(jax.tree.leaves(found), map(np.asarray, jax.tree.leaves(expected))))


def rounded(x, seed):
    if x.dtype != jnp.float32:
        return x
    return x * (1 + 1e-7 * np.random.default_rng(seed).normal(size=x.shape).astype(np.float32))


def row(name):
    package, make = MODELS[name]
    loss, params, batch = make()
    differentiated = jax.jit(jax.value_and_grad(loss))
    value, gradient = differentiated(params, batch)
    rounding = max(error(differentiated(params, jax.tree.map(lambda x: rounded(x, seed), batch))[1], gradient)
                   for seed in range(4))
    begin = time.monotonic()
    plan = alpa.plan(loss, params, batch, cluster="dgx-a100", optimizer=alpa.adamw(), time_limit=20)
    result = {"model": name, "package": f"{package} {importlib.metadata.version(package)}",
              "parameters": sum(x.size for x in jax.tree.leaves(params)), "seconds_to_plan": time.monotonic() - begin,
              "step_seconds": plan.seconds, "gap": plan.gap, "meshes": plan.meshes, "rounding": rounding}
    for devices in (1, 4):
        run = alpa.parallelize(loss, params, batch, devices=devices, optimizer=alpa.sgd(1.0), time_limit=20)
        found = run.step(batch).loss
        change = jax.tree.map(lambda before, after: np.asarray(before) - after, params, run.arguments)
        result[f"loss_error_{devices}"] = abs(found - float(value)) / abs(float(value))
        result[f"gradient_error_{devices}"] = error(change, gradient)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MODELS)}; all without")
    parser.add_argument("--json", metavar="FILE", help="gets a line about the machine and one per model")
    flags = parser.parse_args()
    if unknown := set(flags.names) - set(MODELS):
        parser.error(f"unknown models: {', '.join(sorted(unknown))}")
    lines = [{"hardware": f"{os.cpu_count()} cores of {platform.machine()}", "date": datetime.date.today().isoformat(),
              "versions": {"alpa": alpa.__version__, "jax": jax.__version__},
              "command": " ".join(["python3 bench/foreign_models.py", *flags.names])}]
    failed = False
    for name in flags.names or MODELS:
        lines.append(row(name))
        print(json.dumps(lines[-1]), flush=True)
        most = max(1e-5, 2 * lines[-1]["rounding"])
        failed |= max(value for key, value in lines[-1].items() if "_error_" in key) > most
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
