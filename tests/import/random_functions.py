#!/usr/bin/env python3
"""Makes random functions of jax: chains of operations on arrays of random shapes and types.

    python3 tests/import/random_functions.py                      # tests/import/data/random.*
    python3 tests/import/random_functions.py SEED COUNT NAME      # others, as data/NAME.*

Without jax: see make.py. NAME.mlir.gz has a module for each function behind a line "// name".
NAME.safetensors has the arguments of function N as "in.N.I" and its results as "out.N.I". A third
of the functions are gradients.
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false"

import jax
import jax.numpy as jnp
import numpy as np

import make

lax = jax.lax
EXTENTS = [1, 2, 3, 4, 4, 5, 8]
F32, I32, U32, BOOL = jnp.float32, jnp.int32, jnp.uint32, jnp.bool_


class Maker:
    """One function in the making: what it takes, and its steps so far."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.args, self.steps, self.names = [], [], []

    def of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def up_to(self, n):
        return int(self.rng.integers(n))

    def shape(self, rank=None):
        rank = self.of(1, 2, 2, 3, 3, 4) if rank is None else rank
        return tuple(int(self.of(*EXTENTS)) for _ in range(rank))

    def argument(self, shape, dtype=F32, most=6):
        """A new argument, which is a value at once: the number of the value."""
        if dtype == F32:
            x = jnp.asarray(self.rng.normal(size=shape), F32)
        else:
            low = -most + 1 if dtype == I32 else 0
            x = jnp.asarray(self.rng.integers(low, most if dtype != BOOL else 2, size=shape), dtype)
        self.args.append(x)
        return len(self.args) - 1

    def add(self, name, f, *used):
        """`used`: numbers of values; those of arguments are below the number of arguments."""
        self.steps.append((f, used))
        self.names.append(name)

    def run(self, args):
        values = list(args)
        for f, used in self.steps:
            values.append(f(*(values[u] for u in used)))
        return values[len(args):]


def axis(m, x):
    return m.up_to(x.ndim)


def perhaps_axes(m, x):
    if m.up_to(4) == 0:
        return None
    count = 1 + m.up_to(x.ndim)
    return tuple(sorted(int(a) for a in m.rng.permutation(x.ndim)[:count]))


