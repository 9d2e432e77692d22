#!/usr/bin/env python3
"""Writes the golden files of tests/models/golden_test.cc: five small models in f64.

    pip install torch transformers jax optax safetensors
    python tests/golden/models/make.py [MODEL...]

GPT-2, Llama and BERT are those of Hugging Face's transformers, in PyTorch; <model>.safetensors is
what `save_pretrained` writes. The decoder with experts is written here in JAX (GShard, Lepikhin et
al. 2020, algorithm 1; the balance loss of Switch, Fedus et al. 2021), the residual network in
PyTorch; both have alpa's names and layouts. <model>.steps.safetensors: inputs, "logits" and "loss"
before the first step, "gradient.<name>" of the first step, "losses" of three steps on the same
batch and "after.<name>" behind them.
"""
import math
import pathlib
import shutil
import sys
import tempfile

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch.nn.functional as F
import transformers
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent
STEPS = 3
BATCH, SEQUENCE, VOCABULARY = 6, 5, 13


def write(name, tensors, metadata=None):
    """Numbers are f64 while they are computed, and rounded once."""

    def stored(value):
        array = np.asarray(value)
        dtype = np.int32 if array.dtype.kind == "i" else np.float32
        return np.ascontiguousarray(array.astype(dtype))

    save_file({key: stored(value) for key, value in tensors.items()}, FOLDER / name, metadata)


def random_parameters(shapes, seed):
    """Every number counts: biases are not 0, scales are not 1. Rounded to f32."""
    random = np.random.default_rng(seed)

    def draw(name, shape):
        scale = "norm" in name or ".ln_" in name or "LayerNorm" in name
        offset = 1.0 if scale and not name.endswith("bias") else 0.0
        spread = 0.2 if len(shape) < 2 else 0.3
        return (offset + spread * random.normal(size=shape)).astype(np.float32).astype(np.float64)

    return {name: draw(name, shape) for name, shape in shapes.items()}


def random_tokens(seed, shape=(BATCH, SEQUENCE)):
    return np.random.default_rng(seed).integers(0, VOCABULARY, size=shape)


def torch_golden(name, parameters, forward, optimizer, inputs, buffers=None):
    """`forward()` gives logits and loss of the parameters, a dictionary of leaves."""
    result = dict(inputs)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, loss = forward()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result |= {"logits": logits.detach().numpy(), "loss": np.array(loss.item())}
            result |= {f"gradient.{key}": p.grad.numpy().copy() for key, p in parameters.items()}
        optimizer.step()
    result["losses"] = np.array(losses)
    leaves = parameters | (buffers or {})
    result |= {f"after.{key}": p.detach().numpy() for key, p in leaves.items()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    write(f"{name}.steps.safetensors", result, versions)


def save_pretrained(model, name):
    """In f32, as people keep such files."""
    with tempfile.TemporaryDirectory() as folder:
        model.float().save_pretrained(folder)
        shutil.copy(pathlib.Path(folder) / "model.safetensors", FOLDER / f"{name}.safetensors")
    model.double()


def hugging_face(name, model, inputs, optimizer_of, seed, frozen=()):
    """Cross-entropy of `labels`, where they are not -1."""
    parameters = dict(model.named_parameters())  # tied ones once
    drawn = random_parameters({key: tuple(p.shape) for key, p in parameters.items()}, seed)
    with torch.no_grad():
        for key, p in parameters.items():
            p.copy_(torch.tensor(drawn[key] * (0.0 if key in frozen else 1.0)))
    model.double().eval()
    save_pretrained(model, name)
    parameters = {k: p for k, p in model.named_parameters() if k not in frozen}

    def forward():
        tensors = {key: torch.tensor(value) for key, value in inputs.items()}
        logits = model(input_ids=tensors["tokens"]).logits
        labels = tensors["labels"].reshape(-1)
        return logits, F.cross_entropy(logits.reshape(len(labels), -1), labels, ignore_index=-1)

    torch_golden(name, parameters, forward, optimizer_of(list(parameters.values())), inputs)


def adam(parameters):
    # A large epsilon: gradients that are 0 but for rounding (of the keys' biases) move nothing.
    return torch.optim.Adam(parameters, lr=0.01, eps=1e-3)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=SEQUENCE, n_embd=12, n_layer=2, n_head=3,
        attn_implementation="eager",
    )
    inputs = {"tokens": random_tokens(1), "labels": random_tokens(2)}
    hugging_face("gpt2", transformers.GPT2LMHeadModel(config), inputs, adam, 3)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=SEQUENCE,
        rms_norm_eps=1e-5, rope_theta=500.0, tie_word_embeddings=False,
        attn_implementation="eager",
    )
    inputs = {"tokens": random_tokens(4), "labels": random_tokens(5)}
    adamw = lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, weight_decay=0.1)
    hugging_face("llama", transformers.LlamaForCausalLM(config), inputs, adamw, 6)


