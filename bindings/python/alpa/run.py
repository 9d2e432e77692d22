"""Training on alpa's devices."""
import ctypes
import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Mapping, MutableMapping, Optional, Union

import numpy as np

from . import _library as lib
from ._function import Function
from .optimizers import Optimizer
from .plan import Plan


@dataclasses.dataclass(frozen=True)
class Result:
    """What a step returns."""
    metrics: Dict[str, float]  #: single numbers, by name: "loss", and those that a whole step returns
    outputs: Dict[str, np.ndarray]  #: other tensors that a whole step returns, by name

    @property
    def loss(self) -> float:
        """Of a loss, mean over the micro-batches."""
        return self.metrics["loss"]


class State(MutableMapping):
    """Tensors of a run by name: "params.w", "params.w.adam_m". Reading gathers, assigning writes to the devices."""

    def __init__(self, run: "Run"):
        self._run = run
        self._types = {tensor["name"]: tensor["dtype"] for tensor in run._state}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._types:
            raise KeyError(name)
        return lib.taken("alpa_run_get", self._run._handle.pointer, name.encode())

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._types:
            raise KeyError(name)
        array = lib.given(value, name, self._types[name])
        lib.call("alpa_run_set", self._run._handle.pointer, ctypes.byref(lib.tensor(array, name, self._types[name])))

    def __delitem__(self, name: str) -> None:
        raise TypeError("state can't be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


class Run:
    """A step on devices of this machine, with its state."""

    def __init__(self, function: Function, options: bytes, seed: int):
        self._function = function
        self._handle = lib.Handle("alpa_run_free", "alpa_run_new", function.handle.pointer, options, seed)
        self.plan = Plan(function, lib.Handle("alpa_plan_free", "alpa_run_plan", self._handle.pointer))
        self._state: List[Dict[str, Any]] = self.plan._json["state"]
        self.state = State(self)
        self._inputs = [a for a in function.json["arguments"] if a["name"] not in self.state]
        self._set([leaf for leaf in function.leaves[:self._count()]])

    def _count(self) -> int:
        """Arguments that are state, which come first."""
        return len(self._function.json["arguments"]) - len(self._inputs)

    def _set(self, leaves: List[Any]) -> None:
        """Content of the first arguments; those without any, such as ShapeDtypeStruct, keep what they have."""
        for argument, leaf in zip(self._function.json["arguments"], leaves):
            if hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__") or np.isscalar(leaf):
                self.state[argument["name"]] = leaf

    def _batch(self, batch: Any) -> List[Any]:
        if len(batch) == 1 and isinstance(batch[0], Mapping) and self._function.in_tree is None:
            missing = [a["name"] for a in self._inputs if a["name"] not in batch[0]]
            if missing or len(batch[0]) != len(self._inputs):
                raise lib.AlpaError(f"the batch has {sorted(batch[0])}; it must have {[a['name'] for a in self._inputs]}")
            return [batch[0][a["name"]] for a in self._inputs]
        if self._function.in_tree is None:
            raise lib.AlpaError("the batch of a text is one dict from names to arrays")
        import jax
        return jax.tree.leaves(batch)

    def step(self, *batch: Any) -> Result:
        """Runs a step on the arguments that are not state: pytrees of jax or NumPy arrays; of a text a dict from names to
        arrays. They are read where they are, unless their type must be converted."""
        leaves = self._batch(batch)
        if len(leaves) != len(self._inputs):
            raise lib.AlpaError(f"the batch has {len(leaves)} leaves; the step takes {len(self._inputs)}: "
                                f"{', '.join(a['name'] for a in self._inputs)}")
        arrays = [lib.given(leaf, a["name"], a["dtype"]) for leaf, a in zip(leaves, self._inputs)]
        tensors = [lib.tensor(array, a["name"], a["dtype"]) for array, a in zip(arrays, self._inputs)]
        lib.call("alpa_run_step", self._handle.pointer, (lib.Tensor * len(tensors))(*tensors), len(tensors))
        results = lib.parsed("alpa_run_results", self._handle.pointer)
        return Result(results["metrics"], {name: lib.taken("alpa_run_output", self._handle.pointer, name.encode())
                                           for name in results["outputs"]})

    @property
    def arguments(self) -> Any:
        """The first argument of the function, or a tuple of the first ones, as they are now: the parameters of a loss, the
        state of a whole step; pytrees of NumPy arrays."""
        import jax
        if self._function.in_tree is None:
            raise lib.AlpaError("a text has no pytrees; its tensors are in run.state")
        left, found = self._count(), []
        names = iter(self._function.json["arguments"])
        leaves = iter(self._function.leaves)
        for tree in self._function.in_tree.children():
            if left < tree.num_leaves or left == 0:
                break
            left -= tree.num_leaves
            found.append(jax.tree.unflatten(tree, [_as(self.state[next(names)["name"]], next(leaves))
                                                   for _ in range(tree.num_leaves)]))
        return found[0] if len(found) == 1 else tuple(found)


def _as(array: np.ndarray, like: Any) -> np.ndarray:
    """Masks and unsigned numbers as they were given."""
    dtype = getattr(like, "dtype", None)
    return array.view(dtype) if dtype is not None and str(dtype) in ("bool", "uint32") else array


def parallelize(function: Union[str, Callable], *args: Any, devices: int, method: str = "shard", mesh: Optional[str] = None,
                stages: Optional[int] = None, optimizer: Optional[Optimizer] = None, micro_batches: Optional[int] = None,
                precision: Optional[str] = None, parameters: Optional[str] = None, clip_global_norm: Optional[float] = None,
                time_limit: Optional[float] = None, memory_budget: Optional[int] = None, seed: int = 0) -> Run:
    """Plans a training step, as `plan` does, and loads it onto `devices` CPU devices of this machine, which are threads.
    State has the content of `args`, as far as they are arrays; else parameters are random by `seed`. Raises AlpaError."""
    options = dict(locals())
    for name in ("function", "args", "seed"):
        del options[name]
    imported = Function(function, args)
    return Run(imported, imported.options(options), seed)
