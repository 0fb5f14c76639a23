"""What a condition's file says of fusing the runs of other conditions, or of reranking one."""

from dataclasses import dataclass

from . import rerankers
from .errors import UsageError, shown
from .specs import MAX_HITS, Parameters
from .suggest import did_you_mean
from .yamlfile import Range, Reader

RRF, COMBSUM, COMBMNZ, WEIGHTED, INTERPOLATION = "rrf", "combsum", "combmnz", "weighted", "interpolation"
MIN_MAX, Z_SCORE, NONE = "min-max", "z-score", "none"
NORMALIZATIONS = (MIN_MAX, Z_SCORE, NONE)
ALL, RERANKED = "all", "reranked"


@dataclass(frozen=True)
class FusionSpec(Parameters):
    """How runs are fused into one of at most `hits` documents a query.

    `inputs` names conditions; of each run the best `depth` documents count, all of them for None. `k` is that of
    reciprocal rank fusion; `weights`, one an input, those of WEIGHTED; `alpha` the weight of the first of two inputs
    for INTERPOLATION, the second having 1 - alpha. Settings that the method does not have stay None.
    """

    method: str
    inputs: tuple[str, ...]
    hits: int = 1000
    depth: int | None = None
    k: float | None = None
    weights: tuple[float, ...] | None = None
    alpha: float | None = None
    normalization: str | None = None


@dataclass(frozen=True)
class RerankSpec(Parameters):
    """How a run is reranked: the best `depth` documents a query, by `reranker`.

    `keep` is ALL, where documents below `depth` stay below, in their order, or RERANKED, where they are left out.
    With `max_passage` a document longer than the reranker takes has the score of its best window.
    """

    input: str
    reranker: str
    depth: int = 100
    keep: str = ALL
    max_passage: bool = False


# Which settings a method has, with their defaults; None: it must be given.
_METHODS: dict[str, dict[str, object]] = {
    RRF: {"k": 60.0},
    COMBSUM: {"normalization": MIN_MAX},
    COMBMNZ: {"normalization": MIN_MAX},
    WEIGHTED: {"normalization": MIN_MAX, "weights": None},
    INTERPOLATION: {"normalization": NONE, "alpha": 0.5},
}
METHODS = tuple(_METHODS)
_RANGES: dict[str, Range] = {"k": (0, 1_000_000), "alpha": (0, 1), "hits": (1, MAX_HITS), "depth": (1, MAX_HITS)}
_WHOLE = ("hits", "depth")


def read_fusion(reader: Reader, value: object) -> FusionSpec | None:
    """The specification that the part `fusion` of a condition's file gives; None after noting why it gives none."""
    settings = {key for has in _METHODS.values() for key in has}
    known = {"method", "inputs", "hits", "depth", *settings}
    values = reader.mapping(value, "fusion", known, {"method", "inputs"})
    method = values.get("method")
    if "method" not in values or not reader.choice(method, "fusion: method", METHODS) or "inputs" not in values:
        return None
    return check_fusion(reader, method, _names(reader, values["inputs"]), values)


def check_fusion(reader: Reader, method: str, inputs: tuple[str, ...], values: dict) -> FusionSpec:
    """The specification for inputs and settings; what does not fit the method is noted."""
    has = _METHODS[method]
    for key in sorted(values.keys() - {"method", "inputs", "hits", "depth"} - has.keys()):
        reader.fault(f"fusion: method {method} has no setting {key!r}")
    numbers = {key: values[key] for key in values if key in _RANGES and (key in has or key in _WHOLE)}
    given = has | reader.numbers(numbers, "fusion", _RANGES, _WHOLE)
    if "normalization" in has:
        given["normalization"] = values.get("normalization", has["normalization"])
        reader.choice(given["normalization"], "fusion: normalization", NORMALIZATIONS)
    if method == WEIGHTED:
        given["weights"] = _weights(reader, values.get("weights"), inputs)
    if len(inputs) < 2:
        reader.fault(f"fusion: inputs: two or more are wanted, not {len(inputs)}")
    if method == INTERPOLATION and len(inputs) > 2:
        reader.fault(f"fusion: method {method} is for two inputs, not {len(inputs)}")
    return FusionSpec(method, inputs, **given)


def fusion_of(method: str, inputs: tuple[str, ...], settings: dict) -> FusionSpec:
    """The specification that a command line gives. Raises UsageError with all that is wrong."""
    reader = Reader("fuse")
    if not reader.choice(method, "--method", METHODS):
        raise UsageError("\n".join(reader.faults))
    spec = check_fusion(reader, method, inputs, settings)
    if reader.faults:
        raise UsageError("\n".join(reader.faults))
    return spec


def _names(reader: Reader, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        reader.fault(f"fusion: inputs is {shown(value)}; a list of conditions is wanted")
        return ("", "")
    twice = {name for name in value if value.count(name) > 1}
    for name in sorted(twice):
        reader.fault(f"fusion: inputs: {name} stands there twice")
    return tuple(value)


def _weights(reader: Reader, value: object, inputs: tuple[str, ...]) -> tuple[float, ...]:
    good = isinstance(value, (list, tuple)) and all(
        isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 <= weight <= 1_000_000
        for weight in value
    )
    if not good or len(value) != len(inputs):
        reader.fault(f"fusion: weights: a list of numbers from 0 on is wanted, one an input, not {shown(value)}")
        return ()
    return tuple(float(weight) for weight in value)


def read_rerank(reader: Reader, value: object) -> RerankSpec | None:
    """The specification that the part `rerank` of a condition's file gives; None after noting why it gives none."""
    known, required = {"input", "reranker", "depth", "keep", "max_passage"}, {"input", "reranker"}
    values = reader.mapping(value, "rerank", known, required)
    if not required <= values.keys():
        return None
    if not isinstance(values["input"], str):
        reader.fault(f"rerank: input is {shown(values['input'])}; the name of a condition is wanted")
    name = values["reranker"]
    if name not in rerankers.names():
        hint = did_you_mean(str(name), rerankers.names())
        reader.fault(f"rerank: no reranker {shown(name)}{hint} (rerankers.yaml describes them)")
    keep = values.get("keep", ALL)
    reader.choice(keep, "rerank: keep", (ALL, RERANKED))
    passages = reader.flag(values.get("max_passage", False), "rerank: max_passage")
    depth = reader.numbers({key: values[key] for key in values if key == "depth"}, "rerank", _RANGES, _WHOLE)
    return RerankSpec(str(values["input"]), str(name), keep=keep, max_passage=passages, **depth)