def bert():
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=48, hidden_act="gelu_new", max_position_embeddings=SEQUENCE,
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=None, attn_implementation="eager",
    )
    labels = random_tokens(8)
    labels[random_tokens(9) % 3 > 0] = -1
    inputs = {"tokens": random_tokens(7), "labels": labels}
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
    # alpa's has no types of tokens.
    types = "bert.embeddings.token_type_embeddings.weight"
    hugging_face("bert", transformers.BertForMaskedLM(config), inputs, sgd, 10, {types})


# A decoder with experts in its second layer.

HIDDEN, HEADS, EXPERTS, WIDTH, GROUP, BALANCE = 8, 2, 3, 16, 10, 0.1


def moe_shapes():
    shapes = {
        "embedding0.table": (VOCABULARY, HIDDEN),
        "embedding1.table": (SEQUENCE, HIDDEN),
        "head0.bias": (VOCABULARY,),
        "moe0.gate": (HIDDEN, EXPERTS),
        "moe0.up": (EXPERTS, HIDDEN, WIDTH),
        "moe0.down": (EXPERTS, WIDTH, HIDDEN),
    }
    widths = [(HIDDEN, HIDDEN)] * 4 + [(HIDDEN, WIDTH), (WIDTH, HIDDEN)] + [(HIDDEN, HIDDEN)] * 4
    for i, (rows, columns) in enumerate(widths):
        shapes |= {f"dense{i}.kernel": (rows, columns), f"dense{i}.bias": (columns,)}
    for i in range(5):
        shapes |= {f"layer_norm{i}.scale": (HIDDEN,), f"layer_norm{i}.bias": (HIDDEN,)}
    return shapes


