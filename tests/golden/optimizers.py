#!/usr/bin/env python3
"""Writes optimizers.safetensors: three steps of Optax's optimizers, and of torch's Muon, on given
gradients, in f64; and of torchao's AdamW8bit, whose formulas are bitsandbytes', in f32.

    pip install jax optax safetensors torch torchao
    python tests/golden/optimizers.py

Tensors: "start.<parameter>", "gradient.<step>.<parameter>", and after every step
"<optimizer>.<step>.<parameter>"; "schedule.<name>" holds a learning rate at steps 1, 2, …;
"adamw_8bit", "adamw_8bit.m" and so on are its parameter, codes and scales after the last step.
tests/train/golden_optimizers_test.cc compares alpa with them.
"""
import os
import pathlib

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax
import torch
from safetensors.numpy import save_file

STEPS = 3
SHAPES = {"kernel": (5, 7), "bias": (7,)}

random = np.random.default_rng(14)
start = {name: random.normal(size=shape) for name, shape in SHAPES.items()}
gradients = [
    {name: random.normal(size=shape) * 10.0 ** -step for name, shape in SHAPES.items()}
    for step in range(STEPS)
]

OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.05),
    "adamw": optax.adamw(0.05, weight_decay=0.1),
    "adamw_masked": optax.adamw(0.05, weight_decay=0.1, mask={"kernel": True, "bias": False}),
    "adamw_clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.05, weight_decay=0.1)),
    "lamb": optax.lamb(0.05, weight_decay=0.1),
    "lion": optax.lion(0.05, weight_decay=0.1),
    "adafactor": optax.adafactor(0.05, min_dim_size_to_factor=4),
    "adafactor_momentum": optax.adafactor(
        0.05, min_dim_size_to_factor=128, momentum=0.9, weight_decay_rate=0.01
    ),
}
SCHEDULES = {
    "warmup_cosine": optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 12, 0.2),
    "warmup_linear": optax.join_schedules(
        [optax.linear_schedule(0.0, 1.0, 4), optax.linear_schedule(1.0, 0.2, 8)], [4]
    ),
    "warmup_constant": optax.warmup_constant_schedule(0.0, 1.0, 4),
}
EMA = 0.8


MUON = {"muon": {"weight_decay": 0.1}, "muon_plain": {"nesterov": False, "weight_decay": 0},
        "muon_matched": {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.8}}


def muon(options):
    """Kernels after every step, wide and tall, of torch.optim.Muon, which would iterate in bf16. Those
    of torch's Linear are [out, in], the transposed ones."""
    torch.bfloat16 = torch.float64
    weights = [torch.nn.Parameter(torch.tensor(start["kernel"].T.copy())),
               torch.nn.Parameter(torch.tensor(start["kernel"]))]
    optimizer = torch.optim.Muon(weights, lr=0.05, **options)
    for gradient in gradients:
        weights[0].grad = torch.tensor(gradient["kernel"].T.copy())
        weights[1].grad = torch.tensor(gradient["kernel"])
        optimizer.step()
        yield [weight.detach().numpy().T.copy() for weight in weights]


def adamw_8bit():
    """The parameter [4, 4, 256] after three steps, and the state: gradients span five decades."""
    from torchao.optim import AdamW8bit

    i = np.arange(4096.0)
    as_tensor = lambda x: torch.tensor(x.reshape(4, 4, 256), dtype=torch.float32)
    weight = torch.nn.Parameter(as_tensor(np.cos(i * 0.37)))
    optimizer = AdamW8bit([weight], lr=0.05, weight_decay=0.1)
    for step in range(1, STEPS + 1):
        weight.grad = as_tensor(np.sin(i * (0.11 + 0.05 * step) + step) * 10.0 ** -(i % 5))
        optimizer.step()
    state, tensors = optimizer.state[weight], {"adamw_8bit": weight.detach().numpy()}
    for name, moment in {"m": state["exp_avg"], "v": state["exp_avg_sq"]}.items():
        tensors[f"adamw_8bit.{name}"] = moment.codes.numpy()
        tensors[f"adamw_8bit.{name}_scale"] = moment.scale.numpy()
    return tensors


def main():
    tensors = {f"start.{name}": value for name, value in start.items()}
    for step, gradient in enumerate(gradients, 1):
        tensors |= {f"gradient.{step}.{name}": value for name, value in gradient.items()}
    for optimizer_name, optimizer in OPTIMIZERS.items():
        parameters = {name: jnp.asarray(value) for name, value in start.items()}
        state, average = optimizer.init(parameters), None
        for step, gradient in enumerate(gradients, 1):
            updates, state = optimizer.update(gradient, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
            average = optax.incremental_update(parameters, average or parameters, 1 - EMA)
            for name, value in parameters.items():
                tensors[f"{optimizer_name}.{step}.{name}"] = np.asarray(value)
        if optimizer_name == "adam":
            tensors |= {f"adam.ema.{name}": np.asarray(value) for name, value in average.items()}
    for name, options in MUON.items():
        for step, (wide, tall) in enumerate(muon(options), 1):
            tensors |= {f"{name}.{step}.kernel": wide, f"{name}.{step}.tall": tall}
    tensors |= adamw_8bit()
    for name, schedule in SCHEDULES.items():
        # A step of alpa's is counted from 1 when it runs, Optax's schedules count from 0.
        tensors[f"schedule.{name}"] = np.array([float(schedule(t)) for t in range(1, 16)])
    path = pathlib.Path(__file__).with_name("optimizers.safetensors")
    save_file(tensors, path, {"optax": optax.__version__, "jax": jax.__version__,
                              "torch": torch.__version__})


if __name__ == "__main__":
    main()
