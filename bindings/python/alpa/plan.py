"""Plans, and their specs as jax has them."""
import dataclasses
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _library as lib
from ._constrained import constrained, partition_spec
from ._function import Function
from .optimizers import Optimizer

Spec = List[List[str]]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """A value inside the function, with its spec. `Plan.constrained` gives it to `jax.lax.with_sharding_constraint`."""
    line: int  #: of the StableHLO text, with calls inlined
    operation: str  #: of alpa: "einsum", "attention", "conv2d", …
    product: bool  #: of matrices, or alike
    dtype: str
    shape: Tuple[int, ...]
    spec: Spec  #: for each dimension the axes of the mesh that split it, major first
    reads: Tuple[Tuple[int, Spec], ...]  #: lines of operations that read it in another spec, and these specs


class Plan:
    """A plan. `str(plan)` has at most ten lines. Specs are those of one stage: a plan of several raises AlpaError."""

    seconds: float  #: of a step, predicted
    lower_bound_seconds: Optional[float]  #: no plan takes less; None: not proven
    gap: Optional[float]  #: (seconds - lower bound) / seconds
    proof: str  #: what is proven, in words
    bytes_per_device: int  #: exact peak, the most of all devices
    method: str
    stages: int  #: number of stages
    meshes: str  #: of the stages: "2x4"
    traffic: Dict[str, Dict[str, float]]  #: of a device and a step, by kind: {"all_reduce": {"count", "bytes"}}
    arguments: List[Dict[str, Any]]  #: name, dtype, shape, role (state or batch) and spec, in jax's order of leaves
    results: List[Dict[str, Any]]  #: name, dtype, shape and spec
    _LIST = ("seconds", "lower_bound_seconds", "gap", "proof", "bytes_per_device", "method", "stages", "meshes", "traffic",
             "arguments", "results")

    def __init__(self, function: Function, handle: lib.Handle):
        self._function, self._handle = function, handle
        self._json = lib.parsed("alpa_plan_json", handle.pointer)
        for name in self._LIST:
            setattr(self, name, self._json[name])

    def __str__(self) -> str:
        return lib.text("alpa_plan_text", self._handle.pointer)

    def report(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the plan as one HTML page."""
        lib.call("alpa_plan_report", self._handle.pointer, os.fsencode(path))

    def _of_one_stage(self, name: str) -> Any:
        if self.stages > 1:
            raise lib.AlpaError(f"the plan has {self.stages} stages, each with a mesh and specs of its own; "
                                "method=\"shard\" plans one")
        return self._json[name]

    def _of_jax(self, tensors: List[Dict[str, Any]], tree: Any) -> Any:
        self._of_one_stage("mesh")
        if tree is None:
            raise lib.AlpaError("a text has no pytrees; its specs are in plan.arguments and plan.results")
        import jax
        return jax.tree.unflatten(tree, [partition_spec(tensor["spec"]) for tensor in tensors])

    @property
    def mesh_shape(self) -> Tuple[int, ...]:
        """Extents of the mesh: (2, 4)."""
        return tuple(self._of_one_stage("mesh")["shape"])

    @property
    def axis_names(self) -> Tuple[str, ...]:
        """Names of the axes of the mesh: ("x", "y")."""
        return tuple(self._of_one_stage("mesh")["axes"])

    @property
    def in_specs(self) -> Any:
        """A PartitionSpec for each leaf of the arguments, as a tuple of pytrees."""
        return self._of_jax(self.arguments, self._function.in_tree)

    @property
    def out_specs(self) -> Any:
        """A PartitionSpec for each leaf of the result, as a pytree."""
        return self._of_jax(self.results, self._function.out_tree)

    @property
    def state_specs(self) -> Dict[str, Spec]:
        """Specs of parameters and optimizer state, by name."""
        return {tensor["name"]: tensor["spec"] for tensor in self._of_one_stage("state")}

    @property
    def constraints(self) -> List[Constraint]:
        """Values inside the function and their layouts."""
        return [Constraint(c["line"], c["operation"], c["product"], c["dtype"], tuple(c["shape"]), c["spec"],
                           tuple((read["line"], read["spec"]) for read in c["reads"]))
                for c in self._of_one_stage("constraints")]

    def constrained(self, mesh: Any) -> Callable:
        """The planned function of jax, with the plan's layouts of values inside, on a mesh. It takes arguments of the shapes
        and types of those planned for, and computes the same. Values whose spec has unequal parts are left to jax.
        Rounds of jax.lax.scan share the layouts that most of them have; a warning names products of which others differ.
        Raises AlpaError if the function has products in jax.lax.while_loop or in branches."""
        if self._function.in_tree is None:
            raise lib.AlpaError("a text is no function of jax; give plan.constraints to what runs it")
        return constrained(self._function, self.arguments, self.constraints, mesh)

    def mesh(self, devices: Optional[Sequence[Any]] = None) -> Any:
        """The jax.sharding.Mesh of these devices, by default the first that jax has."""
        import jax
        import numpy as np
        count = int(np.prod(self.mesh_shape))
        devices = list(jax.devices()[:count] if devices is None else devices)
        if len(devices) != count:
            raise lib.AlpaError(f"the plan is for {count} devices, not {len(devices)}")
        return jax.sharding.Mesh(np.array(devices).reshape(self.mesh_shape), self.axis_names)

    def in_shardings(self, mesh: Any) -> Any:
        """`in_specs` as jax.jit takes them, on a mesh. JAX takes only splits into equal parts."""
        return self._shardings(self.in_specs, mesh)

    def out_shardings(self, mesh: Any) -> Any:
        """`out_specs` as jax.jit takes them."""
        return self._shardings(self.out_specs, mesh)

    def _shardings(self, specs: Any, mesh: Any) -> Any:
        import jax
        return jax.tree.map(lambda spec: jax.sharding.NamedSharding(mesh, spec), specs,
                            is_leaf=lambda x: isinstance(x, jax.sharding.PartitionSpec))


def plan(function: Union[str, Callable], *args: Any, cluster: Optional[str] = None, hosts: Optional[int] = None,
         devices: Optional[int] = None, method: str = "shard", mesh: Optional[str] = None, stages: Optional[int] = None,
         optimizer: Optional[Optimizer] = None, micro_batches: Optional[int] = None, precision: Optional[str] = None,
         parameters: Optional[str] = None, clip_global_norm: Optional[float] = None, time_limit: Optional[float] = None,
         memory_budget: Optional[int] = None) -> Plan:
    """Plans a training step. No devices are needed.

    function: a function of jax with positional arguments, or StableHLO text, without `args`. A loss returns one floating
        number, and alpa trains its first argument; any other function is a whole step, (state, batch) → (new state, …).
    args: arrays of jax or NumPy, or jax.ShapeDtypeStruct, in pytrees.
    cluster, hosts: a name such as "dgx-a100", or a cluster file, with so many times its hosts; or `devices`: so many CPU
        devices of this machine.
    method: serial, data, zero2, zero3, shard (the best on one mesh), pipeline (the best stages), or auto, which is pipeline of
        a loss and else shard.
    mesh: such as "2x4"; default: the cheapest. stages: of a pipeline; default: searched for.
    optimizer, micro_batches, precision, parameters, clip_global_norm: of a loss; the texts' extents are those of a micro-batch.
    time_limit: seconds; default 60. memory_budget: bytes of a device; default: its memory.
    Raises AlpaError."""
    options = dict(locals())
    for name in ("function", "args"):
        del options[name]
    imported = Function(function, args)
    return Plan(imported, lib.Handle("alpa_plan_free", "alpa_plan_new", imported.handle.pointer, imported.options(options)))
