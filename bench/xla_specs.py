"""Bytes of the collectives that XLA makes of alpa's plans, beside those predicted and those of specs by hand; and step times.

    PYTHONPATH=bindings/python ALPA_LIBRARY=build/release/libalpa_c.so python3 bench/xla_specs.py [--json FILE]
        [--model PART] [--mesh 2x4] [--rounds 5]

Whole training steps (SGD with momentum) are compiled for eight CPU devices of jax, and run. Bytes are those that a device
sends in a step, by the ring formulas that alpa uses, too. Specs by hand are of arguments and results; XLA chooses the rest.
XLA's CPU compiler makes an all_reduce and a dynamic_slice of what is a reduce_scatter for its GPU compiler. Where devices
keep only their parts of an all_reduce, it counts as reduce_scatter, in all columns but "as_compiled".
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bindings/python/examples"))

MEBI = 2**20
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
# Bytes that each of n devices sends, for b bytes of the result.
SENT = {"all-reduce": lambda n, b: 2 * (n - 1) / n * b, "all-gather": lambda n, b: (n - 1) / n * b,
        "reduce-scatter": lambda n, b: (n - 1) * b, "all-to-all": lambda n, b: (n - 1) / n * b,
        "collective-permute": lambda n, b: b}
INSTRUCTION = re.compile(r"^ *(ROOT )?%([\w.-]+) = (.*?) ([\w-]+)\(([^)]*)\)")
VIEWS = ("bitcast", "reshape", "copy", "transpose")


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


def sizes(types):
    """Elements and bytes of each tensor of a type of HLO."""
    tensors = [(math.prod(map(int, filter(None, extents.split(",")))), dtype)
               for dtype, extents in re.findall(r"(\w+)\[([\d,]*)\]", types)]
    return [(elements, elements * BYTES[dtype]) for elements, dtype in tensors]


class Instruction:
    def __init__(self, line, found):
        self.line, self.root, self.name, self.type, self.opcode = line, bool(found[1]), found[2], found[3], found[4]
        self.operands = re.findall(r"%([\w.-]+)", found[5])

    def named(self, attribute):
        found = re.search(attribute + r"=%?([\w.-]+)", self.line)
        return found and found[1]


def computations(text):
    """{computation: its instructions}"""
    found, body = {}, []
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" "):
            body = found.setdefault(re.match(r"(?:ENTRY )?%?([\w.-]+)", line)[1], [])
        elif instruction := INSTRUCTION.match(line):
            body.append(Instruction(line, instruction))
    return found


def kept(module, computation, name):
    """Most elements that a user of a value keeps; infinite if one reads the whole."""
    most = 0
    for user in module[computation]:
        if user.name == name and user.root:
            return math.inf
        for index in (i for i, operand in enumerate(user.operands) if operand == name):
            if user.opcode == "dynamic-slice" and index == 0:
                most = max(most, sizes(user.type)[0][0])
            elif user.opcode == "fusion":
                inner = user.named("calls")
                most = max([most] + [kept(module, inner, i.name) for i in module[inner]
                                     if i.opcode == "parameter" and f"parameter({index})" in i.line])
            else:
                most = max(most, kept(module, computation, user.name) if user.opcode in VIEWS else math.inf)
    return most


def scattered(module, computation, call):
    """For each result of an all_reduce whether devices keep only their parts of it."""
    tensors, group = sizes(call.type), members(call.line)
    if len(tensors) == 1:
        return [kept(module, computation, call.name) * group <= tensors[0][0]]
    parts = {i.named("index"): i.name for i in module[computation]
             if i.opcode == "get-tuple-element" and call.name in i.operands}
    return [str(n) in parts and kept(module, computation, parts[str(n)]) * group <= elements
            for n, (elements, _) in enumerate(tensors)]


def collectives(text, scatter=True):
    """{kind: bytes sent by a device} of a compiled module without loops. With `scatter` an all_reduce of which devices keep
    their parts is a reduce_scatter."""
    found, module = {}, computations(text)
    for computation, body in module.items():
        for call in body:
            kind = call.opcode.removesuffix("-start")
            if kind not in SENT:
                continue
            parts = scattered(module, computation, call) if scatter and kind == "all-reduce" else [False] * len(sizes(call.type))
            for (_, size), part in zip(sizes(call.type), parts):
                group = members(call.line)
                name, sent = ("reduce-scatter", SENT["all-gather"](group, size)) if part else (kind, SENT[kind](group, size))
                found[name.replace("-", "_")] = found.get(name.replace("-", "_"), 0) + sent
    return found


def struct(*shape, dtype="float32"):
    import jax
    return jax.ShapeDtypeStruct(shape, dtype)


def sgd(loss):
    """SGD with momentum: (state, batch) → (new state, loss)."""
    import jax

    def step(state, batch):
        value, gradients = jax.value_and_grad(loss)(state["params"], batch)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, state["velocity"], gradients)
        return {"params": jax.tree.map(lambda w, v: w - 0.1 * v, state["params"], velocity), "velocity": velocity}, value

    return step


def mlp(rows, blocks, width, hidden):
    import jax
    import jax.numpy as jnp

    def loss(params, batch):
        x = batch["x"]
        for p in params["blocks"]:
            x = jnp.tanh(x @ p["up"]) @ p["down"]
        return jnp.mean((x - batch["y"]) ** 2)

    params = {"blocks": [{"up": struct(width, hidden), "down": struct(hidden, width)} for _ in range(blocks)]}
    return sgd(loss), {"params": params, "velocity": params}, {"x": struct(rows, width), "y": struct(rows, width)}


def vocabulary(tokens, words, width):
    """An embedding and a head, which hold nearly all parameters."""
    import jax
    import jax.numpy as jnp

    def loss(params, batch):
        x = params["embedding"][batch["tokens"]]
        x = x + jnp.tanh(x @ params["up"]) @ params["down"]
        logits = jax.nn.log_softmax(x @ params["head"])
        return -jnp.take_along_axis(logits, batch["labels"][:, None], axis=-1).mean()

    params = {"embedding": struct(words, width), "up": struct(width, 4 * width), "down": struct(4 * width, width),
              "head": struct(width, words)}
    batch = {name: struct(tokens, dtype="int32") for name in ("tokens", "labels")}
    return sgd(loss), {"params": params, "velocity": params}, batch


def convolutions(images, size, channels):
    import jax
    import jax.numpy as jnp

    def loss(params, batch):
        x = batch["images"]
        for p in params["blocks"]:
            for name in ("up", "down"):
                x = jnp.tanh(jax.lax.conv_general_dilated(x, p[name], (1, 1), "SAME",
                                                             dimension_numbers=("NHWC", "HWIO", "NHWC")))
        logits = jax.nn.log_softmax(x.mean((1, 2)) @ params["head"])
        return -jnp.take_along_axis(logits, batch["labels"][:, None], axis=-1).mean()

    params = {"blocks": [{"up": struct(3, 3, channels, 2 * channels), "down": struct(3, 3, 2 * channels, channels)}
                         for _ in range(2)], "head": struct(channels, 256)}
    return sgd(loss), {"params": params, "velocity": params}, {"images": struct(images, size, size, channels),
                                                              "labels": struct(images, dtype="int32")}


def transformer(layers):
    import jax
    import shard_in_jax as example
    example.BATCH, example.TIME, example.CHANNELS, example.HEADS, example.VOCABULARY = 8, 128, 512, 8, 4096
    state, batch = jax.eval_shape(example.made)
    for part in state.values():
        part["blocks"] = part["blocks"][:layers]
    return example.train_step, state, batch


def models():
    """{name: (makes (step, state, batch), meshes)}"""
    import shard_in_jax  # sets jax up
    return {"MLP, 128 rows": (lambda: mlp(128, 4, 512, 2048), ("8", "2x4", "2x2x2")),
            "MLP, 2048 rows": (lambda: mlp(2048, 4, 512, 2048), ("8", "2x4")),
            "MLP, wide": (lambda: mlp(512, 1, 1024, 8192), ("8", "4x2")),
            "vocabulary": (lambda: vocabulary(512, 16384, 256), ("8", "2x4")),
            "transformer, 1 layer": (lambda: transformer(1), ("8",)),
            "transformer, 2 layers": (lambda: transformer(2), ("8", "2x4")),
            "convolutions": (lambda: convolutions(32, 16, 64), ("8", "2x4"))}


def filled(tree):
    """Arrays of these shapes: numbers whose products keep their size, velocity of 0, and words."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    rng = np.random.default_rng(0)

    def array(path, leaf):
        if leaf.dtype == jnp.int32:
            return jnp.asarray(rng.integers(0, 256, leaf.shape), jnp.int32)
        scale = 0 if path[0].key == "velocity" else math.prod(leaf.shape[:-1]) ** -0.5 if path[0].key == "params" else 1
        return jnp.asarray(scale * rng.standard_normal(leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(array, tree)


# Dimension that is split, by weight; from the end.
MEGATRON = {"qkv": -1, "up": -1, "out": -2, "down": -2, "embedding": -2, "head": -1}


def by_hand(kind, state, batch, mesh):
    """Specs of the state and the batch: the last axis is Megatron-LM's, all others split the batch."""
    import jax
    from jax.sharding import PartitionSpec as P
    every, tensor = tuple(mesh.axis_names), mesh.axis_names[-1]
    rows = P(every) if kind != "Megatron-LM" else P(every[:-1]) if len(every) > 1 else P()

    def of_state(path, leaf):
        if kind == "replicated":
            return P()
        split, axes = leaf.ndim + MEGATRON[path[-1].key], tensor
        if kind == "FSDP":  # the first dimension that all devices split
            split, axes = [n % mesh.size for n in leaf.shape].index(0), every
        return P(*[axes if d == split else None for d in range(leaf.ndim)])

    return jax.tree_util.tree_map_with_path(of_state, state), jax.tree.map(lambda _: rows, batch)


def compiled(step, state, batch, mesh, specs, result):
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
    shardings = lambda tree: jax.tree.map(lambda spec: NamedSharding(mesh, spec), tree,
                                          is_leaf=lambda x: isinstance(x, PartitionSpec))
    run = jax.jit(step, in_shardings=shardings(specs), out_shardings=shardings(result)).lower(state, batch).compile()
    return run, shardings(specs)


def distance(found, expected):
    """Largest difference, of the largest number of each tensor."""
    import jax
    import numpy as np
    pairs = zip(*map(jax.tree.leaves, map(jax.device_get, (found, expected))))
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)


def run_rounds(programs, step, state, batch, rounds, row):
    """Adds seconds of a step of each program, median of interleaved rounds, and how far numbers are from one device's."""
    import jax
    content = filled(state), filled(batch)
    expected = jax.device_get(jax.jit(step)(*content))
    placed, seconds = {}, {kind: [] for kind in programs}
    for kind, (run, shardings) in programs.items():
        placed[kind] = jax.device_put(content, shardings)
        row["distance"][kind] = distance(run(*placed[kind]), expected)
    for _ in range(rounds):
        for kind, (run, _) in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(run(*placed[kind]))
            seconds[kind].append(time.perf_counter() - begin)
    row["seconds"] = {kind: statistics.median(times) for kind, times in seconds.items()}


KINDS = ("replicated", "FSDP", "Megatron-LM")


def measure(name, step, state, batch, shape, rounds):
    from jax.sharding import PartitionSpec
    import alpa
    plan = alpa.plan(step, state, batch, devices=8, mesh=shape, time_limit=20)
    mesh = plan.mesh()
    programs = {"alpa": compiled(plan.constrained(mesh), state, batch, mesh, plan.in_specs, plan.out_specs),
                "alpa, specs alone": compiled(step, state, batch, mesh, plan.in_specs, plan.out_specs)}
    for kind in KINDS:
        specs = by_hand(kind, state, batch, mesh)
        programs[kind] = compiled(step, state, batch, mesh, specs, (specs[0], PartitionSpec()))
    row = {"model": name, "mesh": shape, "gap": plan.gap, "predicted": {k: t["bytes"] for k, t in plan.traffic.items()}}
    row.update({kind: collectives(run.as_text()) for kind, (run, _) in programs.items()})
    row["as_compiled"] = {kind: collectives(run.as_text(), scatter=False) for kind, (run, _) in programs.items()}
    row["distance"] = {}
    if rounds:
        run_rounds(programs, step, state, batch, rounds, row)
    return row


COLUMNS = ("predicted", "alpa", "alpa, specs alone") + KINDS


def printed(row):
    cells = [f"{sum(row[column].values()) / MEBI:9.1f}" for column in COLUMNS]
    if "seconds" in row:
        ours = row["seconds"]["alpa"]
        cells += [f"  | {ours:.2f} s"] + [f"{row['seconds'][kind] / ours:5.2f}" for kind in COLUMNS[2:]]
        cells.append(f" {max(row['distance'].values()):.0e}")
    print(f"{row['model']:22} {row['mesh']:6}", *cells, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write results to this file")
    parser.add_argument("--model", default="", help="only models with this in their names")
    parser.add_argument("--mesh", help="only this mesh")
    parser.add_argument("--rounds", type=int, default=5, help="steps that are timed of each program; 0: none is run")
    flags = parser.parse_args()
    found = models()
    import jax
    import alpa
    lines = [{"versions": {"alpa": alpa.__version__, "jax": jax.__version__}, "date": time.strftime("%Y-%m-%d"),
              "hardware": "eight CPU devices of jax on two cores that others used, too", "command": "python3 bench/xla_specs.py",
              "bytes": "sent by a device in a step", "seconds": f"median of {flags.rounds} interleaved rounds",
              "distance": "from one device's numbers, of the largest in a tensor"}]
    print("MiB sent by a device: " + ", ".join(COLUMNS) + "; seconds of alpa, and times as many of the rest")
    chosen = [(name, make, shape) for name, (make, meshes) in found.items() for shape in meshes
              if flags.model in name and flags.mesh in (None, shape)]
    for name, make, shape in chosen:
        lines.append(measure(name, *make(), shape, flags.rounds))
        printed(lines[-1])
        if flags.json:
            pathlib.Path(flags.json).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
