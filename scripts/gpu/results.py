"""Call A: what the machine has, and whether results are right."""
import dataclasses
import importlib.metadata
import json
import os
import platform
import re

from gpu.check import Failed, Job, card, output, tool
from gpu.jobs import GPT, SMALL, SMALLEST, cases, of_model, require_aim, step
from gpu.programs import library_folders

EQUAL, AGREE, AGREE_IN_BF16 = 1e-4, 1e-4, 1e-3  # relative difference of losses; of parameters after two steps


def inventory(check, job):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    check.rows.add(job.name, {"name": "machine", "kernel": platform.release(), "libc": "-".join(platform.libc_ver()), "cores": os.cpu_count(),
                              "memory_bytes": memory, "python": platform.python_version()})
    asked = ("name", "driver_version", "memory.total", "compute_cap", "clocks.sm", "clocks.max.sm", "clocks.max.mem", "power.limit", "mig.mode.current")
    told = (card(",".join(asked)) or "").split(", ")
    check.rows.add(job.name, {"name": "card", **dict(zip(asked, told))})
    for name in ("nvidia-smi", "nvcc", "ncu", "nsys", "compute-sanitizer", "cuobjdump", "cmake", "ninja", "c++"):
        found = tool(name)
        version = (output(found, "--version") or "").splitlines() if found else []
        check.rows.add(job.name, {"name": f"tool {name}", "path": found, "version": next((l for l in version if re.search(r"\d\.\d", l)), None)})
    for name in ("torch", "triton", "jax", "jaxlib", "jax-cuda13-plugin", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-cuda-nvrtc"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = None
        check.rows.add(job.name, {"name": f"package {name}", "version": version})
    check.rows.add(job.name, {"name": "library folders", "value": library_folders()})


def doctor(check, job):
    words = ["--seconds", "0"] if check.options.tiny else []
    check.rows.add(job.name, {"doctor": json.loads(check.process(dataclasses.replace(job, row_of=lambda line: None),
                                                                 [check.program("alpa"), "doctor", "--json", *words]))})


def small(check, model):
    return (SMALLEST if check.options.tiny else SMALL)[model]


def equality(model):
    def run(check, job):
        words = small(check, model) + " --devices 1 --method serial --optimizer sgd --learning-rate 0.1"
        on_card, on_cpu = (of_model(check, job, model, f"{words} --backend {backend}")["loss"] for backend in ("cuda", "cpu"))
        numbers = [x for x in on_card + on_cpu if isinstance(x, (int, float))]
        whole = len(on_card) == len(on_cpu) == 2 and len(numbers) == 4
        difference = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(on_card, on_cpu)) if whole else None
        require_aim(check, job, {"name": model, "loss": on_card, "cpu_loss": on_cpu, "relative_difference": difference}, "relative_difference", EQUAL)
    return run


def compared(model, more):
    def run(check, job):
        devices = 2 if check.options.tiny else 4
        words = f"{small(check, model)} --backend cuda --devices {devices} --compare --optimizer sgd --learning-rate 0.1 --method {more}"
        report = of_model(check, job, model, words)
        figures = {key: report[key] for key in ("method", "mesh", "loss", "step_seconds", "memory", "max_abs_parameter_difference")}
        require_aim(check, job, {"name": model, **figures}, "max_abs_parameter_difference",
                    AGREE_IN_BF16 if "bf16" in more else AGREE)
    return run


# Tests that need no card, which every machine runs.
NO_CARD = ("cuda/approximate", "cuda/cache_folder", "cuda/fused_sass", "cuda/sass", "cuda/status")
NO_CARD_CASES = "cuDNN has an engine*,every operator*,a source that does not compile*"


def test_files(check, program):
    """The files of a program's CUDA tests. First those that most models hang on."""
    listed = output(check.program(program), "--reporters=xml", "--list-test-cases", environment=check.environment) or ""
    names = set(re.findall(r'filename="[^"]*/tests/(\w+/\w+)_test\.cc"', listed)) - set(() if check.options.tiny else NO_CARD)
    first = ("cuda/attention", "cuda/case")
    return sorted((name for name in names if program == "test_cuda" or name.split("/")[1].startswith("cuda")),
                  key=lambda name: (name not in first, name))


def lists_nothing(check, job):
    raise Failed("it lists no CUDA test")


def tests(check):
    """A job per file, so that a run that is ended goes on with the next one."""
    jobs = []
    for program in ("test_runtime", "test_equivalence", "test_cuda", "test_api"):
        files = test_files(check, program)
        jobs += [] if files else [Job(program, function=lists_nothing)]
        chosen = [name for name in files if not check.options.tiny or name in ("cuda/clear", "cuda/status")]
        jobs += [cases(check, name, [check.program(program), "--no-intro", f"--source-file=*/{name}_test.cc",
                                     f"--test-case-exclude={NO_CARD_CASES}"], 120) for name in chosen]
    return jobs


def call_a(check):
    gpu = check.no_gpu or ""
    yield "inventory", 25, [Job("", function=inventory), Job("doctor", function=doctor)]
    smoke = [check.program("test_cuda"), "--no-intro", "--source-file=*/*smoke_test.cc"]
    yield "smoke", 60, [cases(check, "products", smoke, 40)] + [Job(model, function=equality(model), seconds=40, needs=gpu) for model in ("mlp", "gpt")], 3
    yield "tests", 130, tests(check), 6
    methods = [(model, model, "data") for model in ("gpt", "mlp", "moe", "bert", "vit", "wide-resnet")]
    methods += [("gpt by operator", "gpt", "shard"), ("gpt in bf16", "gpt", "zero3 --precision bf16_mixed"),
                ("gpt in stages", "gpt", "pipeline --stages 2 --micro-batches 2")]
    yield "compare", 95, [Job(name, function=compared(model, more), seconds=80, needs=gpu) for name, model, more in methods], 5
    yield "step/gpt 350M", 90, [step(check, name, "gpt", "350M", GPT, more) for name, more in (("not tuned", "--no-tune"), ("tuned", ""))]
