#!/usr/bin/env python3
"""Steps and collectives of several processes on one machine: overhead, not scaling.

bench/processes.py BIN [--rounds 3]: BIN is the folder of the built programs. Runs in turns, and prints a
JSON line for each: an MLP and a GPT on 8 devices as 1, 2 and 8 processes, on 2 devices as 1 and 2,
with the ratio of medians to one process; then collectives of 2 and 4 processes beside MPI's own
(bench/peers/mpi_collectives.c), with their ratio. Needs mpirun and mpicc.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1"}
MODELS = {
    "mlp 1024": ["alpa-mlp", "--dim", "1024", "--hidden-factor", "1", "--layers", "8",
                 "--batch", "256", "--optimizer", "adam"],
    "gpt 4x256": ["alpa-gpt", "--layers", "4", "--hidden", "256", "--heads", "8",
                  "--sequence", "128", "--vocabulary", "1024", "--batch", "8"],
}
STEPS = 8


def mpirun(processes, command):
    """Standard output. Processes may use every core, as the threads of one process do."""
    return subprocess.run(["mpirun", "-n", str(processes), "--bind-to", "none", *command], check=True,
                          env={**os.environ, **MPI}, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout


def step_seconds(folder, model, devices, processes):
    program, *flags = MODELS[model]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "report.json"
        command = [f"{folder}/{program}", *flags, "--devices", str(devices), "--steps", str(STEPS),
                   "--backend", "cpu", "--quiet", "--json", str(path)]
        if processes == 1:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        else:
            mpirun(processes, command)
        return json.loads(path.read_text())["step_seconds"]["median"]


def steps(folder, rounds):
    for model in MODELS:
        for devices, choices in ((8, (1, 2, 8)), (2, (1, 2))):
            seconds = {processes: [] for processes in choices}
            for _ in range(rounds):
                for processes in choices:
                    seconds[processes].append(step_seconds(folder, model, devices, processes))
            for processes in choices:
                own, one = (statistics.median(seconds[p]) for p in (processes, 1))
                print(json.dumps({"step": model, "devices": devices, "processes": processes,
                                  "seconds": own, "of_one_process": round(own / one, 3)}),
                      flush=True)


def collectives(folder, rounds):
    source = pathlib.Path(__file__).parent / "peers" / "mpi_collectives.c"
    with tempfile.TemporaryDirectory() as scratch:
        peer = f"{scratch}/mpi_collectives"
        subprocess.run(["mpicc", "-O2", str(source), "-o", peer], check=True)
        for processes in (2, 4):
            seconds = {}
            for _ in range(rounds):
                for name, program in (("alpa", f"{folder}/bench_collectives"), ("mpi", peer)):
                    for line in mpirun(processes, [program]).splitlines():
                        row = json.loads(line)
                        seconds.setdefault((row["kind"], row["bytes"]), {}).setdefault(
                            name, []).append(row["seconds"])
            for (kind, size), both in seconds.items():
                own, peers = (statistics.median(both[name]) for name in ("alpa", "mpi"))
                print(json.dumps({"collective": kind, "bytes": size, "processes": processes,
                                  "seconds": own, "mpi_seconds": peers,
                                  "of_mpi": round(own / peers, 3)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    steps(options.bin, options.rounds)
    collectives(options.bin, options.rounds)


if __name__ == "__main__":
    main()