def layer_norm(p, i, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    normal = (x - mean) / jnp.sqrt(variance + 1e-5)
    return normal * p[f"layer_norm{i}.scale"] + p[f"layer_norm{i}.bias"]


def dense(p, i, x):
    return x @ p[f"dense{i}.kernel"] + p[f"dense{i}.bias"]


def self_attention(p, first, x):
    queries, keys, values = (
        dense(p, first + i, x).reshape(*x.shape[:2], HEADS, HIDDEN // HEADS) for i in range(3)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(HIDDEN // HEADS)
    past = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
    weights = jax.nn.softmax(jnp.where(past, scores, -jnp.inf), axis=-1)
    seen = jnp.einsum("bhqk,bkhd->bqhd", weights, values)
    return dense(p, first + 3, seen.reshape(x.shape))


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


def experts_of_group(p, x):
    """x [GROUP, HIDDEN] → result and balance loss; token after token, as the paper has it."""
    gates = jax.nn.softmax(x @ p["moe0.gate"], axis=-1)
    capacity = math.ceil(2 * GROUP / EXPERTS)
    taken, results = [0] * EXPERTS, [jnp.zeros(HIDDEN)] * GROUP
    order = np.argsort(-np.asarray(jax.lax.stop_gradient(gates)), axis=-1)
    for choice in range(2):
        for token in range(GROUP):
            expert = order[token, choice]
            if taken[expert] == capacity:
                continue
            taken[expert] += 1
            both = gates[token, order[token, 0]] + gates[token, order[token, 1]]
            inner = gelu(x[token] @ p["moe0.up"][expert])
            weight = gates[token, expert] / both
            results[token] = results[token] + weight * (inner @ p["moe0.down"][expert])
    share = jnp.array([np.mean(order[:, 0] == e) for e in range(EXPERTS)])
    return jnp.stack(results), EXPERTS * jnp.sum(share * gates.mean(0))


def moe_loss(p, tokens, labels):
    x = p["embedding0.table"][tokens] + p["embedding1.table"]
    x = x + self_attention(p, 0, layer_norm(p, 0, x))
    x = x + dense(p, 5, gelu(dense(p, 4, layer_norm(p, 1, x))))
    x = x + self_attention(p, 6, layer_norm(p, 2, x))
    groups = layer_norm(p, 3, x).reshape(-1, GROUP, HIDDEN)
    results, losses = zip(*(experts_of_group(p, group) for group in groups))
    x = x + jnp.stack(results).reshape(x.shape)
    balance = sum(losses) / len(losses)
    logits = layer_norm(p, 4, x) @ p["embedding0.table"].T + p["head0.bias"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return BALANCE * balance - picked.mean(), (logits, balance)


def moe():
    p = {name: jnp.asarray(v) for name, v in random_parameters(moe_shapes(), 11).items()}
    tokens, labels = random_tokens(12), random_tokens(13)
    write("moe.safetensors", p)
    result = {"tokens": tokens, "labels": labels}
    optimizer = optax.adam(0.01, eps=1e-3)
    state, losses = optimizer.init(p), []
    for step in range(STEPS):
        (loss, (logits, balance)), gradients = jax.value_and_grad(moe_loss, has_aux=True)(
            p, tokens, labels
        )
        losses.append(loss)
        if step == 0:
            result |= {"logits": logits, "loss": loss, "balance": balance}
            result |= {f"gradient.{name}": g for name, g in gradients.items()}
        updates, state = optimizer.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
    result["losses"] = np.array(losses)
    result |= {f"after.{name}": value for name, value in p.items()}
    write("moe.steps.safetensors", result, {"jax": jax.__version__, "optax": optax.__version__})


# A residual network of three bottleneck blocks, the second of stride 2; images [B, H, W, C].

CHANNELS, WIDE, CLASSES, IMAGES = 4, 2, 5, (6, 8, 7, 3)


def resnet_shapes():
    shapes = {}

    def convolution(inputs, outputs, window):
        i = len(shapes) // 3
        shapes[f"conv2d{i}.kernel"] = (window, window, inputs, outputs)
        shapes[f"batch_norm{i}.scale"] = shapes[f"batch_norm{i}.bias"] = (outputs,)

    convolution(3, CHANNELS, 3)
    inputs = CHANNELS
    for c, project in ((CHANNELS, True), (2 * CHANNELS, True), (2 * CHANNELS, False)):
        if project:
            convolution(inputs, 4 * c, 1)
        convolution(inputs, c, 1)
        convolution(c, c * WIDE, 3)
        convolution(c * WIDE, 4 * c, 1)
        inputs = 4 * c
    return shapes | {"dense0.kernel": (inputs, CLASSES), "dense0.bias": (CLASSES,)}


class ResNet:
    def __init__(self, parameters):
        self.p, self.running = parameters, {}
        for name, value in parameters.items():
            if name.endswith(".scale"):
                layer = name.removesuffix(".scale")
                self.running[f"{layer}.mean"] = torch.zeros_like(value)
                self.running[f"{layer}.variance"] = torch.ones_like(value)

    def block(self, x, i, stride=1):
        """Convolution i with zeros around as TensorFlow has them, and batch normalisation."""
        kernel = self.p[f"conv2d{i}.kernel"].permute(3, 2, 0, 1)
        window = kernel.shape[-1]
        pads = []
        for extent in (x.shape[3], x.shape[2]):
            total = max((math.ceil(extent / stride) - 1) * stride + window - extent, 0)
            pads += [total // 2, total - total // 2]
        y = F.conv2d(F.pad(x, pads), kernel, stride=stride)
        with torch.no_grad():
            for name, now in (("mean", y.mean((0, 2, 3))), ("variance", y.var((0, 2, 3), False))):
                running = self.running[f"batch_norm{i}.{name}"]
                running.copy_(0.9 * running + 0.1 * now)
        scale, bias = self.p[f"batch_norm{i}.scale"], self.p[f"batch_norm{i}.bias"]
        return F.batch_norm(y, None, None, scale, bias, training=True, eps=1e-5)

    def __call__(self, images):
        x = F.relu(self.block(images.permute(0, 3, 1, 2), 0))
        i = 1
        for stride, project in ((1, True), (2, True), (1, False)):
            shortcut = self.block(x, i, stride) if project else x
            i += project
            y = F.relu(self.block(x, i))
            y = F.relu(self.block(y, i + 1, stride))
            x = F.relu(shortcut + self.block(y, i + 2))
            i += 3
        return x.mean((2, 3)) @ self.p["dense0.kernel"] + self.p["dense0.bias"]


def resnet():
    drawn = random_parameters(resnet_shapes(), 14)
    write("resnet.safetensors", drawn)
    parameters = {name: torch.tensor(v, requires_grad=True) for name, v in drawn.items()}
    model = ResNet(parameters)
    images = np.random.default_rng(15).normal(size=IMAGES).astype(np.float32).astype(np.float64)
    labels = random_tokens(16, (IMAGES[0],)) % CLASSES

    def forward():
        logits = model(torch.tensor(images))
        return logits, F.cross_entropy(logits, torch.tensor(labels))

    optimizer = torch.optim.SGD(parameters.values(), lr=0.05, momentum=0.9)
    inputs = {"x": images, "y": labels}
    torch_golden("resnet", parameters, forward, optimizer, inputs, model.running)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for model in sys.argv[1:] or ["gpt2", "llama", "bert", "moe", "resnet"]:
        globals()[model]()
