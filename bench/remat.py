#!/usr/bin/env python3
"""Seconds, bytes and FLOPs of a GPT's step by what is computed again in the backward pass.

bench/remat.py ALPA_GPT [--rounds 3 --steps 4]: runs alpa-gpt in turns, on one device and as two stages,
without rematerialisation, with all blocks and with as many as a budget half way asks for; prints a
JSON line for each: medians over rounds of a step's seconds, planned and measured bytes.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

MODEL = ["--layers", "8", "--hidden", "256", "--heads", "8", "--sequence", "128", "--batch", "8"]
METHODS = {
    "serial": ["--devices", "1", "--method", "serial"],
    "two stages, 1F1B, 4 micro-batches": ["--devices", "2", "--method", "pipeline",
                                          "--micro-batches", "4"],
}


def report(program, flags, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        subprocess.run([program, *MODEL, *flags, "--steps", str(steps), "--backend", "cpu",
                        "--quiet", "--json", str(path)], check=True, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())


def variants(program, method):
    """Flags by name; the budget is half way between keeping everything and nothing."""
    peaks = [report(program, [*method, "--remat", remat, "--plan-only"], 1)["memory"]
             ["planned_bytes"] for remat in ("none", "all")]
    budget = ["--memory-budget", str(sum(peaks) // 2)]
    return {remat: [*method, "--remat", remat, *(budget if remat == "auto" else [])]
            for remat in ("none", "all", "auto")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    for name, method in METHODS.items():
        choices = variants(options.program, method)
        runs = {remat: [] for remat in choices}
        for _ in range(options.rounds):
            for remat, flags in choices.items():
                runs[remat].append(report(options.program, flags, options.steps))
        for remat, reports in runs.items():
            last = reports[-1]
            print(json.dumps({
                "method": name, "remat": remat,
                "seconds": statistics.median(r["step_seconds"]["median"] for r in reports),
                **last["memory"], "flops": last["flops"],
                "loss": last["loss"][-1],
                "recomputed_layers": len(last["recomputed"]),
                "predicted_again_seconds": sum(l["seconds"] for l in last["recomputed"])}),
                flush=True)


if __name__ == "__main__":
    main()
