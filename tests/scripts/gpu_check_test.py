#!/usr/bin/env python3
"""scripts/gpu_check on programs that print, fail or hang as told, and on the emulation: what it runs, cuts, writes and returns."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu_check"
PROGRAMS = os.environ.get("ALPA_PROGRAMS")  # with the emulation's, as ALPA_CUDA_LIBRARY names it
DOCTOR = """#!/bin/sh
echo '{"cuda": {"reason": %s}}'
"""
LISTED = """#!/bin/sh
[ "${LD_LIBRARY_PATH%%:*}" = "$(dirname "$0")" ] || exit 127
if [ "$2" = --list-test-cases ]; then
  echo '<TestCase name="a" filename="/at/tests/cuda/fine_test.cc" line="1"/>'
  echo '<TestCase name="b" filename="/at/tests/cuda/broken_test.cc" line="1"/>'
  echo '<TestCase name="c" filename="/at/tests/cuda/idle_test.cc" line="1"/>'
  exit
fi
case $* in
  *broken*) echo '[doctest] test cases: 1 | 0 passed | 1 failed | 0 skipped'; echo 'wrong answer' >&2; exit 1 ;;
  *idle*) assertions=0 ;;
  *) assertions=7 ;;
esac
echo '[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped'
echo "[doctest] assertions: $assertions | $assertions passed | 0 failed |"
echo '[doctest] Status: SUCCESS!'
"""
MODEL = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --json) file=$2 ;;
    --backend) backend=$2 ;;
  esac
  shift
done
[ "$backend" = cpu ] && loss=2.0 || loss=%s
echo "{\\"method\\": \\"shard\\", \\"mesh\\": \\"4\\", \\"loss\\": [1.0, $loss], \\"step_seconds\\": {}, \\"memory\\": {}," \\
  "\\"max_abs_parameter_difference\\": %s}" >"$file"
"""
STEP = """#!/bin/sh
echo '{"who": "alpa", "name": "step", "model": "gpt 350M", "precision": "bf16", "batch": "resident", "median_seconds": 2.0, "teraflops": 395.6}'
echo 'not a row'
%s
echo '{"who": "alpa", "name": "kernels", "model": "gpt 350M", "precision": "bf16", "ratio": 0.5, "aim": "ratio >= 0.85", "met": false}'
"""
PEER = """import json, os, sys
print(json.dumps({"who": "peer", "name": "torch." + sys.argv[1], "model": "gpt 350M", "precision": "bf16", "median_seconds": 1.5,
                  "process": os.getpid(), "path": os.environ["LD_LIBRARY_PATH"]}))
sys.exit(sys.argv[1] == "eager")
"""


