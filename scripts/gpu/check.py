"""A check of a card: jobs, the programs that they run, and the rows that these tell."""
import concurrent.futures
import ctypes
import dataclasses
import datetime
import json
import os
import pathlib
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/gpu_check"
EARLIER = ROOT / "bundle/results"  # what earlier calls brought back


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ")


def say(text):
    # One write: jobs report from threads of their own, and print() writes the end of the line by itself.
    sys.stderr.write(f"gpu_check: {text}\n")
    sys.stderr.flush()


def output(*command, environment=None):
    """What a command prints, or None if it fails."""
    try:
        return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def tool(name):
    """Where a tool of the toolkit is, or None."""
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/nvidia/bin", *map(str, pathlib.Path("/opt/nvidia/nsight-compute").glob("*"))]
    return shutil.which(name, path=os.pathsep.join(folders))


def card(what="name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"):
    """Of the first card: what figures were measured under."""
    return output("nvidia-smi", "--id=0", "--format=csv,noheader", f"--query-gpu={what}")


def json_row(line):
    """The JSON object that a line is, or None."""
    try:
        row = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return None
    return row


class Rows:
    """A file of JSON lines, each written at once. A run that is killed leaves whole lines, and at most a part of a last one."""

    def __init__(self, path, finished, again):
        """Keeps what earlier runs wrote about finished jobs; `again`: those of this prefix are not finished."""
        self.path = path
        lines = path.read_bytes().decode(errors="replace").splitlines() if path.exists() else []
        old = [row for row in map(json_row, lines) if row is not None]
        self.done = {row["job"] for row in old if row.get("status") in finished and row["job"] != "programs"
                     and (again is None or not row["job"].startswith(again))}
        self.rows = [row for row in old if row["job"] in self.done or row["job"] == "run"]
        if len(self.rows) < len(lines):
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
            unfinished.replace(path)
        self.file = open(path, "a", buffering=1)

    def add(self, job, row):
        row = {"job": job, **row}
        self.rows.append(row)
        self.file.write(json.dumps(row).replace(f"{ROOT}/", "") + "\n")
        self.file.flush()


@dataclasses.dataclass
class Job:
    """A program whose output is read, or a function that is called with the check and the job."""
    name: str
    command: typing.Sequence = ()
    function: typing.Optional[typing.Callable] = None
    seconds: float = 1e9  # at most
    needs: str = ""  # why it is skipped, if that is known before
    row_of: typing.Callable = json_row  # the row that a line of the output is, or None
    environment: typing.Optional[dict] = None  # default: that of our programs
    deadline: float = 0.0

    def left(self):
        return self.deadline - time.monotonic()


class Skipped(Exception):
    pass


class Failed(Exception):
    pass


class Cut(Exception):
    pass


