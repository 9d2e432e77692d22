#!/usr/bin/env python3
"""Steps of several processes on one machine, alpa's beside PyTorch's and JAX's.

bench/process_peers.py BIN [--rounds 5 --tries 3 --peers ddp,fsdp,fsdp-kept,jax --torch PYTHON --jax PYTHON]: BIN is the folder of the
built programs. The MLP and the GPT of bench/processes.py, with Adam, on 2 and 4 processes of one device and one thread each,
that mpirun starts. All exchange messages by the CPU: alpa by MPI, its peers (bench/peers/processes.py) by gloo. Every program
starts once a round, in turn; again, up to --tries times, if other programs took more than a tenth of the cores. Prints a JSON
line for each: the median of the rounds' median seconds of a step, alpa's seconds by them, the median over the rounds, and the
most that others took. alpa's --method data stands beside DDP and JAX, its zero3 beside FSDP. Needs mpirun, and an interpreter
with PyTorch and one with JAX.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from processes import MODELS, MPI

PEERS = {"ddp": ("data", "PyTorch DDP"), "fsdp": ("zero3", "PyTorch FSDP"),
         "fsdp-kept": ("zero3", "PyTorch FSDP, reshard_after_forward=False"), "jax": ("data", "JAX")}
NAMES = {"mlp": "mlp 1024", "gpt": "gpt 4x256"}
PROGRAM = pathlib.Path(__file__).parent / "peers" / "processes.py"
STEPS, MOST_OTHERS = 10, 0.1


def mpirun(processes, command):
    """Standard output. What the peers need so that a process has one thread; alpa takes as many by itself."""
    one_thread = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    run = subprocess.run(["mpirun", "-n", str(processes), "--bind-to", "none", *command], env={**os.environ, **MPI, **one_thread},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
    return run.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def peer_step(options, peer, model, processes):
    python = options.jax if peer == "jax" else options.torch
    lines = mpirun(processes, [python, str(PROGRAM), peer, model, str(free_port()), str(STEPS)]).splitlines()
    return json.loads(next(line for line in lines if line.startswith("{")))


def alpa_step(options, method, model, processes):
    program, *flags = MODELS[NAMES[model]]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "report.json"
        mpirun(processes, [f"{options.bin}/{program}", *flags, "--devices", str(processes), "--steps", str(STEPS), "--backend", "cpu",
                           "--method", method, "--quiet", "--json", str(path)])
        report = json.loads(path.read_text())
    count = sum(math.prod(parameter["shape"]) for parameter in report["parameters"].values())
    return {"seconds": report["step_seconds"]["median"], "loss": report["loss"][0], "parameters": count}


def processor_seconds():
    """Of all programs, and of those that this one has started."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def undisturbed(options, measure):
    """The result of `measure()` with the least of the cores' time for other programs, and that share as "others"."""
    best = None
    for _ in range(options.tries):
        begin, (all_before, own_before) = time.perf_counter(), processor_seconds()
        result = measure()
        seconds, (all_after, own_after) = time.perf_counter() - begin, processor_seconds()
        others = (all_after - all_before - own_after + own_before) / seconds / os.cpu_count()
        if best is None or others < best["others"]:
            best = result | {"others": others}
        if others <= MOST_OTHERS:
            break
    return best


def compare(options, model, processes):
    methods = sorted({PEERS[peer][0] for peer in options.peers})
    rows = {name: [] for name in (*methods, *options.peers)}
    for _ in range(options.rounds):
        for method in methods:
            rows[method].append(undisturbed(options, lambda: alpa_step(options, method, model, processes)))
        for peer in options.peers:
            rows[peer].append(undisturbed(options, lambda: peer_step(options, peer, model, processes)))
    for name, row in rows.items():
        method, title = PEERS.get(name, (name, f"alpa, {name}"))
        facts = {"step": NAMES[model], "processes": processes, "name": title,
                 "seconds": round(statistics.median(one["seconds"] for one in row), 4),
                 "best_seconds": round(min(one["seconds"] for one in row), 4),
                 "loss": round(row[0]["loss"], 3), "parameters": row[0]["parameters"],
                 "others": round(max(one["others"] for one in row), 2)}
        if name in PEERS:
            of_peer = statistics.median(own["seconds"] / its["seconds"] for own, its in zip(rows[method], row))
            facts |= {"alpa": method, "alpa_of_peer": round(of_peer, 3)}
        print(json.dumps(facts), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    parser.add_argument("--tries", type=int, default=3)
    for name in ("torch", "jax"):
        parser.add_argument(f"--{name}", metavar="PYTHON", default=sys.executable, help=f"interpreter with {name}")
    options = parser.parse_args()
    for processes in (2, 4):
        for model in NAMES:
            compare(options, model, processes)


if __name__ == "__main__":
    main()
