"""Jobs that several calls have: programs at their sizes, steps of peers, test cases, models against an aim."""
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile

from gpu.check import Failed, Job, ROOT, Skipped, json_row

# Small models with which cards are checked, and smaller ones that the emulation runs in a second each.
SMALL = {"mlp": "--dim 256 --hidden-factor 2 --batch 64 --layers 4", "gpt": "--batch 8", "moe": "--batch 8 --group 512", "bert": "--batch 8",
         "vit": "--model tiny --batch 8", "wide-resnet": "--model tiny --batch 8"}
LANGUAGE = "--sequence 8 --batch 2 --vocabulary 32"
SMALLEST = {"mlp": "--dim 32 --hidden-factor 2 --batch 16 --layers 2", "gpt": f"{LANGUAGE} --layers 1", "moe": f"{LANGUAGE} --group 16", "bert": LANGUAGE,
            "vit": "--model tiny --image 8 --batch 2", "wide-resnet": "--model tiny --image 8 --batch 2"}
# --tiny: the figures mean nothing.
TINY = {"bench_cuda_kernels": "--rows 64 --columns 256 --rounds 1",
        "bench_cuda_matmul": "--size 128 --rounds 1 --runs 1",
        "bench_cuda_convolution": "--tiny --batch 2 --rounds 1 --runs 1",
        "bench_cuda_mlp_step": "--dim 128 --batch 128 --layers 2 --rounds 1 --steps 2",
        "bench_cuda_step": "--size tiny --rounds 1 --steps 1 --held 0 --ceiling 128",
        "convolution.py": "--tiny --batch 2 --rounds 1 --runs 1 --device cpu",
        "mlp_step.py": "--dim 16 --batch 16 --layers 2 --rounds 1 --steps 2 --device cpu",
        "step.py": "--size tiny --rounds 1 --steps 1 --device cpu"}
GPT, MOE, RESNET = "--batch 8 --sequence 1024 --vocabulary 51200", "--batch 8 --sequence 1024 --vocabulary 32000", "--batch 64 --image 224"
TINY_EXTENTS = {GPT: LANGUAGE, MOE: LANGUAGE, RESNET: "--batch 2 --image 8"}


def bench(check, job_name, name, words="", seconds=1e9):
    words = words.split() + (TINY[name].split() if check.options.tiny else [])
    return Job(job_name, [check.program(name), *words], seconds=seconds, needs=check.no_gpu or "")


def extents(check, words):
    return TINY_EXTENTS[words] if check.options.tiny else words


def step(check, job_name, model, size, words, more="", seconds=1e9):
    return bench(check, job_name, "bench_cuda_step", f"--model {model} --size {size} {extents(check, words)} {more}", seconds)


def beside_driver(path):
    """The folders of a library path that hold the driver: frameworks bring every other library themselves."""
    return os.pathsep.join(p for p in path.split(os.pathsep) if p and os.path.exists(os.path.join(p, "libcuda.so.1")))


def peer(check, job_name, script, words, seconds=1e9):
    """A script of bench/peers in a process whose library path has the driver alone. Skipped if its framework is not installed."""
    framework = "jax" if "jax" in words.split() else "torch"
    environment = dict(os.environ, PYTHONUNBUFFERED="1", LD_LIBRARY_PATH=beside_driver(os.environ.get("LD_LIBRARY_PATH", "")))
    needs = "" if importlib.util.find_spec(framework) else f"{framework} is not installed"
    words = words.split() + (TINY[script].split() if check.options.tiny else [])
    return Job(job_name, [sys.executable, ROOT / "bench/peers" / script, *words], environment=environment, seconds=seconds,
               needs="" if needs == "" and check.options.tiny else check.no_gpu or needs)


def row_of_cases(line):
    counts = re.search(r"test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed", line)
    assertions = re.search(r"assertions: +(\d+) \|", line)
    return {"cases": int(counts[1]), "failed": int(counts[3])} if counts else {"assertions": int(assertions[1])} if assertions else json_row(line)


def cases(check, job_name, command, seconds=1e9, needs=""):
    """A program of doctest cases, of which at least one must run."""
    def run(check, job):
        printed = check.process(job)
        if "Status: SUCCESS!" not in printed or re.search("test cases: +0 ", printed):
            raise Failed("no test case ran")
        if re.search("assertions: +0 ", printed):
            raise Skipped("its cases asserted nothing here")
    return Job(job_name, command, run, seconds, needs, row_of_cases)


def of_model(check, job, model, words):
    """The report of a run of an example program."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        check.process(job, [check.program(f"alpa-{model}"), "--quiet", "--steps", "2", "--json", report, *words.split()])
        return json.loads(report.read_text())


def require_aim(check, job, figures, figure, bound):
    """A row that says whether a figure is at most its bound. A figure that is no number is not."""
    value = figures[figure]
    met = isinstance(value, (int, float)) and value <= bound
    check.rows.add(job.name, {**figures, "aim": f"{figure} <= {bound}", "met": met})
    if not met:
        raise Failed(f"{figure} is {value}, not at most {bound}")
