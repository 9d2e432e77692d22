"""The programs of a check: those named, those that were carried to this machine, or those compiled on it."""
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import tarfile

from gpu.check import BUILD, EARLIER, Failed, ROOT, card, tool

PACKED = ROOT / "bundle/programs.tar.xz"
CACHES = "caches.tar.xz"


def library_folders():
    """Of the libraries that came with the programs, and of NVIDIA's that Python has."""
    found = importlib.util.find_spec("nvidia")
    places = [pathlib.Path(place) for place in (found.submodule_search_locations if found else [])]
    folders = {path.parent for place in places for name in ("cudart", "cublasLt", "nvrtc", "cudnn", "nccl")
               for path in place.glob(f"*/lib/lib{name}.so.*")}
    carried = {path.parent for path in (ROOT / "build").glob("*/lib/**/libdnnl.so*")}
    return [*map(str, sorted(carried)), *map(str, sorted(folders))]


def unpack(check, job):
    """Puts carried programs where they were built. Some tests know the checkout by the path that it had there."""
    if (ROOT / "build/release/bin/alpa").exists() or not PACKED.exists():
        return
    with tarfile.open(PACKED) as archive:
        archive.extractall(ROOT, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    built_in = pathlib.Path((ROOT / "build/release/built_in").read_text().strip())
    try:
        if not built_in.exists():
            built_in.parent.mkdir(parents=True, exist_ok=True)
            built_in.symlink_to(ROOT)
    except OSError as why:
        check.rows.add(job.name, {"name": "the path of the build is not linked to this one", "because": str(why)})


def examine(check, job):
    """Asks the doctor of these programs what there is. Fails if they do not run here, or without their library."""
    folders = [str(check.programs.resolve()), *library_folders(), os.environ.get("LD_LIBRARY_PATH")]
    check.environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    doctor = check.process(dataclasses.replace(job, row_of=lambda line: None), [check.program("alpa"), "doctor", "--json", "--seconds", "0"])
    cuda = json.loads(doctor)["cuda"]
    reason = cuda["reason"] or None
    if reason and re.search("does not load|no libalpa_cuda.so|has interface", reason):
        raise Failed(reason)
    check.no_gpu = reason


def find_programs(check, job):
    """The programs that run here: those named, those carried, or those compiled now."""
    options = check.options
    if options.programs:
        return examine(check, job)
    reason = "--cmake is given"
    if not options.cmake:
        check.programs = ROOT / "build/release/bin"
        try:
            unpack(check, job)
            return examine(check, job)
        except (OSError, tarfile.TarError, Failed) as why:
            reason = str(why)
    check.rows.add(job.name, {"name": "compiled here", "because": reason})
    compile_here(check, job)
    check.programs = BUILD / "bin"
    return examine(check, job)


def unpack_caches(check):
    """What earlier calls compiled and chose, where this machine has nothing of it."""
    cache = pathlib.Path(check.environment["XDG_CACHE_HOME"])
    if not cache.exists() and not check.options.tiny and (EARLIER / CACHES).exists():
        with tarfile.open(EARLIER / CACHES) as archive:
            archive.extractall(cache, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def pack_caches(check):
    cache = pathlib.Path(check.environment["XDG_CACHE_HOME"])
    if (cache / "alpa").exists():
        with tarfile.open(check.options.folder / CACHES, "w:xz", preset=1) as archive:
            archive.add(cache / "alpa", "alpa")


def compile_here(check, job):
    """With the libraries of bundle/dependencies.tar.gz and of Python's packages, where these are."""
    found = importlib.util.find_spec("nvidia")
    prefixes = [str(path) for place in (found.submodule_search_locations if found else []) for path in sorted(pathlib.Path(place).iterdir())
                if (path / "include").is_dir()]
    if (ROOT / "bundle/dependencies.tar.gz").exists():
        target = ROOT / "build/dependencies"
        check.process(job, [ROOT / "scripts/bundle_deps", "unpack", target])
        prefixes.append(str(target))
    capability = (card("compute_cap") or "").replace(".", "")
    configure = ["cmake", "--preset", "release", "-B", BUILD, "-DALPA_CUDA=ON", "-DALPA_EMULATION=OFF",
                 f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}"] + check.options.cmake
    configure += [f"-DALPA_CUDA_ARCHITECTURES={capability}-real"] if capability.isdigit() else []
    if not (BUILD / "CMakeCache.txt").exists() and tool("ninja"):
        configure += ["-G", "Ninja"]
    check.process(job, configure)
    check.process(job, ["cmake", "--build", BUILD, "--parallel", os.cpu_count(), "--target", "cuda_programs"])
