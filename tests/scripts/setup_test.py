"""What scripts/setup does about cuobjdump, in a copy of it with programs that only pretend."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PACKAGES = "nvidia-cuda-cuobjdump==13.2.78 nvidia-cuda-nvdisasm==13.2.78"
INSTALLING = f"Installing into build/cuda_tools: {PACKAGES}\n"


@unittest.skipIf(shutil.which("cuobjdump", path=os.defpath + ":/usr/local/cuda/bin"), "the toolkit has cuobjdump")
class CudaTools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("scripts", "bin"):
            (self.root / name).mkdir()
        shutil.copy(SCRIPTS / "setup", self.root / "scripts")
        (self.root / "scripts/packages.txt").write_text("# none\n")
        self.program("nvcc", "")

    def program(self, name, body):
        path = self.root / "bin" / name
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)

    def setup(self):
        environment = {"PATH": f"{self.root}/bin:{os.defpath}"}
        return subprocess.run([self.root / "scripts/setup"], capture_output=True, text=True, env=environment)

    def test_without_pip_it_says_so_and_goes_on(self):
        self.program("python3", "echo 'No module named pip' >&2; exit 1\n")
        run = self.setup()
        self.assertEqual((run.returncode, run.stdout), (0, INSTALLING))
        self.assertEqual(run.stderr, "No module named pip\n"
                         "There is no cuobjdump, so tests of the machine code of kernels are skipped. To have them, install the\n"
                         f"  CUDA toolkit's, or: python3 -m pip install --no-deps --target build/cuda_tools {PACKAGES}\n")
        self.assertFalse((self.root / "build/cuda_tools").exists())

    def test_what_pip_brought_is_not_fetched_again(self):
        self.program("python3", "mkdir -p build/cuda_tools/nvidia/cu13/bin\n"
                     "for tool in cuobjdump nvdisasm; do cp bin/nvcc build/cuda_tools/nvidia/cu13/bin/$tool; done\n")
        self.assertEqual([self.setup().stdout, self.setup().stdout], [INSTALLING, ""])


if __name__ == "__main__":
    unittest.main()
