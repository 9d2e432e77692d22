#!/usr/bin/env python3
"""scripts/gpu_check on programs that print, fail or hang as told: what it chooses, cuts, writes and returns."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_check"
DOCTOR = """#!/bin/sh
echo '{"cuda": {"reason": %s}}'
"""
CASES = """#!/bin/sh
echo '[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped'
"""
ROWS = """#!/bin/sh
echo '{"name": "copy", "ratio_to_copy": 0.5, "aim": "ratio_to_copy >= 0.85", "met": false}'
echo 'not a row'
%s
echo '{"name": "last", "met": true}'
"""
TESTS = """add_test(cuda/fine true)
add_test(cuda/broken %s)
set_tests_properties(cuda/fine cuda/broken PROPERTIES LABELS cuda)
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        (self.folder / "bin").mkdir()
        self.program("alpa", DOCTOR % "null")
        self.program("test_cuda", CASES)
        self.program("bench_cuda_kernels", ROWS % "")
        self.program("bench_cuda_matmul", ROWS % "")
        (self.folder / "CTestTestfile.cmake").write_text(TESTS % "true")

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def command(self, *arguments, script=SCRIPT):
        return [sys.executable, script, self.folder / "out", "--commit", "c0", "--programs", self.folder / "bin", *arguments]

    def run_it(self, *arguments, script=SCRIPT, environment=None):
        return subprocess.run(self.command(*arguments, script=script), env=environment, capture_output=True, text=True, timeout=100)

    def copied_script(self):
        """In a checkout with nothing else in it."""
        (self.folder / "scripts").mkdir()
        return shutil.copy(SCRIPT, self.folder / "scripts/gpu_check")

    def own_path(self, **more):
        return dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", **more)

    def result(self, name="gpu_check"):
        return json.loads((self.folder / "out" / f"{name}.json").read_text())

    def statuses(self):
        return {stage["stage"]: stage["status"] for stage in self.result()["stages"]}

    def test_chosen_stages_run_in_their_order_and_each_leaves_its_file(self):
        done = self.run_it("--stages", "tests,kernels,smoke")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(self.statuses().items()), [("smoke", "passed"), ("kernels", "passed"), ("tests", "passed")])
        for name in ("smoke", "kernels", "tests"):
            self.assertEqual(self.result(name)["commit"], "c0")
            self.assertEqual(self.result(name)["status"], "passed")
        self.assertEqual(self.result("smoke")["cases"], {"run": 3, "failed": 0})
        self.assertEqual(self.result("tests")["cases"], {"run": 2, "failed": 0})
        rows = self.result("kernels")["programs"][0]["rows"]
        self.assertEqual([row["name"] for row in rows], ["copy", "last"])
        self.assertEqual([row["name"] for row in self.result()["missed_aims"]], ["copy"])

    def test_a_stage_is_cut_at_its_limit_keeps_its_rows_and_the_next_one_runs(self):
        self.program("bench_cuda_kernels", ROWS % "sleep 60")
        done = self.run_it("--stages", "kernels:3,products")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.statuses(), {"kernels": "cut", "products": "passed"})
        self.assertEqual([row["name"] for row in self.result("kernels")["programs"][0]["rows"]], ["copy"])

    def test_the_limit_of_the_run_cuts_all_that_is_left(self):
        self.program("bench_cuda_kernels", ROWS % "sleep 60")
        self.assertEqual(self.run_it("--stages", "kernels,products", "--seconds", "5").returncode, 1)
        self.assertEqual(self.statuses(), {"kernels": "cut", "products": "cut"})

    def test_a_failing_test_fails_its_stage_not_the_run(self):
        (self.folder / "CTestTestfile.cmake").write_text(TESTS % "false")
        self.program("bench_cuda_kernels", ROWS % "exit 3")
        done = self.run_it("--stages", "smoke,kernels,products,tests")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.statuses(), {"smoke": "passed", "kernels": "failed", "products": "passed", "tests": "failed"})
        self.assertEqual(self.result("tests")["failed_tests"], ["cuda/broken"])
        self.assertEqual(self.result("kernels")["problems"], ["bench_cuda_kernels: exit status 3"])

    def test_a_program_without_a_test_case_fails(self):
        self.program("test_cuda", CASES.replace("3", "0"))
        self.assertEqual(self.run_it("--stages", "smoke").returncode, 1)
        self.assertEqual(self.result("smoke")["problems"], ["test_cuda: no test case ran"])

    def test_without_a_gpu_nothing_is_measured_and_the_status_is_77(self):
        self.program("alpa", DOCTOR % '"no driver"')
        done = self.run_it("--stages", "smoke,kernels,products,step,tests,sanitizers")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertEqual(self.result()["no_gpu"], "no driver")
        self.assertEqual(self.statuses(), {"smoke": "passed", "kernels": "skipped", "products": "skipped", "step": "skipped",
                                           "tests": "passed", "sanitizers": "skipped"})
        self.assertLessEqual(len(list((self.folder / "out").iterdir())), 8)

    def test_a_run_that_is_killed_leaves_what_was_measured(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            pid, combined = self.folder / f"pid{number}", self.folder / "out/gpu_check.json"
            combined.unlink(missing_ok=True)
            self.program("bench_cuda_kernels", ROWS % f"echo $$ > {pid}; exec sleep 60")
            with subprocess.Popen(self.command("--stages", "kernels"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                self.addCleanup(run.kill)
                until(lambda: pid.exists() and pid.read_text().endswith("\n"))
                until(lambda: combined.exists() and self.result()["missed_aims"])
                run.send_signal(number)
            self.assertEqual(self.result("kernels")["status"], "running")
            self.assertEqual([row["name"] for row in self.result("kernels")["programs"][0]["rows"]], ["copy"])
            self.assertEqual([row["name"] for row in self.result()["missed_aims"]], ["copy"])
            if number == signal.SIGTERM:
                until(lambda: not alive(int(pid.read_text())))
            else:
                os.kill(int(pid.read_text()), signal.SIGKILL)

    def test_a_build_that_fails_is_the_end(self):
        copied = self.copied_script()
        for status, statuses in ((0, {"build": "passed", "smoke": "passed"}), (1, {"build": "failed"})):
            self.program("cmake", f"#!/bin/sh\nexit {status}\n")
            done = self.run_it("--stages", "smoke,build", "--sm", "90", "--no-emulation", "--cmake=-DA=B", script=copied, environment=self.own_path())
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertEqual(self.statuses(), statuses)
            configured = self.result()["stages"][0]["programs"][0]["command"]
            self.assertIn("-DALPA_EMULATION=OFF -DALPA_CUDA_ARCHITECTURES=90-real -DA=B", configured)

    def test_each_peer_is_a_process_of_its_own_without_our_libraries(self):
        self.program("bench_cuda_mlp_step", """#!/bin/sh
            echo "{\\"name\\": \\"ours $LD_LIBRARY_PATH\\"}"
            """)
        (self.folder / "bench/peers").mkdir(parents=True)
        (self.folder / "bench/peers/mlp_step.py").write_text("""if True:
            import json, os, sys
            print(json.dumps({"name": sys.argv[1], "process": os.getpid(), "path": os.environ.get("LD_LIBRARY_PATH")}))
            sys.exit(sys.argv[1] == "jax")
            """)
        (self.folder / "build/dependencies/lib").mkdir(parents=True)
        (self.folder / "build/dependencies/lib/libdnnl.so").touch()
        done = self.run_it("--stages", "step", script=self.copied_script(), environment=self.own_path(LD_LIBRARY_PATH="/mine"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        ours, *peers = [program["rows"][0] for program in self.result("step")["programs"][:5]]
        self.assertEqual(ours["name"], "ours build/dependencies/lib:/mine")  # paths are written from the checkout's root
        self.assertEqual([peer["name"] for peer in peers], ["eager", "jax", "compile", "compile-adam"])
        self.assertEqual({peer["path"] for peer in peers}, {None})
        self.assertEqual(len({peer["process"] for peer in peers}), 4)
        self.assertEqual(self.result("step")["problems"], ["peers/mlp_step.py jax: exit status 1"])

    def test_convolutions_stand_beside_the_peers_of_the_same_layer_and_pass(self):
        self.program("bench_cuda_convolution", """#!/bin/sh
echo '{"who": "alpa", "name": "56x56, dx", "median_seconds": 2.0, "aim": "ratio_to_first >= 0.97", "met": true}'
""")
        (self.folder / "bench/peers").mkdir(parents=True)
        (self.folder / "bench/peers/convolution.py").write_text("""
print('{"who": "peer", "name": "56x56, dx", "median_seconds": 3.0}')
print('{"who": "peer", "name": "another", "median_seconds": 3.0}')
""")
        self.assertEqual(self.run_it("--stages", "convolutions", script=self.copied_script()).returncode, 0)
        self.assertEqual(self.result("convolutions")["against_peers"], [{"name": "56x56, dx", "peer_seconds_over_ours": 1.5}])

    def test_a_sanitizer_that_finds_something_fails_its_stage(self):
        self.program("compute-sanitizer", """#!/bin/sh
            [ "$2" != racecheck ]
            """)
        self.assertEqual(self.run_it("--stages", "sanitizers", environment=self.own_path()).returncode, 1)
        states = [program["status"] for program in self.result("sanitizers")["programs"]]
        self.assertEqual(states, ["failed", "passed", "passed"])

    def test_wrong_stages_and_missing_programs_are_said(self):
        done = self.run_it("--stages", "smoke,smoke_test")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'smoke_test' is not a stage", done.stderr)
        (self.folder / "bin/alpa").unlink()
        done = self.run_it("--stages", "smoke")
        self.assertEqual(done.returncode, 1)
        self.assertIn("stage build makes the programs", self.result()["problem"])

    def test_the_lines_of_ctest_are_read_whatever_became_of_a_test(self):
        read = loaded_script().test_row
        self.assertEqual(read("1/6 Test #1: cuda/fine ........................   Passed    0.25 sec\n"),
                         {"test": "cuda/fine", "result": "Passed", "seconds": 0.25})
        for result, rest in (("Not Run", ""), ("Timeout", ""), ("Exception", ": SegFault"), ("Failed", "  Error regular expression found"),
                             ("Skipped", "")):
            row = read(f" 12/345 Test  #7: api_emulated/cuda_1 ...***{result}{rest}  10.01 sec\n")
            self.assertEqual(row, {"test": "api_emulated/cuda_1", "result": result, "seconds": 10.01})
        self.assertIsNone(read("      Start  1: cuda/fine\n"))

    def test_peers_stand_beside_our_step_of_the_same_precision(self):
        script = loaded_script()
        rows = [{"who": "alpa", "name": "step", "precision": "bf16", "batch": "resident", "median_seconds": 2.0},
                {"who": "alpa", "name": "step", "precision": "bf16", "batch": "uploaded", "median_seconds": 4.0},
                {"who": "peer", "name": "JAX", "precision": "bf16", "batch": "resident", "median_seconds": 3.0},
                {"who": "peer", "name": "JAX", "precision": "f32", "batch": "resident", "median_seconds": 9.0}]
        self.assertEqual(script.against_peers(rows), [{"name": "JAX", "precision": "bf16", "peer_seconds_over_ours": 1.5}])
        (self.folder / "libcuda.so.1").touch()
        self.assertEqual(script.beside_driver(f"/nowhere:{self.folder}::{self.folder}/bin"), str(self.folder))


def loaded_script():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(script)
    return script


def until(done):
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end, "nothing came of it within 30 seconds"
        time.sleep(0.02)


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
