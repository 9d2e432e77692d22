"""Functions of jax with a plan's layouts inside."""
import collections
import functools
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from . import _library as lib
from ._equations import UNOPENED, Path, Reads, Value
from ._function import Function


def partition_spec(spec: Any) -> Any:
    from jax.sharding import PartitionSpec
    while spec and not spec[-1]:
        spec = spec[:-1]
    return PartitionSpec(*[None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in spec])


class _Layouts:
    """Shardings of a plan's values, by the equations of the function."""

    def __init__(self, paths: Dict[int, Path], constraints: Sequence[Any], mesh: Any):
        self.paths, self.mesh = paths, mesh
        self.of_path: Dict[Optional[Path], List[Any]] = {}
        self.told: Set[int] = set()  # lines
        for constraint in constraints:
            self.of_path.setdefault(paths.get(constraint.line), []).append(constraint)
        for constraint in self.of_path.get(None, []):
            if constraint.product:
                raise lib.AlpaError(_IN_CALL.format(constraint.line, constraint.operation))

    def sharding(self, shape: Sequence[int], spec: Any) -> Any:
        """None: jax takes no unequal parts."""
        import jax
        import math
        if any(extent % math.prod(self.mesh.shape[axis] for axis in axes) for extent, axes in zip(shape, spec)):
            return None
        return jax.sharding.NamedSharding(self.mesh, partition_spec(spec))

    def reads(self, shape: Sequence[int], reads: Sequence[Any]) -> Reads:
        found = {self.paths.get(line): self.sharding(shape, spec) for line, spec in reads}
        return {path: sharding for path, sharding in found.items() if path and sharding}

    def constrain(self, path: Path, equation: Any, arrays: List[Any]) -> List[Value]:
        return [self._constrained(path, equation, array) for array in arrays]

    def _constrained(self, path: Path, equation: Any, array: Any) -> Value:
        import jax
        found = self.of_path.get(path, [])
        if equation.primitive.name in UNOPENED:
            for constraint in found:
                if constraint.product:
                    raise lib.AlpaError(_IN_LOOP.format(constraint.line, constraint.operation, equation.primitive.name))
            return array, {}
        # An equation may be several operations; the last of its result's shape is its result.
        of_shape = [c for c in found if c.shape == array.shape]
        if not of_shape:
            return array, {}
        of_rounds = [c for c in of_shape if c.line == of_shape[-1].line]
        # Rounds of a loop share one layout: that of most.
        texts = [str((c.spec, c.reads)) for c in of_rounds]
        chosen = of_rounds[texts.index(collections.Counter(texts).most_common(1)[0][0])]
        self._tell_others(chosen, [c for c in of_rounds if c.spec != chosen.spec])
        sharding = self.sharding(array.shape, chosen.spec)
        laid_out = array if sharding is None else jax.lax.with_sharding_constraint(array, sharding)
        return laid_out, self.reads(array.shape, chosen.reads)

    def _tell_others(self, chosen: Any, others: List[Any]) -> None:
        if others and chosen.product and chosen.line not in self.told:
            self.told.add(chosen.line)
            warnings.warn(_OTHER_ROUNDS.format(chosen.line, chosen.operation, partition_spec(chosen.spec), len(others)), stacklevel=2)


_ON = "Write it out, or give jax plan.in_shardings and plan.out_shardings alone"
_IN_LOOP = "line {}: a product ({}) is in a loop (jax.lax.{}), into which no layouts are put. " + _ON
_OTHER_ROUNDS = ("line {}: rounds of a loop share one layout. That of this product ({}) is {}; the plan has others for {} of its "
                 "rounds. A loop that is written out in Python has all of them")
_IN_CALL = "line {}: a product ({}) is in a call that cannot be inlined. " + _ON


def constrained(function: Function, arguments: Sequence[Dict[str, Any]], constraints: Sequence[Any],
                mesh: Any) -> Callable:
    """A function with layouts inside. `arguments` and `constraints` are those of the plan."""
    import jax
    layouts = _Layouts(function.paths, constraints, mesh)
    reads = [layouts.reads(a["shape"], [(read["line"], read["spec"]) for read in a["reads"]]) for a in arguments]

    def call(*args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        if tree != function.in_tree:
            raise lib.AlpaError(f"the arguments are {tree}, but the plan is of {function.in_tree}")
        for leaf, aval, argument in zip(leaves, function.jaxpr.in_avals, arguments):
            if jax.numpy.shape(leaf) != aval.shape or jax.numpy.result_type(leaf) != aval.dtype:
                raise lib.AlpaError(f"{argument['name']} is {jax.typeof(leaf)}, but the plan is of {aval}")
        return function.evaluated(args, reads, layouts.constrain)

    return functools.update_wrapper(call, function.callable)
