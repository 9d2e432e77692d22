#!/usr/bin/env python3
"""One process of a launch that trains a model of bench/process_peers.py with PyTorch or JAX on the CPU, by gloo.

    mpirun -n 2 bench/peers/processes.py PEER MODEL PORT STEPS

PEER: ddp, fsdp (parameters are gathered again in the backward pass), fsdp-kept (they stay gathered until then, as in alpa's
ZeRO-3), or jax, with rows of the batch along its devices. One device with one thread per process. Rank 0 prints a JSON line:
median seconds of a step behind two that warm up, the loss of the first step, and the number of parameters.
"""
import json
import os
import statistics
import sys
import time
from types import SimpleNamespace

PEER, MODEL, PORT, STEPS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
RANK, SIZE = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
WARM_UP, RATE = 2, 1e-3
MLP = SimpleNamespace(dim=1024, layers=8, batch=256)
GPT = SimpleNamespace(layers=4, hidden=256, heads=8, sequence=128, vocabulary=1024, batch=8)


def mlp_batch():
    """Of alpa-mlp: y = x w + b and noise, of standard normal numbers."""
    import numpy as np
    numbers = np.random.default_rng(0)
    x, w, b, noise = (numbers.standard_normal(shape, np.float32) for shape in
                      ((MLP.batch, MLP.dim), (MLP.dim, MLP.dim), (1, MLP.dim), (MLP.batch, MLP.dim)))
    return x, x @ w + b + np.float32(0.1) * noise


def gpt_batch():
    import numpy as np
    return (np.arange(GPT.batch * GPT.sequence).reshape(GPT.batch, GPT.sequence) * 7919 % GPT.vocabulary,)


def torch_run():
    """A function that runs a step and returns its loss, of the whole batch; and the number of parameters."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    import torch
    from torch import distributed, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from gpt import torch_gpt

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(MLP.dim, MLP.dim) for _ in range(MLP.layers))
            for dense in self.blocks:
                nn.init.kaiming_normal_(dense.weight, nonlinearity="relu")
                nn.init.zeros_(dense.bias)

        def forward(self, x, y):
            for dense in self.blocks:
                x = torch.relu(dense(x))
            return nn.functional.mse_loss(x, y)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", rank=RANK, world_size=SIZE)
    model, batch = (Mlp(), mlp_batch()) if MODEL == "mlp" else (torch_gpt(GPT), gpt_batch())
    count = sum(p.numel() for p in model.parameters())
    if PEER == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    else:
        mesh = init_device_mesh("cpu", (SIZE,))
        for part in (*model.blocks, model):
            fully_shard(part, mesh=mesh, reshard_after_forward=PEER == "fsdp")
    rows = [torch.from_numpy(array).chunk(SIZE)[RANK] for array in batch]
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss = model(*rows)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def mean(loss):
        distributed.all_reduce(loss)
        return float(loss) / SIZE

    return run, mean, count


def jax_run():
    import jax
    import numpy as np
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{PORT}", SIZE, RANK)
    from jax.sharding import NamedSharding, PartitionSpec

    from gpt import jax_gpt
    from turns import adam_steps
    mesh = jax.make_mesh((SIZE,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def sharded(x, *axes):
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, NamedSharding(mesh, PartitionSpec(*axes)), lambda part: x[part])

    def mlp_parameters():
        numbers = np.random.default_rng(1)
        scale = np.float32((2 / MLP.dim) ** 0.5)
        return [(sharded(scale * numbers.standard_normal((MLP.dim, MLP.dim), np.float32)), sharded(np.zeros(MLP.dim, np.float32)))
                for _ in range(MLP.layers)]

    def mlp_loss(parameters, x, y):
        for w, b in parameters:
            x = jax.nn.relu(x @ w + b)
        return jax.numpy.mean((x - y) ** 2)

    parameters, loss_of = (mlp_parameters(), mlp_loss) if MODEL == "mlp" else jax_gpt(GPT, sharded)
    batch = [sharded(array, "d") for array in (mlp_batch() if MODEL == "mlp" else gpt_batch())]
    count = sum(p.size for p in jax.tree_util.tree_leaves(parameters))
    step, state = adam_steps(loss_of, parameters)

    def run():
        nonlocal state
        *state, loss = step(*state, *batch)
        jax.block_until_ready(state)
        return loss

    return run, float, count


def main():
    run, mean, count = jax_run() if PEER == "jax" else torch_run()
    first = mean(run())
    for _ in range(WARM_UP - 1):
        run()
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    if RANK == 0:
        print(json.dumps({"seconds": statistics.median(seconds), "loss": first, "parameters": count}), flush=True)


if __name__ == "__main__":
    main()