class Check:
    def __init__(self, options):
        self.options, self.started = options, time.monotonic()
        options.folder.mkdir(parents=True, exist_ok=True)
        for path in () if options.tiny else EARLIER.glob(f"{options.call}.*"):
            if not (options.folder / path.name).exists():
                shutil.copy(path, options.folder)
        self.log = open(options.folder / f"{options.call}.log", "a")
        self.rows = Rows(options.folder / f"{options.call}.jsonl", ("passed", "failed"), options.again)
        self.emulated = "emulated" in pathlib.Path(os.environ.get("ALPA_CUDA_LIBRARY", "")).name
        self.environment = dict(os.environ)
        self.environment.setdefault("XDG_CACHE_HOME", str(BUILD / "cache"))
        self.programs, self.no_gpu, self.doctor = options.programs, None, None
        self.statuses, self.children, self.stopped = [], set(), False

    def program(self, name):
        """The path of a program; those that are linked with the backend have another name on the emulation."""
        if self.emulated:
            name = re.sub("^bench_cuda_", "bench_emulated_", name)
            name = "test_cuda_emulated" if name == "test_cuda" else name
        return (self.programs / name).resolve()

    def part(self, name, jobs, end, beside):
        """Runs jobs until their part's time is over, as many beside each other."""
        for job in jobs:
            job.name = f"{name}/{job.name}" if job.name else name
        left = [job for job in jobs if job.name not in self.rows.done]
        if beside == 1:
            for job in left:
                self.run(job, end)
            return
        with concurrent.futures.ThreadPoolExecutor(beside) as pool:
            try:
                list(pool.map(lambda job: self.run(job, end), left))
            except BaseException:
                self.stop()
                raise

    def stop(self):
        """Ends all programs; jobs that run now, or would begin, get no row."""
        self.stopped = True
        for child in list(self.children):
            kill_group(child)

    def run(self, job, end):
        if self.stopped:
            return
        job.deadline = min(end, time.monotonic() + job.seconds)
        begin = time.monotonic()
        status, reason = "passed", None
        try:
            if job.needs:
                raise Skipped(job.needs)
            if job.left() <= 0:
                raise Cut("no time was left")
            if job.function:
                job.function(self, job)
            else:
                self.process(job)
        except Skipped as why:
            status, reason = "skipped", str(why)
        except Cut as why:
            status, reason = "cut", str(why)
        except Failed as why:
            status, reason = "failed", str(why)
        except (OSError, ValueError, KeyError) as why:
            status, reason = "failed", f"{type(why).__name__}: {why}"
        if self.stopped:
            return
        row = {"status": status, "seconds": round(time.monotonic() - begin, 1)}
        if reason:
            row["reason"] = reason
            say(f"{self.options.call} {job.name}: {status}: {reason}")
        if job.command:
            row["command"] = shlex.join(map(str, job.command))
        self.rows.add(job.name, row)
        self.statuses.append(status)

    def process(self, job, command=None):
        """Runs a program; returns what it printed. Every line that the job makes a row of is one."""
        command = list(map(str, command or job.command))
        self.log.write(f"== {shlex.join(command)}\n")
        self.log.flush()
        printed, errors = [], tempfile.TemporaryFile()
        child = subprocess.Popen(command, cwd=ROOT, env=job.environment or self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=errors, start_new_session=True, preexec_fn=ends_with_us)
        self.children.add(child)
        try:
            for line in lines_until(child.stdout, job.deadline):
                printed.append(line)
                row = job.row_of(line)
                if row is not None:
                    self.rows.add(job.name, row)
            status = child.wait(timeout=max(0.1, job.left()))
        except (TimeoutError, subprocess.TimeoutExpired):
            status = None
        finally:
            end_group(child)
            self.children.discard(child)
            with errors:
                errors.seek(0)
                told = errors.read().decode(errors="replace")
            self.log.write(f"-- {shlex.join(command)}\n{''.join(printed)}{told}")
            self.log.flush()
        if status is None:
            raise Cut("its time was over")
        if status != 0:
            raise Failed(": ".join(filter(None, [f"exit status {status}", complaint("".join(printed), told)])))
        return "".join(printed)


def complaint(printed, told):
    """The line of a program's output that says most of why it failed: its first error, or its last word."""
    lines = [line.strip()[:300] for line in (printed + told).splitlines() if line.strip()]
    return next((line for line in lines if "ERROR" in line), (lines or [""])[-1])


def ends_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def end_group(child):
    """A program that a driver's call holds back does not end when killed: it is left behind after ten seconds."""
    kill_group(child)
    child.stdout.close()
    try:
        child.wait(timeout=10)
    except subprocess.TimeoutExpired:
        say(f"process {child.pid} does not end; it is left behind")


def lines_until(pipe, deadline):
    """The lines of a pipe; TimeoutError when the time is over."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            chunk = os.read(pipe.fileno(), 1 << 16)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") + "\n" for line in lines)
            if not chunk:
                if rest:
                    yield rest.decode(errors="replace")
                return