class Written(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def path(self, call):
        return self.folder / f"out/{call}.jsonl"

    def rows(self, call):
        return [json.loads(line) for line in self.path(call).read_text().splitlines()]

    def statuses(self, call):
        """The status of each job; that every job has one alone is checked."""
        ends = [row for row in self.rows(call) if "status" in row]
        self.assertEqual(len({row["job"] for row in ends}), len(ends))
        return {row["job"]: row["status"] for row in ends}

    def reason(self, call, job):
        return next(row.get("reason") for row in self.rows(call) if row["job"] == job and "status" in row)


class GpuCheck(Written):
    """Programs of a checkout with nothing else in it."""

    def setUp(self):
        super().setUp()
        for folder in ("scripts", "bench/peers", "bin", "python/torch", "python/jax"):
            (self.folder / folder).mkdir(parents=True)
        for framework in ("torch", "jax"):
            (self.folder / "python" / framework / "__init__.py").touch()
        self.script = shutil.copy(SCRIPT, self.folder / "scripts/gpu_check")
        shutil.copytree(SCRIPT.parent / "gpu", self.folder / "scripts/gpu")
        self.program("alpa", DOCTOR % "null")
        self.program("nvidia-smi", "#!/bin/sh\necho NVIDIA H200\n")
        for name in ("cuda", "runtime", "equivalence", "api"):  # which need the libraries that came with them
            self.program(f"test_{name}", LISTED.replace("/cuda/", f"/{name}/cuda_") if name != "cuda" else LISTED)
        for name in ("mlp", "gpt", "moe", "bert", "vit", "wide-resnet"):
            self.program(f"alpa-{name}", MODEL % ("2.0", "1e-6"))
        for name in ("step", "kernels", "matmul", "convolution", "mlp_step"):
            self.program(f"bench_cuda_{name}", STEP % "")
        for name in ("step", "mlp_step", "convolution"):
            (self.folder / f"bench/peers/{name}.py").write_text(PEER)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def command(self, call, *more):
        return [sys.executable, self.script, call, self.folder / "out", "--commit", "c0", "--programs", self.folder / "bin", *more]

    def environment(self, **more):
        return dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", PYTHONPATH=str(self.folder / "python"), PYTHONDONTWRITEBYTECODE="1",
                    XDG_CACHE_HOME=str(self.folder / "cache"), ALPA_CUDA_LIBRARY="", **more)

    def run_it(self, call, *more, **environment):
        return subprocess.run(self.command(call, *more), env=self.environment(**environment), capture_output=True, text=True, timeout=100)

    def test_failures_and_skips_are_rows_with_reasons_and_a_line_each(self):
        self.program("alpa-vit", MODEL % ("2.0", "0.5"))
        self.program("alpa-moe", MODEL % ("2.0", '\\"nan\\"'))
        self.program("alpa-mlp", MODEL % ("2.1", "1e-6"))
        self.program("test_api", "#!/bin/sh\nexit 127\n")
        done = self.run_it("A")
        self.assertEqual(done.returncode, 1, done.stderr)
        statuses = self.statuses("A")
        bad = {"tests/cuda/broken": "failed", "tests/cuda/idle": "skipped", "compare/vit": "failed", "compare/moe": "failed", "smoke/mlp": "failed"}
        bad |= {f"tests/{name}/cuda_{what}": status for name in ("runtime", "equivalence") for what, status in (("broken", "failed"), ("idle", "skipped"))}
        bad["tests/test_api"] = "failed"
        self.assertEqual({job: status for job, status in statuses.items() if status != "passed"}, bad)
        self.assertEqual(self.reason("A", "tests/cuda/broken"), "exit status 1: wrong answer")
        self.assertEqual(self.reason("A", "tests/cuda/idle"), "its cases asserted nothing here")
        self.assertEqual(self.reason("A", "compare/vit"), "max_abs_parameter_difference is 0.5, not at most 0.0001")
        self.assertEqual(self.reason("A", "smoke/mlp"), "relative_difference is 0.050000000000000044, not at most 0.0001")
        told = done.stderr.splitlines()
        self.assertEqual(len(told), len(bad) + 2)  # the plan of seconds, what went wrong, the sum
        self.assertIn("gpu_check: A compare/moe: failed: max_abs_parameter_difference is nan, not at most 0.0001", told)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()} - {"caches.tar.xz"}, {"A.jsonl", "A.log", "A.clocks"})

    def test_peers_stand_beside_our_step_and_each_is_a_process_with_the_driver_alone(self):
        (self.folder / "libcuda.so.1").touch()
        done = self.run_it("B", LD_LIBRARY_PATH=f"/nowhere:{self.folder}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual({job for job, status in self.statuses("B").items() if status != "passed"}, {"peers/gpt 350M/eager", "peers/gpt 1.3B/eager"})
        peers = [row for row in self.rows("B") if row.get("who") == "peer"]
        self.assertEqual([row["name"] for row in peers], [f"torch.{peer}" for peer in ("eager", "compile", "eager", "compile", "jax", "jax")])
        self.assertEqual(len({row["process"] for row in peers}), 6)
        self.assertEqual({row["path"] for row in peers}, {str(self.folder)})
        verdict = [row for row in self.rows("B") if row["job"] == "verdict"]
        self.assertEqual([row["peer_seconds_over_ours"] for row in verdict if "peer" in row], [0.75] * 6)
        missed = [row for row in verdict if "misses" in row]
        self.assertEqual({(row["misses"], row["value"]) for row in missed}, {("ratio >= 0.85", 0.5), ("peer_seconds_over_ours >= 1.0", 0.75), ("of_peak >= 0.5", 0.4)})

    def test_a_framework_that_is_not_there_is_a_row(self):
        shutil.rmtree(self.folder / "python/jax")
        self.run_it("B", PYTHONNOUSERSITE="1")
        if self.statuses("B")["peers/jax/gpt 350M"] != "passed":  # unless this machine has it
            self.assertEqual(self.reason("B", "peers/jax/gpt 350M"), "jax is not installed")

    def test_a_slow_part_is_cut_at_its_share_and_the_others_run(self):
        self.program("bench_cuda_step", STEP % "sleep 60")
        began = time.monotonic()
        done = self.run_it("B", "--seconds", "10")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertLess(time.monotonic() - began, 30)
        statuses = self.statuses("B")
        self.assertEqual({statuses[job] for job in ("step/gpt 350M", "step/gpt 1.3B", "products/gpt 350M")}, {"cut"})
        self.assertEqual(statuses["peers/gpt 350M/compile"], "passed")
        self.assertEqual([row.get("name") for row in self.rows("B") if row["job"] == "step/gpt 350M"], ["step", None])
        # What was cut is run again, and nothing else.
        self.program("bench_cuda_step", STEP % "")
        kept = [row for row in self.rows("B") if row["job"].startswith("peers")]
        self.run_it("B")
        self.assertEqual(self.statuses("B")["step/gpt 350M"], "passed")
        self.assertEqual(sum(row["job"] == "step/gpt 350M" for row in self.rows("B")), 3)
        self.assertEqual([row for row in self.rows("B") if row["job"].startswith("peers")], kept)

    def test_results_go_to_out_and_what_was_carried_there_is_not_run_again(self):
        self.program("bench_cuda_step", f"#!/bin/sh\necho $* >>{self.folder}/ran\n")
        carried = self.folder / "bundle/results"
        for out in ("first", "second"):
            (self.folder / out).mkdir()
            command = [sys.executable, self.script, "B", "--commit", "c0", "--programs", self.folder / "bin"]
            subprocess.run(command, env=self.environment(OUT=str(self.folder / out)), capture_output=True, timeout=100)
            self.assertEqual(len((self.folder / "ran").read_text().splitlines()), 4)
            shutil.copytree(self.folder / out, carried, dirs_exist_ok=True)
        rows = [json.loads(line) for line in (self.folder / "second/B.jsonl").read_text().splitlines()]
        self.assertEqual(sum(row["job"] == "step/gpt 350M" for row in rows), 1)

    def test_what_is_done_is_run_again_only_when_told(self):
        self.program("bench_cuda_step", f"#!/bin/sh\necho $* >>{self.folder}/ran\n")
        for more, expected in (((), 4), ((), 4), (("--again", "products"), 6), (("--again",), 10)):
            self.run_it("B", *more)
            self.assertEqual(len((self.folder / "ran").read_text().splitlines()), expected)

    def test_without_a_gpu_all_that_needs_one_is_skipped_until_there_is_one(self):
        self.program("alpa", DOCTOR % '"no driver"')
        self.assertEqual(self.run_it("C").returncode, 77)
        self.assertEqual({status for job, status in self.statuses("C").items() if job != "programs"}, {"skipped"})
        self.assertEqual(self.reason("C", "kernels"), "no driver")
        self.program("alpa", DOCTOR % "null")
        self.run_it("C")
        self.assertEqual(self.statuses("C")["kernels"], "passed")

    def test_programs_that_do_not_run_here_end_the_call(self):
        self.program("alpa", DOCTOR % '"libalpa_cuda.so does not load: libcublas.so.13"')
        done = self.run_it("B")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.reason("B", "programs"), "libalpa_cuda.so does not load: libcublas.so.13")
        self.assertEqual(len(self.statuses("B")), 1)
        self.assertEqual(self.run_it("E").returncode, 2)

    def test_carried_programs_are_unpacked_where_they_were_built(self):
        (self.folder / "bundle").mkdir()
        elsewhere = self.folder / "elsewhere/checkout"
        built_in = self.folder / "built_in"
        built_in.write_text(f"{elsewhere}\n")
        with tarfile.open(self.folder / "bundle/programs.tar.xz", "w:xz") as archive:
            archive.add(self.folder / "bin", "build/release/bin")
            archive.add(built_in, "build/release/built_in")
        self.program("alpa", "#!/bin/sh\nexit 1\n")  # not that one
        for _ in range(2):
            subprocess.run([sys.executable, self.script, "D", self.folder / "out", "--again"], env=self.environment(), capture_output=True, timeout=100)
            self.assertEqual(self.statuses("D")["programs"], "passed")
            self.assertEqual(self.statuses("D")["logical"], "passed")
        self.assertTrue((elsewhere / "build/release/bin/alpa").exists())

    def test_without_carried_programs_they_are_compiled_here(self):
        self.program("cmake", "#!/bin/sh\n[ \"$1\" != --build ] || { mkdir -p build/gpu_check; cp -r bin build/gpu_check/; }\n")
        command = [sys.executable, self.script, "D", self.folder / "out"]
        subprocess.run(command, env=self.environment(), capture_output=True, timeout=100)
        self.assertEqual(self.statuses("D")["programs"], "passed")
        self.assertIn("No such file or directory", next(row["because"] for row in self.rows("D") if row["job"] == "programs"))
        ran = next(row["command"] for row in self.rows("D") if row["job"] == "logical" and "status" in row)
        self.assertTrue(ran.startswith("build/gpu_check/bin/bench_cuda_mlp_step"), ran)

    def test_the_costliest_kernels_are_looked_at_closely(self):
        self.program("ncu", """#!/bin/sh
            [ "$1" != --version ] || exit
            echo '==PROF== Connected'
            case $* in
              *per-launch-config*)
                echo '"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread","launch__context","sm__inst_executed_pipe_tensor.sum"'
                echo '"","","ns","","",""'
                echo '"0","gemm","2,000.5","168","1","7"' ;;
              *)
                echo '"ID","Kernel Name","gpu__time_duration.sum"'
                echo '"","","ns"'
                for i in 1 2 3; do echo "\\"$i\\",\\"gemm\\",\\"2,000\\""; done
                echo '"4","small","5"' ;;
            esac
            """)
        self.run_it("C")
        rows = [row for row in self.rows("C") if row["job"].startswith("ncu") and "status" not in row]
        self.assertEqual([(row["name"], row["launches"], row["nanoseconds"]) for row in rows[:2]], [("gemm", 3, 6000.0), ("small", 1, 5.0)])
        self.assertEqual(rows[2], {"job": "ncu/costliest", "Kernel Name": "gemm", "gpu__time_duration.sum": 2000.5,
                                   "launch__registers_per_thread": 168.0, "sm__inst_executed_pipe_tensor.sum": 7.0})
        self.assertIn("regex:^(gemm|small)$", (self.folder / "out/C.log").read_text())

    def test_a_sanitizer_that_finds_something_fails_its_job(self):
        self.program("compute-sanitizer", "#!/bin/sh\n[ \"$2\" != racecheck ]\n")
        self.run_it("D")
        statuses = self.statuses("D")
        self.assertEqual({job: statuses[job] for job in statuses if job.startswith("sanitizer")},
                         {"sanitizer/memcheck steps": "passed", "sanitizer/racecheck kernels": "failed", "sanitizer/memcheck kernels": "passed",
                          "sanitizer/initcheck steps": "passed"})

    def test_a_run_that_is_killed_leaves_whole_rows_and_no_program(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            pid = self.folder / f"pid{number}"
            self.program("bench_cuda_kernels", STEP % f"echo $$ > {pid}; exec sleep 600")
            with subprocess.Popen(self.command("C"), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                self.addCleanup(run.kill)
                until(lambda: pid.exists() and pid.read_text().endswith("\n"))
                until(lambda: '"kernels", "who"' in self.path("C").read_text())
                run.send_signal(number)
            until(lambda: not alive(int(pid.read_text())), 30)
            self.assertEqual([row["name"] for row in self.rows("C") if row["job"] == "kernels"], ["step"])
            with open(self.path("C"), "a") as file:
                file.write('{"job": "kernels", "na')  # a row that a full disk cut
        self.program("bench_cuda_kernels", STEP % "")
        self.run_it("C")
        self.assertEqual([row.get("name") for row in self.rows("C") if row["job"] == "kernels"], ["step", "kernels", None])


@unittest.skipUnless(PROGRAMS, "ALPA_PROGRAMS names no programs")
class OnTheEmulation(Written):
    """All calls with the smallest sizes, ended and begun again."""

    def start(self, call):
        log = open(self.folder / "stderr", "a")
        self.addCleanup(log.close)
        words = ["--tiny", "--programs", PROGRAMS, "--seconds", "4000"]  # nothing is cut on a busy machine
        return subprocess.Popen([sys.executable, SCRIPT, call, self.folder / "out", *words], stderr=log)

    def whole_rows(self, call):
        """Those of the lines that are complete; of a run that goes on."""
        text = self.path(call).read_text() if self.path(call).exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def finished(self, call):
        """The rows of the jobs that passed, in their order."""
        rows = self.whole_rows(call)
        done = {row["job"] for row in rows if row.get("status") == "passed"} - {"programs"}
        return [row for row in rows if row["job"] in done]

    def run_with_kills(self, call, kills):
        """Ends the call when so many of its jobs have passed, some moments later each time, and begins it again until all have. What
        had passed is then as it was, and was not begun again. Returns the last exit status."""
        kept, begun = [], {}
        for i, jobs in enumerate(kills):
            with self.start(call) as run:
                until(lambda: run.poll() is not None or sum("status" in row for row in self.finished(call)) >= jobs)
                time.sleep(0.15 * i)
                run.send_signal(signal.SIGTERM if i % 2 else signal.SIGKILL)
            kept = self.finished(call)
            with self.start(call) as run:
                until(lambda: run.poll() is not None or len(self.finished(call)) > len(kept))
                run.kill()
            self.assertEqual(self.finished(call)[:len(kept)], kept)
            kept = self.finished(call)
            for end in kept:
                if "command" in end:
                    begun.setdefault(end["command"], self.begun(call).count(end["command"]))
        status = self.start(call).wait()
        self.assertEqual(self.finished(call)[:len(kept)], kept)
        self.assertEqual({command: self.begun(call).count(command) for command in begun}, begun)
        return status

    def begun(self, call):
        """The commands that were begun."""
        return re.findall(r"^== (.*)$", (self.folder / f"out/{call}.log").read_text().replace(f"{ROOT}/", ""), re.MULTILINE)

    def test_every_call_goes_on_where_it_was_killed(self):
        expected = {
            "A": {"inventory", "inventory/doctor", "smoke/products", "smoke/mlp", "smoke/gpt", "tests/cuda/clear", "tests/cuda/status",
                  "step/gpt 350M/not tuned", "step/gpt 350M/tuned"}
                 | {f"compare/{name}" for name in ("mlp", "gpt", "moe", "bert", "vit", "wide-resnet", "gpt by operator", "gpt in bf16", "gpt in stages")},
            "B": {f"{part}{name}" for part in ("step/", "products/") for name in ("gpt 350M", "gpt 1.3B")},
            "C": {"kernels", "convolutions/alpa", "matmul", "step/mlp/alpa"}
                 | {f"step/{model}/{how}" for model in ("wide-resnet 250M", "moe 380M") for how in ("not tuned", "alpa")},
            "D": {"variants/as it is", "variants/updates beside", "variants/not tuned", "variants/as it is, again", "logical"}}
        more = "ALPA_NIGHTLY" in os.environ
        for call, kills in (("A", (1, 6) if more else (6,)), ("B", (2,)), ("C", (0,) if more else ()), ("D", ())):
            self.assertEqual(self.run_with_kills(call, kills), 0, (self.folder / "stderr").read_text())
            statuses = self.statuses(call)
            self.assertEqual({job for job, status in statuses.items() if status == "passed"} - {"programs"}, expected[call])
            self.assertEqual(set(statuses.values()), {"passed", "skipped"} if call != "A" else {"passed"})
            variants = [row["name"] for row in self.rows(call) if "over_first" in row]
            self.assertEqual(len(variants), 3 if call == "D" else 0)
            for row in self.rows(call):
                if row.get("status") == "skipped":
                    self.assertRegex(row["reason"], "is not installed$|^the emulation has|^the backend launches")


def until(done, seconds=200):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"nothing came of it within {seconds} seconds"
        time.sleep(0.02)


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
