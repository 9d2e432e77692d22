"""Bytes of the collectives that XLA makes of alpa's specs, beside those that the plan predicts, and of specs by hand.

    PYTHONPATH=bindings/python ALPA_LIBRARY=build/release/libalpa_c.so python3 bench/xla_specs.py [--json FILE]

Whole training steps (SGD with momentum) are compiled, not run, on eight CPU devices of jax. Bytes are those that a device
sends in a step, by the ring formulas that alpa uses, too. XLA gets layouts of arguments and results, and chooses the rest.
XLA's CPU compiler makes no reduce_scatter of an all_reduce of which a part is kept.
"""
import argparse
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bindings/python/examples"))

MEBI = 2**20
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
# Bytes that each of n devices sends, for b bytes of the result.
SENT = {"all-reduce": lambda n, b: 2 * (n - 1) / n * b, "all-gather": lambda n, b: (n - 1) / n * b,
        "reduce-scatter": lambda n, b: (n - 1) * b, "all-to-all": lambda n, b: (n - 1) / n * b,
        "collective-permute": lambda n, b: b}
CALL = re.compile(r" = (.*?) (" + "|".join(SENT) + r")(?:-start)?\(")


def members(line):
    """Devices of a group of a collective, in each form that XLA prints groups."""
    if lists := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(lists[1].split(","))
    if iota := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
        return int(iota[1])
    if axes := re.search(r"replica_groups=mesh\[([^\]]*)\][^{]* \{([^}]*)\}", line):
        sizes, count = dict(re.findall(r"'(\w+)'=(\d+)", axes[1])), 1
        for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", axes[2]):
            count *= int(part or sizes[name])
        return count
    if "source_target_pairs=" in line:
        return 2
    raise ValueError(f"groups of an unknown form: {line}")


def collectives(text):
    """{kind: bytes sent by a device} of a compiled module without loops."""
    found = {}
    for line in text.splitlines():
        call = CALL.search(line)
        if not call:
            continue
        size = 0
        for dtype, extents in re.findall(r"(\w+)\[([\d,]*)\]", call[1]):
            elements = 1
            for extent in filter(None, extents.split(",")):
                elements *= int(extent)
            size += elements * BYTES[dtype]
        kind = call[2].replace("-", "_")
        found[kind] = found.get(kind, 0) + SENT[call[2]](members(line), size)
    return found


def models():
    """{name: (step, state, batch, axis of each weight that Megatron-LM splits)}"""
    import jax
    import jax.numpy as jnp
    import shard_in_jax as transformer
    transformer.BATCH, transformer.TIME, transformer.CHANNELS, transformer.HEADS, transformer.VOCABULARY = 8, 128, 1024, 16, 8192
    struct = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)

    def mlp_loss(params, batch):
        x = batch["x"]
        for p in params["blocks"]:
            x = jax.nn.relu(x @ p["up"]) @ p["down"]
        return jnp.mean((x - batch["y"]) ** 2)

    def mlp_step(state, batch):
        value, gradients = jax.value_and_grad(mlp_loss)(state["params"], batch)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
        return {"params": jax.tree.map(lambda w, v: w - 0.1 * v, state["params"], velocity), "velocity": velocity}, value

    params = {"blocks": [{"up": struct(1024, 4096), "down": struct(4096, 1024)} for _ in range(4)]}
    mlp = {rows: (mlp_step, {"params": params, "velocity": params}, {"x": struct(rows, 1024), "y": struct(rows, 1024)})
           for rows in (256, 8192)}
    return {"MLP, 256 rows": mlp[256], "MLP, 8192 rows": mlp[8192],
            "transformer": (transformer.train_step, *jax.eval_shape(transformer.made))}


MEGATRON = {"qkv": 1, "up": 1, "out": 0, "down": 0, "embedding": 0, "head": 1}  # dimension that is split, by weight


def by_hand(kind, state, batch, mesh):
    """Specs of the state and the batch: the last axis is Megatron-LM's, all others split the batch."""
    import jax
    from jax.sharding import PartitionSpec as P
    every, tensor = tuple(mesh.axis_names), mesh.axis_names[-1]
    rows = P(every) if kind != "Megatron-LM" else P(every[:-1]) if len(every) > 1 else P()

    def of_state(path, leaf):
        if kind == "FSDP":
            return P(every)
        if kind == "data":
            return P()
        return P(*[tensor if d == MEGATRON[path[-1].key] else None for d in range(len(leaf.shape))])

    return jax.tree_util.tree_map_with_path(of_state, state), jax.tree.map(lambda _: rows, batch)


def compiled_bytes(step, state, batch, mesh, specs, result):
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
    shardings = lambda tree: jax.tree.map(lambda spec: NamedSharding(mesh, spec), tree,
                                          is_leaf=lambda x: isinstance(x, PartitionSpec))
    jitted = jax.jit(step, in_shardings=shardings(specs), out_shardings=shardings(result))
    return collectives(jitted.lower(state, batch).compile().as_text())


def measure(name, step, state, batch, shape):
    from jax.sharding import PartitionSpec
    import alpa
    plan = alpa.plan(step, state, batch, cluster="dgx-a100", mesh=shape, time_limit=20)
    mesh = plan.mesh()
    row = {"model": name, "mesh": shape, "gap": plan.gap, "predicted": {k: t["bytes"] for k, t in plan.traffic.items()}}
    row["alpa"] = compiled_bytes(step, state, batch, mesh, plan.in_specs, plan.out_specs)
    for kind in ("data", "FSDP", "Megatron-LM"):
        specs = by_hand(kind, state, batch, mesh)
        row[kind] = compiled_bytes(step, state, batch, mesh, specs, (specs[0], PartitionSpec()))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write results to this file")
    flags = parser.parse_args()
    found = models()  # sets jax up
    import jax
    import alpa
    lines = [{"versions": {"alpa": alpa.__version__, "jax": jax.__version__}, "date": time.strftime("%Y-%m-%d"),
              "hardware": "eight CPU devices of jax; nothing is timed", "command": "python3 bench/xla_specs.py",
              "bytes": "sent by a device in a step"}]
    columns = ("predicted", "alpa", "data", "FSDP", "Megatron-LM")
    print("MiB sent by a device: " + ", ".join(columns))
    for name, (step, state, batch) in found.items():
        for shape in ("8", "2x4"):
            lines.append(measure(name, step, state, batch, shape))
            print(f"{name:16} {shape:4}", *(f"{sum(lines[-1][c].values()) / MEBI:9.1f}" for c in columns), flush=True)
    if flags.json:
        pathlib.Path(flags.json).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
