"""What is planned or run: a function of jax with examples of its arguments, or StableHLO text."""
import functools
import json
from typing import Any, Callable, Dict, List, Sequence, Union

from . import _library as lib
from ._equations import Hook, Path, Reads, as_it_is, evaluate, paths_of_lines


class Function:
    """An imported function. Of a function of jax `in_tree` and `out_tree` are the structures of its arguments and results,
    `leaves` the arguments given, `jaxpr` its equations, and `paths` those of lines of the text."""

    def __init__(self, function: Union[str, Callable], args: Sequence[Any]):
        self.in_tree = self.out_tree = None
        self.leaves: List[Any] = []
        self.callable = function
        self.jaxpr: Any = None
        self.paths: Dict[int, Path] = {}
        self.first = 0  # leaves of the first argument
        if isinstance(function, str):
            if args:
                raise lib.AlpaError("StableHLO text knows its arguments; give none")
            code = function
        else:
            code = self._lower(function, args)
        data = code.encode()
        self.handle = lib.Handle("alpa_function_free", "alpa_import", data, len(data))
        self.json: Dict[str, Any] = lib.parsed("alpa_function_json", self.handle.pointer)

    def _lower(self, function: Callable, args: Sequence[Any]) -> str:
        import jax
        self.leaves, self.in_tree = jax.tree.flatten(tuple(args))
        self.first = len(jax.tree.leaves(args[0])) if args else 0
        self.jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        self.out_tree = jax.tree.structure(shapes)
        # Arguments that the function does not read stay, so that arguments of the text are leaves.
        numbered = functools.wraps(function)(lambda *given: self.evaluated(given))
        lowered = jax.jit(numbered, keep_unused=True).lower(*args)
        text = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        self.paths = paths_of_lines(text)
        return text

    def evaluated(self, args: Sequence[Any], reads: Sequence[Reads] = (), hook: Hook = as_it_is) -> Any:
        """The function's result, computed by its equations; `reads` are of the leaves of `args`, by default none."""
        import jax
        leaves = jax.tree.leaves(tuple(args))
        results = evaluate(self.jaxpr, list(zip(leaves, reads or [{}] * len(leaves))), hook)
        return jax.tree.unflatten(self.out_tree, [array for array, _ in results])

    def options(self, given: Dict[str, Any]) -> bytes:
        """JSON of the options that are not None. Of a loss of jax its first argument is trained."""
        options = {name: value for name, value in given.items() if value is not None}
        if self.in_tree is not None and self.json["is_loss"]:
            options.setdefault("parameters", str(self.first))
        return json.dumps(options).encode()
