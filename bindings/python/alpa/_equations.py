"""A function of jax as equations: numbered in the text that alpa reads, and constrained in the function that jax runs."""
import re
from typing import Any, Callable, Dict, List, Sequence, Tuple

Path = Tuple[int, ...]  # numbers of equations, from the outermost to that within it
Reads = Dict[Path, Any]  # shardings in which equations read a value
Value = Tuple[Any, Reads]  # an array, and how it is read
SCOPE = "alpa_equation_"
CALLS, REPEATED, UNOPENED = ("jit", "pjit", "closed_call"), ("remat2", "remat", "checkpoint"), ("while", "cond")
# What makes values of an equation's results: (path, equation, arrays of those results that are kept) -> values
Hook = Callable[[Path, Any, List[Any]], List[Value]]


def as_it_is(path: Path, equation: Any, arrays: List[Any]) -> List[Value]:
    return [(array, {}) for array in arrays]


def evaluate(closed: Any, values: Sequence[Value], hook: Hook = as_it_is, path: Path = ()) -> List[Value]:
    """Results of a jaxpr. Calls are inlined; each equation has a name scope with its path: in loops jax begins
    names anew."""
    import jax
    from jax.extend import core
    jaxpr = closed.jaxpr
    found = dict(zip(jaxpr.constvars, as_it_is(path, None, closed.consts)))
    found.update(zip(jaxpr.invars, values))

    def read(variable: Any) -> Value:
        return (variable.val, {}) if isinstance(variable, core.Literal) else found[variable]

    for number, equation in enumerate(jaxpr.eqns):
        inner, name = path + (number,), equation.primitive.name
        with jax.named_scope(SCOPE + "_".join(map(str, inner))):
            if name in CALLS:
                body = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
                results = evaluate(body, [read(v) for v in equation.invars], hook, inner)
                found.update(zip(equation.outvars, results))
            elif name in REPEATED:
                results = _repeated(equation, [read(v) for v in equation.invars], hook, inner)
                found.update(zip(equation.outvars, results))
            elif name == "scan":
                results = _looped(equation, [read(v) for v in equation.invars], hook, inner)
                found.update(zip(equation.outvars, results))
            else:
                kept = [v for v in equation.outvars if not isinstance(v, core.DropVar)]
                arrays = _computed(jaxpr, equation, kept, read, inner)
                found.update(zip(kept, hook(inner, equation, arrays)))
    return [read(v) for v in jaxpr.outvars]


def _computed(jaxpr: Any, equation: Any, kept: List[Any], read: Callable[[Any], Value], path: Path) -> List[Any]:
    """Results of one equation, of operands in the shardings in which it reads them."""
    import jax
    from jax.extend import core
    given = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, core.Literal)))
    arrays = [jax.lax.with_sharding_constraint(array, reads[path]) if path in reads else array
              for array, reads in map(read, given)]
    one = jaxpr.replace(constvars=[], invars=given, outvars=kept, eqns=[equation])
    return core.jaxpr_as_fun(core.ClosedJaxpr(one, []))(*arrays)


def _repeated(equation: Any, values: List[Value], hook: Hook, path: Path) -> List[Value]:
    """A call of jax.checkpoint, which stays one."""
    import jax
    from jax.extend import core
    body = core.ClosedJaxpr(equation.params["jaxpr"], [])

    def call(*arrays: Any) -> List[Any]:
        given = [(array, reads) for array, (_, reads) in zip(arrays, values)]
        return [array for array, _ in evaluate(body, given, hook, path)]

    again = jax.checkpoint(call, prevent_cse=equation.params["prevent_cse"], policy=equation.params["policy"])
    return as_it_is(path, equation, again(*[array for array, _ in values]))


def _looped(equation: Any, values: List[Value], hook: Hook, path: Path) -> List[Value]:
    """A call of jax.lax.scan, which stays one. All its rounds read constants and what they carry in the same shardings."""
    import jax
    params = equation.params
    consts, carried = params["num_consts"], params["num_consts"] + params["num_carry"]

    def body(carry: List[Any], rows: List[Any]) -> Any:
        given = [*values[:consts], *[(array, reads) for array, (_, reads) in zip(carry, values[consts:carried])],
                 *as_it_is(path, equation, rows)]
        results = [array for array, _ in evaluate(params["jaxpr"], given, hook, path)]
        return results[:params["num_carry"]], results[params["num_carry"]:]

    arrays = [array for array, _ in values]
    last, stacked = jax.lax.scan(body, arrays[consts:carried], arrays[carried:], length=params["length"],
                                 reverse=params["reverse"], unroll=params["unroll"])
    return as_it_is(path, equation, [*last, *stacked])


def paths_of_lines(text: str) -> Dict[int, Path]:
    """The equation of each line of a text that `evaluate` was lowered to. An operation with regions begins in the line of
    its name, and its location is in its last."""
    scopes = {name: re.findall(SCOPE + r"([\d_]+)", place)
              for name, place in re.findall(r'^(#loc\d+) = loc\("([^"]*)"', text, re.MULTILINE)}
    places = {name: tuple(map(int, found[-1].split("_"))) for name, found in scopes.items() if found}
    paths, begun = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        first = begun.pop() if line.lstrip().startswith("})") else number
        if line.endswith("({"):
            begun.append(first)
        place = re.search(r" loc\((#loc\d+)\)$", line)
        if place and places.get(place[1]):
            paths[first] = places[place[1]]
    return paths
