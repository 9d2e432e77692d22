#!/usr/bin/env python3
"""The training step of bench/cuda_mlp_step.cc in PyTorch or JAX, one of them in this process.

LAYERS x (Dense + bias, ReLU between), mean squared error, Adam; the same sizes, start, batch and learning rate as ours, Adam's
moments in the parameters' type, and the batch on the device throughout. Prints one JSON object per line and precision:
seconds of one step, the median over ROUNDS of STEPS steps each. scripts/gpu_check sets them beside ours.
Exit status 1 if a precision failed; the others still count.
"""
import argparse
import math
import sys

import resident

PRECISIONS = ("bf16", "tf32", "f32")
RATE = 1e-7  # so small that nothing converges, however many steps are measured
PEERS = {"eager": "PyTorch, fused Adam", "compile": "PyTorch, torch.compile, fused Adam",
         "compile-adam": "PyTorch, torch.compile, compiled Adam", "jax": "JAX, jit"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS, help="; ".join(f"{peer}: {name}" for peer, name in PEERS.items()))
    for name, default in (("dim", 2048), ("batch", 2048), ("layers", 10), ("rounds", 5), ("steps", 200)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--precision", choices=PRECISIONS, action="append", help="default: all, in this order")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    return parser.parse_args()


class TorchStep(resident.TorchStep):
    def __init__(self, options, precision):
        super().__init__(options)
        torch = self.torch
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        layers = []
        for i in range(options.layers):
            dense = torch.nn.Linear(options.dim, options.dim)
            torch.nn.init.kaiming_normal_(dense.weight, nonlinearity="relu")
            torch.nn.init.zeros_(dense.bias)
            layers += [dense, torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1]).to(options.device, dtype)
        self.x = torch.randn(options.batch, options.dim, device=options.device, dtype=dtype)
        compiled_adam = options.peer == "compile-adam"
        # What the compiler fuses by itself is the form of Adam over lists of tensors.
        form = {"foreach": True} if compiled_adam else {"fused": True}
        self.optimizer = torch.optim.Adam(model.parameters(), lr=RATE, capturable=options.device == "cuda", **form)

        def loss_of(x, y):
            return torch.nn.functional.mse_loss(model(x), y)

        self.loss_of = loss_of if options.peer == "eager" else torch.compile(loss_of, mode="reduce-overhead")
        self.update = torch.compile(self.optimizer.step) if compiled_adam else self.optimizer.step
        self.marks = options.peer != "eager"

    def run(self):
        if self.marks:
            self.torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.x, self.x)
        loss.backward()
        self.update()
        self.loss = loss


class JaxStep(resident.JaxStep):
    def __init__(self, options, precision):
        super().__init__(options)
        jax = self.jax
        import jax.numpy as jnp
        dtype = jnp.bfloat16 if precision == "bf16" else jnp.float32
        jax.config.update("jax_default_matmul_precision",
                          {"f32": "highest", "tf32": "tensorfloat32"}.get(precision, "bfloat16"))
        keys = jax.random.split(jax.random.PRNGKey(0), options.layers + 1)
        scale = math.sqrt(2 / options.dim)
        parameters = [(jax.random.normal(key, (options.dim, options.dim), dtype) * jnp.asarray(scale, dtype),
                       jnp.zeros(options.dim, dtype)) for key in keys[1:]]
        x = jax.random.normal(keys[0], (options.batch, options.dim), dtype)

        def loss_of(parameters, x, y):
            for i, (w, b) in enumerate(parameters):
                x = x @ w + b
                if i + 1 < options.layers:
                    x = jax.nn.relu(x)
            return jnp.mean(jnp.square(x - y).astype(jnp.float32))

        def update(w, m, v, g, t):
            w32, m, v, g = (tensor.astype(jnp.float32) for tensor in (w, m, v, g))
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            w32 -= RATE * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
            return tuple(tensor.astype(w.dtype) for tensor in (w32, m, v))

        def step(parameters, m, v, t, x):
            loss, gradients = jax.value_and_grad(loss_of)(parameters, x, x)
            flat, tree = jax.tree_util.tree_flatten(parameters)
            rows = [update(*row, t) for row in zip(flat, *map(jax.tree_util.tree_leaves, (m, v, gradients)))]
            return [jax.tree_util.tree_unflatten(tree, column) for column in zip(*rows)] + [t + 1, loss]

        self.step = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        zeros = [jax.tree_util.tree_map(jnp.zeros_like, parameters) for _ in range(2)]
        self.batch, self.state = x, [parameters, *zeros, jnp.float32(1)]


def measure(options, precision):
    step = (JaxStep if options.peer == "jax" else TorchStep)(options, precision)
    resident.measure(step, options, PEERS[options.peer], model="mlp", precision=precision)


def main():
    options, failed = arguments(), False
    for precision in options.precision or PRECISIONS:
        try:
            measure(options, precision)
        except Exception as error:  # the compiler may lack a tool or the framework may be absent
            print(f"{options.peer}, {precision}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