UNARY = {
    "tanh": jnp.tanh, "sin": jnp.sin, "cos": jnp.cos, "exp": lambda x: jnp.exp(-jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(x * x), "log": lambda x: jnp.log(jnp.abs(x) + 0.5),
    "sqrt": lambda x: jnp.sqrt(x * x + 1), "rsqrt": lambda x: lax.rsqrt(x * x + 1),
    "abs": jnp.abs, "sigmoid": jax.nn.sigmoid, "softplus": jax.nn.softplus, "relu": jax.nn.relu,
    "relu6": jax.nn.relu6, "leaky": jax.nn.leaky_relu, "selu": jax.nn.selu,
    "gelu": jax.nn.gelu, "exact gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "silu": jax.nn.silu, "square": jnp.square, "cbrt": lambda x: jnp.cbrt(x * x + 0.1),
    "erf": jax.scipy.special.erf, "expm1": lambda x: jnp.expm1(jnp.tanh(x)),
    "cube": lambda x: jnp.tanh(x) ** 3, "power": lambda x: (jnp.abs(x) + 0.1) ** 0.7,
    "reciprocal": lambda x: 1 / (1 + x * x), "floor": lambda x: jnp.floor(x * 1.7) + 0.5 * x,
    "ceil": lambda x: jnp.ceil(x * 1.3) * x, "sign": lambda x: jnp.sign(x) * x + x,
    "clip": lambda x: jnp.clip(x, -0.7, 0.9), "negative": lambda x: -x, "half": lambda x: (
        x.astype(jnp.bfloat16) * 2).astype(F32), "f16": lambda x: x.astype(jnp.float16).astype(F32),
    "finite": lambda x: jnp.where(jnp.isfinite(x / (x - x[(0,) * x.ndim])), x, 2.0),
    "round": lambda x: jnp.round(x * 2.3) + x, "mod": lambda x: jnp.mod(x, 1.3),
    "rem": lambda x: lax.rem(x, F32(1.3)), "max 0": lambda x: jnp.maximum(0.0, x) + 0.1 * x,
    "stop": lambda x: lax.stop_gradient(x) * x, "checkpoint": lambda x: jax.checkpoint(
        lambda y: jnp.sin(jnp.tanh(y) * y))(x),
    "atan2": lambda x: jnp.arctan2(x, 1 + x * x), "logistic": lambda x: jax.nn.log_sigmoid(x),
    "hypot": lambda x: jnp.hypot(x, 0.5), "sinh": lambda x: jnp.sinh(jnp.tanh(x)),
}

OVER_AXES = {
    "sum": jnp.sum, "mean": jnp.mean, "max": jnp.max, "min": jnp.min, "var": jnp.var,
    "prod": lambda x, axis, keepdims: jnp.prod(jnp.tanh(x), axis, keepdims=keepdims),
    "logsumexp": lambda x, axis, keepdims: jax.nn.logsumexp(x, axis, keepdims=keepdims),
    "std": lambda x, axis, keepdims: jnp.sqrt(jnp.var(x, axis, keepdims=keepdims) + 0.1),
    "any": lambda x, axis, keepdims: jnp.any(x > 0.3, axis, keepdims=keepdims).astype(F32),
    "all": lambda x, axis, keepdims: jnp.all(x > -1.5, axis, keepdims=keepdims) * 1.5,
}

OVER_AXIS = {
    "softmax": jax.nn.softmax, "log softmax": jax.nn.log_softmax, "cumsum": jnp.cumsum,
    "flip": lambda x, axis: jnp.flip(x, axis) * x, "roll": lambda x, axis: jnp.roll(x, 2, axis),
    "argmax": lambda x, axis: jnp.argmax(x, axis).astype(F32) + jnp.max(x, axis),
    "argmin": lambda x, axis: jnp.argmin(x, axis).astype(F32) * jnp.min(x, axis),
    "cummax": lambda x, axis: lax.cummax(x, axis), "sort": jnp.sort,
    "cumprod": lambda x, axis: lax.cumprod(jnp.tanh(x), axis),
    "normalise": lambda x, axis: jax.nn.standardize(x, axis), "diff": lambda x, axis: (
        jnp.diff(x, axis=axis) if x.shape[axis] > 1 else x),
    "glu": lambda x, axis: jax.nn.glu(x, axis) if x.shape[axis] % 2 == 0 else x,
    "stack": lambda x, axis: jnp.stack([x, jnp.cos(x)], axis),
    "twice": lambda x, axis: jnp.concatenate([x, x * 0.5], axis),
    "repeat": lambda x, axis: jnp.repeat(x, 2, axis),
    "split": lambda x, axis: jnp.split(x, [x.shape[axis] // 2], axis)[1] if x.shape[axis] > 1 else x,
    "reverse cumsum": lambda x, axis: lax.cumsum(x, axis, reverse=True),
    "cumlogsumexp": lambda x, axis: lax.cumlogsumexp(x, axis),
}

BINARY = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply,
    "divide": lambda x, y: x / (1 + y * y), "maximum": jnp.maximum, "minimum": jnp.minimum,
    "where": lambda x, y: jnp.where(x > y, x, 0.5 * y),
    "masks": lambda x, y: jnp.where((x > 0.1) & (y < 1) | ~(x < 1), x, y),
    "logaddexp": jnp.logaddexp, "pow": lambda x, y: (jnp.abs(x) + 0.5) ** jnp.tanh(y),
    "xor": lambda x, y: jnp.where((x > 0) ^ (y > 0), x, y), "squared": lambda x, y: (x - y) ** 2,
    "equal": lambda x, y: (jnp.floor(x) == jnp.floor(y)) * x + jnp.where(x != y, y, x),
}

INTEGERS = {
    "mix": lambda i: (i * 7 + 3) % 5, "floor div": lambda i: i // 3, "div": lambda i: lax.div(i, 2),
    "rem": lambda i: lax.rem(i, 3), "bits": lambda i: (i & 3) | (i ^ 1) - (~i), "abs": jnp.abs,
    "sign": jnp.sign, "shift": lambda i: i << 2, "clip": lambda i: jnp.clip(i, -2, 3),
    "max": lambda i: jnp.maximum(i, 1) + jnp.minimum(i, 2), "power": lambda i: i * i * i,
    "unsigned": lambda i: (i.astype(U32) >> 3).astype(F32) / 2.0**28,
    "mask": lambda i: jnp.where(i > 1, i, -i), "cumsum": lambda i: jnp.cumsum(i, -1),
    "sum": lambda i: i.sum(-1, keepdims=True), "max of": lambda i: i.max(0, keepdims=True),
    "bool": lambda i: i.astype(bool) + i, "shift right": lambda i: i >> 1,
    "count": lambda i: lax.population_count(i),
}


def elementwise(m, x, u):
    name = m.of(*UNARY)
    m.add(name, UNARY[name], u)


def over_axes(m, x, u):
    name, axes, keep = m.of(*OVER_AXES), perhaps_axes(m, x), bool(m.up_to(2))
    m.add(name, lambda x: OVER_AXES[name](x, axis=axes, keepdims=keep), u)


def over_axis(m, x, u):
    name, a = m.of(*OVER_AXIS), axis(m, x)
    m.add(name, lambda x: OVER_AXIS[name](x, axis=a), u)


def with_integers(m, x, u):
    name = m.of(*INTEGERS)
    i = m.argument(x.shape, I32)
    m.add("i32 " + name, lambda i, x: INTEGERS[name](i).astype(F32) * x, i, u + 1)


def binary(m, x, u):
    name = m.of(*BINARY)
    shape = tuple(1 if m.up_to(3) == 0 else n for n in x.shape)[m.up_to(x.ndim + 1):]
    y = m.argument(shape)
    m.add(name, BINARY[name] if m.up_to(2) else lambda y, x: BINARY[name](x, y), y, u + 1)


def moved(m, x, u):
    order = tuple(int(d) for d in m.rng.permutation(x.ndim))
    shape = m.of((-1,), (x.size // x.shape[-1], x.shape[-1]), (1, *x.shape), (*x.shape, 1),
                 x.shape[::-1])
    m.add("moved", lambda x: jnp.transpose(x, order).reshape(shape), u)


def sliced(m, x, u):
    at = tuple(slice(m.up_to(n), None, m.of(1, 1, 2)) if m.up_to(2) else
               m.of(slice(None), slice(None, None, -1)) for n in x.shape)
    m.add("sliced", lambda x: x[at], u)


def padded(m, x, u):
    sizes = [(m.of(-1, 0, 1, 2) if n > 2 else m.of(0, 1), m.of(0, 1), m.of(0, 0, 1))
             for n in x.shape]
    m.add("padded", lambda x: lax.pad(x, F32(0.25), sizes), u)


def product(m, x, u):
    n, b = x.shape[-1], x.shape[0]
    letters = "abcd"[:x.ndim]
    kind = m.of("matmul", "batched", "outer", "self")
    if kind == "matmul":
        w = m.argument((n, m.of(*EXTENTS)))
        m.add(kind, lambda w, x: x @ w, w, u + 1)
    elif kind == "batched":
        w = m.argument((b, n, m.of(*EXTENTS)) if x.ndim > 1 else (n, 2))
        e = f"{letters},{'a' + letters[-1] if x.ndim > 1 else 'a'}z->z{letters[:-1] or ''}"
        m.add(kind, lambda w, x: jnp.einsum(e, x, w), w, u + 1)
    elif kind == "outer":
        w = m.argument((m.of(2, 3, 4),))
        m.add(kind, lambda w, x: jnp.einsum(f"z,{letters}->{letters[0]}z{letters[1:]}", w, x), w,
              u + 1)
    else:
        m.add(kind, lambda x: jnp.einsum(f"{letters},{letters[:-1]}z->z{letters[-1]}", x, x), u)


def looked_up(m, x, u):
    n = x.shape[0]
    kind = m.of("take", "along", "one hot", "add at", "set at", "segment", "rows", "max at")
    if kind == "along":
        i = m.argument((*x.shape[:-1], m.of(1, 3)), U32, x.shape[-1])
        m.add(kind, lambda i, x: jnp.take_along_axis(x, i.astype(I32), -1), i, u + 1)
        return
    i = m.argument(m.shape(m.of(1, 2)), U32, n)
    i_of = lambda i: i.astype(I32)
    size = int(np.prod(m.args[i].shape))
    m.add(kind, {
        "take": lambda i, x: jnp.take(x, i_of(i), 0, mode=kind and "clip"),
        "rows": lambda i, x: x[i_of(i)],
        "one hot": lambda i, x: jnp.tensordot(jax.nn.one_hot(i_of(i), n), x, 1),
        "add at": lambda i, x: x.at[i_of(i)].add(0.5 * x[i_of(i)]),
        "set at": lambda i, x: x.at[i_of(i)].set(1.5),
        "max at": lambda i, x: x.at[i_of(i)].max(0.5),
        "segment": lambda i, x: jax.ops.segment_sum(
            jnp.broadcast_to(x[:1], (size, *x.shape[1:])), i_of(i).reshape(-1), n),
    }[kind], i, u + 1)


def dynamic(m, x, u):
    sizes = tuple(1 + m.up_to(n) for n in x.shape)
    i = m.argument((), I32, 4)
    starts = lambda i: (i,) + (0,) * (x.ndim - 1)
    m.add(*m.of(("dynamic slice", lambda i, x: lax.dynamic_slice(x, starts(i), sizes)),
                ("dynamic update", lambda i, x: lax.dynamic_update_slice(
                    x, 0.5 * x[tuple(slice(n) for n in sizes)], starts(i))),
                ("dynamic row", lambda i, x: lax.dynamic_index_in_dim(x, i, 0))), i, u + 1)


def loop(m, x, u):
    m.add(*m.of(
        ("fori", lambda x: lax.fori_loop(0, 3, lambda n, y: jnp.sin(y) + 0.3 * n * x, x)),
        ("scan", lambda x: lax.scan(lambda c, r: (0.5 * c + r, c * r), x[0], x)[1]),
        ("reverse scan", lambda x: lax.scan(lambda c, r: (0.5 * c - r, c + r), x[0], x,
                                            reverse=True)[0]),
        ("map", lambda x: lax.map(lambda r: jnp.tanh(r) * r.sum(), x)),
        ("vmap", lambda x: jax.vmap(lambda r: jax.nn.softmax(jnp.outer(r.ravel(), r.ravel())))(x)),
        ("while", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (
            c[0] + 1, jnp.cos(c[1])), (0, x))[1]),
        ("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)),
        ("associative", lambda x: lax.associative_scan(jnp.add, x))), u)


def made(m, x, u):
    d = axis(m, x)
    key = jax.random.key(m.up_to(1000))
    n = x.shape[d]
    m.add(*m.of(
        ("iota", lambda x: x * lax.broadcasted_iota(F32, x.shape, d)),
        ("tril", lambda x: jnp.where(jnp.tril(jnp.ones(x.shape[-2:])) > 0, x, -1.0) if x.ndim > 1
         else x),
        ("linspace", lambda x: jnp.moveaxis(jnp.moveaxis(x, d, -1) * jnp.linspace(0, 1, n), -1, d)),
        ("eye", lambda x: x @ jnp.eye(x.shape[-1], k=1)),
        ("uniform", lambda x: x * jax.random.uniform(key, x.shape, minval=-1)),
        ("bernoulli", lambda x: jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x / 0.7, 0)),
        ("normal", lambda x: x + jax.random.normal(key, x.shape)),
        ("randint", lambda x: x * jax.random.randint(key, x.shape, 0, 5)),
        ("split", lambda x: x * jax.random.uniform(jax.random.split(key, 3)[1], x.shape)),
        ("table", lambda x: x + jnp.asarray(np.arange(x.size).reshape(x.shape) % 7, F32))), u)


def windows(m, x, u):
    c = x.shape[-1]
    stride, dilation = m.of(1, 2), m.of(1, 1, 2)
    if x.ndim == 3:
        w = m.argument((m.of(1, 2, 3), c, m.of(1, 4)))
        m.add("conv 1d", lambda w, x: lax.conv_general_dilated(
            x, w, (stride,), "SAME", rhs_dilation=(dilation,),
            dimension_numbers=("NWC", "WIO", "NWC")), w, u + 1)
    elif x.ndim == 4 and m.up_to(2):
        groups = m.of(1, c)
        w = m.argument((m.of(1, 2, 3), m.of(1, 2), c // groups, c * m.of(1, 2)))
        pad = m.of("SAME", [(1, 2), (0, 1)])
        m.add("conv 2d", lambda w, x: lax.conv_general_dilated(
            x, w, (stride, 1), pad, rhs_dilation=(1, dilation), feature_group_count=groups,
            dimension_numbers=("NHWC", "HWIO", "NHWC")), w, u + 1)
    else:
        sizes = (1,) + tuple(m.of(1, 2) for _ in x.shape[1:])
        strides = (1,) + tuple(m.of(1, 2) for _ in x.shape[1:])
        start, how = m.of((-jnp.inf, lax.max), (0.0, lax.add))
        m.add("pool", lambda x: lax.reduce_window(x, start, how, sizes, strides, "SAME"), u)


MAKERS = [elementwise, elementwise, over_axes, over_axis, over_axis, binary, binary, with_integers,
          moved, sliced, padded, product, product, looked_up, dynamic, loop, made, windows]
MOST_ELEMENTS = 600
REFUSED = TypeError, ValueError, IndexError, NotImplementedError


def function(seed):
    """A name, a function and its arguments."""
    m = Maker(seed)
    elementwise(m, None, m.argument(m.shape()))
    wanted = m.of(3, 5, 7)
    while len(m.steps) < wanted:
        u = len(m.args) + len(m.steps) - 1
        x = jax.eval_shape(m.run, m.args)[-1]
        if x.ndim == 0 or x.size > MOST_ELEMENTS or x.size == 0:
            m.add("joined", lambda x: x.reshape(-1)[:16], u)
            if x.size == 0:
                return function(seed + 1000003)
            continue
        before = len(m.args), len(m.steps), len(m.names)
        old = m.steps[:]
        m.of(*MAKERS)(m, x, u)
        if len(m.args) > before[0]:  # arguments come before other values
            moved_by = len(m.args) - before[0]
            m.steps = [(f, tuple(i + (moved_by if i >= before[0] else 0) for i in used))
                       for f, used in old] + m.steps[before[1]:]
        try:
            jax.eval_shape(m.run, m.args)
        except REFUSED:
            del m.args[before[0]:], m.names[before[2]:]
            m.steps = old
    args, name = list(m.args), ", ".join(m.names)

    def value(*given):
        return m.run(list(given))[-1]

    if seed % 3 == 0:
        floats = [i for i, a in enumerate(args) if a.dtype == F32]
        f = jax.value_and_grad(lambda *given: jnp.sum(jnp.tanh(value(*given))), tuple(floats))
        try:
            jax.eval_shape(f, *args)
            return "gradient: " + name, f, args
        except REFUSED:  # such as loops without a gradient
            pass
    return name, lambda *given: (value(*given), value(*given).sum()), args


def main(seed=0, count=130, name="random"):
    texts, numbers = [], {}
    for n in range(int(count)):
        what, f, args = function(int(seed) * 100000 + n)
        results = jax.tree.leaves(jax.jit(f, keep_unused=True)(*args))
        if not all(np.isfinite(np.asarray(r, np.float64)).all() for r in results):
            continue
        lowered = jax.jit(f, keep_unused=True).lower(*args).compiler_ir("stablehlo")
        k = len(texts)
        texts.append(f"// {n} {what}\n" + lowered.operation.get_asm(print_generic_op_form=True))
        numbers |= {f"in.{k}.{i}": a for i, a in enumerate(args)}
        numbers |= {f"out.{k}.{i}": a for i, a in enumerate(results)}
    make.write(name, "// -----\n".join(texts), numbers)
    print(len(texts), "functions")


if __name__ == "__main__":
    main(*sys.argv[1:])
