#!/usr/bin/env python3
"""Saving and restoring a training state: alpa's bench_checkpoint and torch.distributed.checkpoint, on the same disk, in turn.

The state is that of an MLP with Adam: kernels and biases, each with two moments, f32. Both save until the files are on the disk
(PyTorch's writer syncs its files) and restore into tensors that exist. PyTorch's saves are of one process, with as many writing
threads as --threads says. Prints one JSON object per line: median seconds, and their ratio to alpa's (median of the rounds).

    bench/peers/checkpoint.py build/bin/bench_checkpoint --folder DIR [--dim 2048 --layers 8 --rounds 5 --threads 1,2]
"""
import json
import os
import shutil
import statistics
import subprocess
import time

from turns import arguments, ends_with_us

O = arguments(__doc__, "bench", folder="checkpoint_files", dim=2048, layers=8, rounds=5, threads="1,2")


class Alpa:
    name = "alpa"

    def __init__(self):
        command = [O.bench, "--on-request", "--folder", f"{O.folder}/alpa", "--dim", str(O.dim), "--layers", str(O.layers)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=ends_with_us)

    def seconds_of(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Torch:
    def __init__(self, threads):
        import torch
        from torch.distributed import checkpoint
        self.checkpoint, self.threads, self.folder = checkpoint, threads, f"{O.folder}/torch-{threads}"
        self.name = f"torch.distributed.checkpoint {torch.__version__}, {threads} writing threads"
        shapes = {"kernel": (O.dim, O.dim), "bias": (O.dim,)}
        self.state = {f"{layer}.{name}{of}": torch.randn(shape) for layer in range(O.layers) for name, shape in shapes.items()
                      for of in ("", ".adam_m", ".adam_v")}

    def seconds_of(self, what):
        if what == "save":  # into new files, as alpa's are; removing the old ones is not counted
            shutil.rmtree(self.folder, ignore_errors=True)
        start = time.perf_counter()
        if what == "save":
            writer = self.checkpoint.FileSystemWriter(self.folder, thread_count=self.threads)
            self.checkpoint.save(self.state, storage_writer=writer, no_dist=True)
        else:
            self.checkpoint.load(self.state, checkpoint_id=self.folder, no_dist=True)
        return time.perf_counter() - start


os.makedirs(O.folder, exist_ok=True)
programs = [Alpa()] + [Torch(int(threads)) for threads in O.threads.split(",")]
for what in ("save", "restore"):
    seconds = {program: [] for program in programs}
    for turn in range(-1, O.rounds):
        for program in programs:
            taken = program.seconds_of(what)
            if turn >= 0:
                seconds[program].append(taken)
    for program in programs:
        ratio = statistics.median(s / o for s, o in zip(seconds[program], seconds[programs[0]]))
        print(json.dumps({"name": f"{what}, {program.name}", "median_seconds": round(statistics.median(seconds[program]), 4),
                          "best_seconds": round(min(seconds[program]), 4), "of_alpa": round(ratio, 3)}), flush=True)
shutil.rmtree(O.folder)
