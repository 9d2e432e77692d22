"""Calls B, C and D: steps and kernels beside peers, variants of a step, and compute-sanitizer."""
import csv
import dataclasses
import re

from gpu.check import Failed, Job, Skipped, tool
from gpu.jobs import GPT, MOE, RESNET, bench, extents, peer, step
from gpu.results import NO_CARD_CASES


def call_b(check):
    for size, seconds in (("350M", 60), ("1.3B", 80)):
        yield f"step/gpt {size}", seconds, [step(check, "", "gpt", size, GPT)]
        yield f"peers/gpt {size}", 140, [peer(check, name, "step.py", f"{name} gpt --size {size} {extents(check, GPT)}") for name in ("eager", "compile")]
    yield "peers/jax", 110, [peer(check, f"gpt {size}", "step.py", f"jax gpt --size {size} {extents(check, GPT)}") for size in ("350M", "1.3B")]
    yield "products", 60, [step(check, f"gpt {size}", "gpt", size, GPT, "--products", 45) for size in ("350M", "1.3B")]


def nsight(check, *what, job):
    """Rows of CSV of one step in Nsight Compute."""
    one_step = [check.program("bench_cuda_step"), "--model", "gpt", "--size", "350M", *GPT.split(), "--profile"]
    printed = check.process(dataclasses.replace(job, row_of=lambda line: None),
                            [tool("ncu"), "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function",
                             "--profile-from-start", "off", "--clock-control", "none", *what, *one_step])
    table = list(csv.DictReader(line for line in printed.splitlines() if line.startswith('"')))
    return [row for row in table if row.get("ID")]  # the row of units has none


def number(text):
    """The number that a cell is, or its text."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


DURATION = "gpu__time_duration.sum"  # ns
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "WarpStateStats")
# Of the sections' columns, those that rows have.
COLUMNS = re.compile("Kernel Name|Grid Size|Block Size|gpu__time_duration|dram__(throughput|bytes)|sm__throughput|.*pipe_tensor|sm__warps_active|"
                     "lts__t_sector_hit|launch__(registers|occupancy|shared|waves)|smsp__issue_active|smsp__average_warps_issue_stalled.*issue_active")


def costs(check, job):
    """Nanoseconds of the kernels of a step, by name."""
    by_name = {}
    for row in nsight(check, "--metrics", DURATION, job=job):
        launches, total = by_name.get(row["Kernel Name"], (0, 0.0))
        by_name[row["Kernel Name"]] = launches + 1, total + number(row[DURATION])
    if not by_name:
        raise Failed("ncu told of no kernel")
    for name, (launches, total) in sorted(by_name.items(), key=lambda item: -item[1][1]):
        check.rows.add(job.name, {"name": name, "launches": launches, "nanoseconds": total})


def costliest(check, job):
    """One launch of each configuration of the ten costliest kernels, with what held it up."""
    names = [row["name"] for row in check.rows.rows if row["job"] == "ncu/costs" and "nanoseconds" in row][:10]
    if not names:
        raise Skipped("ncu/costs has no kernels")
    sections = [word for section in SECTIONS for word in ("--section", section)]
    names = "|".join(map(re.escape, names))
    for row in nsight(check, *sections, "--kernel-name", f"regex:^({names})$", "--filter-mode", "per-launch-config", "--launch-count", "1", job=job):
        check.rows.add(job.name, {column: number(cell) for column, cell in row.items() if COLUMNS.match(column)})


def kernels_in_ncu(check):
    needs = check.no_gpu or ("the emulation has no such kernels" if check.emulated else "" if tool("ncu") else "there is no ncu")
    return [Job("costs", function=costs, needs=needs, seconds=60), Job("costliest", function=costliest, needs=needs)]


def call_c(check):
    yield "kernels", 10, [bench(check, "", "bench_cuda_kernels")]
    for model, size, words, seconds in (("wide-resnet", "250M", RESNET, 200), ("moe", "380M", MOE, 110)):
        yield f"step/{model} {size}", seconds, [step(check, name, model, size, words, more, 100) for name, more in (("not tuned", "--no-tune"), ("alpa", ""))] + [
            peer(check, name, "step.py", f"{name} {model} --size {size} {extents(check, words)}") for name in ("eager", "compile")]
    yield "ncu", 40, kernels_in_ncu(check)
    yield "convolutions", 20, [bench(check, "alpa", "bench_cuda_convolution", seconds=35), peer(check, "peer", "convolution.py", "")]
    yield "matmul", 10, [bench(check, "", "bench_cuda_matmul")]
    yield "step/mlp", 60, [bench(check, "alpa", "bench_cuda_mlp_step", seconds=40)] + [
        peer(check, name, "mlp_step.py", name) for name in ("eager", "compile-adam", "compile", "jax")]


def sanitized(check, name, command, words=()):
    found = tool("compute-sanitizer")
    needs = check.no_gpu or ("the emulation has its own checks" if check.emulated else "" if found else "there is no compute-sanitizer")
    # What a test provokes, such as an arena that no card can hold, is no error of a kernel.
    kernels_alone = ["--report-api-errors", "no"] if name == "memcheck" else []
    return Job("", [found, "--tool", name, *kernels_alone, "--error-exitcode", "1", *command, *words], needs=needs)


def call_d(check):
    variants = (("as it is", ""), ("updates beside", "--overlap-updates"), ("not tuned", "--no-tune"), ("as it is, again", ""))
    yield "variants", 80, [step(check, name, "gpt", "350M", GPT, more, 60) for name, more in variants] + [
        Job("dependent launch", needs="the backend launches no kernel before the one ahead is over")]
    yield "logical", 20, [bench(check, "", "bench_cuda_mlp_step", "--logical")]
    names = ("reduce", "update", "copy", "elementwise", "combine", "clear", "cross_entropy", "attention")
    files = ",".join(f"*/cuda/{name}_test.cc" for name in names)
    of_cuda = [check.program("test_cuda"), "--no-intro", f"--source-file={files}", f"--test-case-exclude={NO_CARD_CASES}"]
    of_steps = [check.program("test_runtime"), "--no-intro", "--source-file=*/cuda_executor_test.cc"]
    for name, command, what in (("memcheck", of_steps, "steps"), ("racecheck", of_cuda, "kernels"), ("memcheck", of_cuda, "kernels"), ("initcheck", of_steps, "steps")):
        yield f"sanitizer/{name} {what}", 20, [sanitized(check, name, command)]
