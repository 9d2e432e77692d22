#!/usr/bin/env python3
"""The training step of bench/wide_resnet_step.cc (bottleneck Wide-ResNet, CIFAR-sized, width 4) of alpa, PyTorch and JAX, in turn.

SGD with Nesterov momentum, f32, --threads threads each. With several --devices the peer is JAX, on as many forced host devices that
split the batch. Prints one JSON object per program: median seconds of a step, the
median over rounds of its seconds divided by alpa's, and peak memory of its process.

    taskset -c 0,1 bench/peers/wide_resnet.py build/bin/bench_wide_resnet_step [--batch 32 --image 32 --rounds 7 --threads 2 --devices 1]
"""
import time

from resnet import torch_resnet
from turns import Apart, JaxSteps, OnRequest, arguments, forced_host_devices, take_turns

O = arguments(__doc__, "bench", batch=32, image=32, rounds=7, threads=2, devices=1)
CHANNELS, WIDTH, BLOCKS, CLASSES, RATE = 16, 4, (2, 2, 2), 10, 1e-7


class Torch:
    def __init__(self, channels_last, compiled=False):
        import torch
        torch.set_num_threads(O.threads)
        self.name = f"PyTorch {torch.__version__}, {'compiled' if compiled else 'eager'}{', channels last' if channels_last else ''}"

        self.model = torch_resnet(CHANNELS, WIDTH, BLOCKS, CLASSES, small_images=True)
        self.x, self.y = torch.randn(O.batch, 3, O.image, O.image), torch.arange(O.batch) % CLASSES
        if channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9, nesterov=True)
        cross_entropy = torch.nn.CrossEntropyLoss()
        loss = lambda: cross_entropy(self.model(self.x), self.y)
        self.loss = torch.compile(loss) if compiled else loss

    def seconds_of(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss().backward()
            self.optimizer.step()
        return time.perf_counter() - start


class Jax(JaxSteps):
    def __init__(self):
        jax, sharded = forced_host_devices(O.devices)
        import jax.numpy as jnp
        self.name = f"JAX {jax.__version__}, " + ("jit" if O.devices == 1 else "data parallel")
        parameters, strides = [], []

        def add(inputs, features, window, stride=1):
            key = jax.random.PRNGKey(len(parameters))
            parameters.append((jax.random.normal(key, (window, window, inputs, features)) * (2 / (window ** 2 * inputs)) ** 0.5,
                               jnp.ones(features), jnp.zeros(features)))
            strides.append(stride)
            return len(parameters) - 1

        stem, blocks, inputs, c = add(3, CHANNELS, 3), [], CHANNELS, CHANNELS
        for group, count in enumerate(BLOCKS):
            for block in range(count):
                stride = 2 if group > 0 and block == 0 else 1
                branch = add(inputs, c, 1), add(c, c * WIDTH, 3, stride), add(c * WIDTH, 4 * c, 1)
                blocks.append((branch, None if inputs == 4 * c and stride == 1 else add(inputs, 4 * c, 1, stride)))
                inputs = 4 * c
            c *= 2
        head = (jax.random.normal(jax.random.PRNGKey(99), (inputs, CLASSES)) * 0.1, jnp.zeros(CLASSES))
        x = sharded(jax.random.normal(jax.random.PRNGKey(0), (O.batch, O.image, O.image, 3)), "d")
        y = sharded(jnp.arange(O.batch) % CLASSES, "d")

        def conv_norm(p, i, h):
            kernel, scale, bias = p[i]
            h = jax.lax.conv_general_dilated(h, kernel, (strides[i], strides[i]), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            mean, square = h.mean((0, 1, 2)), (h * h).mean((0, 1, 2))
            return (h - mean) * (jax.lax.rsqrt(square - mean * mean + 1e-5) * scale) + bias

        def loss_of(both):
            p, (w, b) = both
            h = jax.nn.relu(conv_norm(p, stem, x))
            for (first, middle, last), shortcut in blocks:
                branch = jax.nn.relu(conv_norm(p, first, h))
                branch = conv_norm(p, last, jax.nn.relu(conv_norm(p, middle, branch)))
                h = jax.nn.relu((h if shortcut is None else conv_norm(p, shortcut, h)) + branch)
            logits = h.mean((1, 2)) @ w + b
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

        def step(both, velocity):
            loss, g = jax.value_and_grad(loss_of)(both)
            velocity = jax.tree_util.tree_map(lambda v, d: 0.9 * v + d, velocity, g)
            both = jax.tree_util.tree_map(lambda w, d, v: w - RATE * (d + 0.9 * v), both, g, velocity)
            return both, velocity, loss

        self.step = jax.jit(step, donate_argnums=(0, 1))
        parameters, head = jax.tree_util.tree_map(sharded, (parameters, head))
        self.state = [(parameters, head), jax.tree_util.tree_map(jnp.zeros_like, (parameters, head))]


programs = [OnRequest("alpa", [O.bench, f"--batch={O.batch}", f"--image={O.image}", f"--devices={O.devices}", "--on-request"]), Apart(Jax)]
if O.devices == 1:
    programs += [Apart(Torch, False), Apart(Torch, True), Apart(Torch, True, True)]
take_turns(programs, O.rounds, batch=O.batch, image=O.image, threads=O.threads, devices=O.devices)
