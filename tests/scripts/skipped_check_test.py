"""What scripts/skipped_check says of made-up runs of ctest."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts/skipped_check"
loader = importlib.machinery.SourceFileLoader("skipped_check", str(PATH))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("skipped_check", loader))
loader.exec_module(check)


def log_of(*runs):
    """ctest's log of (entry, output, result) each."""
    return "Start testing\n" + "".join(
        f"{i}/{len(runs)} Testing: {entry}\n{i}/{len(runs)} Test: {entry}\nOutput:\n---\n{output}\n<end of output>\n"
        f"Test time = 0.01 sec\n---\nTest {result}.\n" for i, (entry, output, result) in enumerate(runs, 1))


class SkippedCheck(unittest.TestCase):
    def complaints(self, logs, entries, reasons=""):
        return list(check.complaints(logs, entries, check.reasons_of(reasons)))

    def test_what_passes_or_fails_somewhere_ran(self):
        logs = [log_of(("a/one", "fine", "Passed"), ("a/two", "wrong", "Failed"), ("a/three", "skipped: no disk", "Passed")),
                log_of(("a/three", "fine", "Passed"))]
        self.assertEqual(self.complaints(logs, ["a/one", "a/two", "a/three"]), [])

    def test_what_prints_a_reason_asserts_nothing_or_is_not_asked_for_did_not_run(self):
        logs = [log_of(("a/one", "MESSAGE: skipped: no disk\nStatus: SUCCESS!", "Passed"), ("a/two", "", "Skipped"))]
        behind = "; run it somewhere, or give a reason in tests/not_run.txt"
        self.assertEqual(self.complaints(logs, ["a/one", "a/three", "a/two"]),
                         ["a/one runs nowhere: no disk" + behind,
                          "a/three runs nowhere: no configuration runs it" + behind,
                          "a/two runs nowhere: asserts nothing" + behind])

    def test_a_test_on_the_emulation_is_the_one_that_needs_a_card(self):
        logs = [log_of(("cuda/case", "skipped: no CUDA device: none found", "Skipped"),
                       ("cuda_emulated/case", "fine", "Passed"),
                       ("api/cuda_x", "skipped: no libalpa_cuda.so", "Skipped"), ("api_emulated/cuda_x_8", "fine", "Passed"))]
        self.assertEqual(self.complaints(logs, ["cuda/case", "api/cuda_x"]), [])

    def test_a_reason_is_heeded_while_it_holds(self):
        logs = [log_of(("a/one", "skipped: no card", "Skipped"), ("a/two", "fine", "Passed"))]
        reasons = "# what needs a card\na/one  needs a card\n"
        self.assertEqual(self.complaints(logs, ["a/one", "a/two"], reasons), [])
        self.assertEqual(self.complaints(logs, ["a/one", "a/two"], reasons + "a/two old\na/gone old\n"),
                         ["tests/not_run.txt holds a/gone, which does not exist",
                          "a/two runs, so tests/not_run.txt must not hold it"])
        self.assertEqual(len(self.complaints(logs, ["a/one", "a/two"], "a/one\n")), 1)

    def test_a_slow_test_may_have_its_turn_on_another_day(self):
        logs = [log_of(("a/one", "fine", "Passed"))]
        turns = check.turns_of("# by the day\n0 a/one\n2 a/two\n1 a/gone\n")
        self.assertEqual(list(check.complaints(logs, ["a/one", "a/two"], {}, turns)),
                         ["tests/turns.txt holds a/gone, which does not exist"])

    def test_the_log_of_a_real_run_is_read_before_the_entries_are_asked_for(self):
        with tempfile.TemporaryDirectory() as build:
            (pathlib.Path(build) / "CTestTestfile.cmake").write_text("add_test(a/one true)\nadd_test(a/two true)\n")
            subprocess.run(["ctest", "-R", "one"], cwd=build, capture_output=True, check=True)
            logs, entries = check.read([build])
        self.assertEqual(entries, ["a/one", "a/two"])
        self.assertEqual([list(check.runs_of(log)) for log in logs], [[("a/one", "")]])

    def test_the_list_has_a_reason_for_each(self):
        for test, reason in check.reasons_of((PATH.parents[1] / "tests/not_run.txt").read_text()).items():
            self.assertTrue(reason.strip(), test)
            folder, name = test.split("/")
            if folder not in ("package", "scripts"):
                self.assertTrue((PATH.parents[1] / "tests" / folder / f"{name}_test.cc").exists(), test)


if __name__ == "__main__":
    unittest.main()
