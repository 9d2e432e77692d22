"""Plans of a step that came from JAX beside plans of the same model in alpa's own API, and the time and memory of import.

    ALPA_LIBRARY=build/release/libalpa_c.so python3 bench/imported_plans.py [--json FILE] [--rounds 3]

The model is GPT of 350 million parameters (24 layers). Of its loss, `alpa plan FILE` and `alpa plan gpt 350M` plan the same
step, in turns. The text that is imported is a whole AdamW step of it, as optax writes it. Needs jax and optax.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = str(ROOT / "build/release/bin/alpa")
LAYERS, WIDTH, HEADS, WORDS, TOKENS, ROWS = 24, 1024, 16, 51200, 512, 64
CLUSTERS = (("dgx-a100", 1), ("p3.16xlarge", 2), ("hgx-h100", 4))

IMPORT = """
import ctypes, json, os, pathlib, sys, time
library = ctypes.CDLL(os.environ["ALPA_LIBRARY"])
library.alpa_import.restype = ctypes.c_void_p
library.alpa_import.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
text = pathlib.Path(sys.argv[1]).read_bytes()
peak = lambda: int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e3
before, begun = peak(), time.perf_counter()
assert library.alpa_import(text, len(text))
print(json.dumps({"seconds": time.perf_counter() - begun,
                  "megabytes": peak() - before}))
"""


def gpt():
    """The loss, its parameters and a batch, as shapes; what `models::Decoder` computes."""
    import jax
    import jax.numpy as jnp
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    affine = lambda n, m: {"kernel": f32(n, m), "bias": f32(m)}
    norm_of = lambda: {"scale": f32(WIDTH), "bias": f32(WIDTH)}

    def layer():
        return {"norm1": norm_of(), "norm2": norm_of(), "up": affine(WIDTH, 4 * WIDTH), "down": affine(4 * WIDTH, WIDTH),
                **{name: affine(WIDTH, WIDTH) for name in ("query", "key", "value", "projection")}}

    params = {"tokens": f32(WORDS, WIDTH), "positions": f32(TOKENS, WIDTH), "bias": f32(WORDS), "norm": norm_of(),
              "layers": [layer() for _ in range(LAYERS)]}
    ids = jax.ShapeDtypeStruct((ROWS, TOKENS), jnp.int32)

    def dense(p, x):
        return x @ p["kernel"] + p["bias"]

    def norm(p, x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]

    def attention(p, x):
        heads = lambda name: dense(p[name], x).reshape(ROWS, TOKENS, HEADS, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", heads("query"), heads("key")) / (WIDTH // HEADS)**0.5
        scores = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), heads("value"))
        return dense(p["projection"], mixed.reshape(ROWS, TOKENS, WIDTH))

    def loss(params, batch):
        x = params["tokens"][batch["ids"]] + params["positions"]
        for p in params["layers"]:
            x = x + attention(p, norm(p["norm1"], x))
            x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], norm(p["norm2"], x))))
        logits = jax.nn.log_softmax(norm(params["norm"], x) @ params["tokens"].T + params["bias"])
        return -jnp.take_along_axis(logits, batch["labels"][..., None], -1).mean()

    return loss, params, {"ids": ids, "labels": ids}


def whole_step(loss, params):
    import jax
    import optax
    optimizer = optax.adamw(1e-3)

    def step(state, batch):
        value, gradients = jax.value_and_grad(loss)(state["params"], batch)
        updates, opt = optimizer.update(gradients, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, value

    return step, {"params": params, "opt": jax.eval_shape(optimizer.init, params)}


def text_of(function, *args):
    import jax
    lowered = jax.jit(function, keep_unused=True).lower(*args)
    return lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=True)


def planned(*words):
    """The predicted seconds of a step, and the seconds that `alpa plan` took."""
    begun = time.perf_counter()
    run = subprocess.run([PROGRAM, "plan", *words, "--json"], capture_output=True, text=True, check=True)
    plan = json.loads(run.stdout)["plan"]
    return plan["seconds"], time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write results to this file")
    parser.add_argument("--rounds", type=int, default=3, help="plans of each kind, in turns")
    flags = parser.parse_args()
    import jax
    loss, params, batch = gpt()
    lines = [{"versions": {"jax": jax.__version__}, "date": time.strftime("%Y-%m-%d"), "command": "python3 bench/imported_plans.py",
              "hardware": f"{os.cpu_count()} cores that others used, too", "model": "GPT 350M, 24 layers, 64 rows of 512 tokens"}]
    with tempfile.TemporaryDirectory() as folder:
        of_loss, of_step = f"{folder}/loss.mlir", f"{folder}/step.mlir"
        pathlib.Path(of_loss).write_text(text_of(loss, params, batch))
        step, state = whole_step(loss, params)
        pathlib.Path(of_step).write_text(text_of(step, state, batch))
        found = [json.loads(subprocess.run([sys.executable, "-c", IMPORT, of_step], capture_output=True, check=True).stdout)
                 for _ in range(flags.rounds)]
        lines.append({"imported": "whole AdamW step", "megabytes_of_text": os.path.getsize(of_step) / 1e6,
                      "seconds": statistics.median(f["seconds"] for f in found), "megabytes": max(f["megabytes"] for f in found)})
        for cluster, hosts in CLUSTERS:
            given = ["--cluster", cluster, "--hosts", str(hosts), "--method", "shard", "--micro-batches", "1", "--remat", "none"]
            rounds = [(planned(of_loss, *given, "--parameters", str(len(jax.tree.leaves(params)))),
                       planned("gpt", "350M", "--batch", str(ROWS), "--sequence", str(TOKENS), *given)) for _ in range(flags.rounds)]
            (imported, own), times = rounds[0], [statistics.median(r[k][1] for r in rounds) for k in (0, 1)]
            lines.append({"cluster": cluster, "hosts": hosts, "step_seconds": imported[0], "of_own_model": imported[0] / own[0],
                          "planned_in": times[0], "of_own_models_time": times[0] / times[1]})
    for line in lines:
        print(json.dumps(line))
    if flags.json:
        pathlib.Path(flags.json).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
