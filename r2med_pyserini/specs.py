"""What a condition's file says of its index and its search, and which of it fits together."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from . import models
from .errors import shown
from .models import COSINE, DOT
from .suggest import did_you_mean
from .yamlfile import Range, Reader

LUCENE, IMPACT = "lucene", "lucene-impact"
FAISS_FLAT, FAISS_HNSW, LUCENE_FLAT, LUCENE_HNSW = "faiss-flat", "faiss-hnsw", "lucene-flat", "lucene-hnsw"
DENSE = (FAISS_FLAT, FAISS_HNSW, LUCENE_FLAT, LUCENE_HNSW)
KINDS = (LUCENE, IMPACT, *DENSE)
GRAPHS = (FAISS_HNSW, LUCENE_HNSW)

BM25, QLD, BM25QS, BM25_OFFICIAL = "bm25", "qld", "bm25qs", "bm25-official"
RM3, ROCCHIO = "rm3", "rocchio"
MAX_HITS = 1_000_000


class Parameters:
    """What recipes and displays show of a specification: the settings that it has."""

    def parameters(self) -> dict:
        """Name -> value, as JSON holds it, of every setting that is not at its `None` or `False`."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value is not None and value is not False
        }


@dataclass(frozen=True)
class IndexSpec(Parameters):
    """What a condition needs of its index. Settings that the kind does not have stay None, or False.

    `metric` is what a dense index ranks by; for COSINE it holds vectors of unit length. `scale` turns a weight into an
    impact: round(weight x scale). `m` and `ef_construction` are those of HNSW graphs.
    """

    kind: str = LUCENE
    exact_lengths: bool = False  # document lengths kept exactly, not rounded to one byte as Lucene's norms are
    docvectors: bool = False  # term vectors, which relevance feedback reads
    encoder: str | None = None
    metric: str | None = None
    scale: float | None = None
    m: int | None = None
    ef_construction: int | None = None


@dataclass(frozen=True)
class SearchSpec(Parameters):
    """How a condition searches. Settings that the kind of index does not have stay None, or False.

    `hits` is how many documents are kept a query. `remove_query` leaves out the document whose id is the query's, as
    the R2MED authors do. Lexical search has a ranking `model`, its parameters, and optional relevance feedback.
    """

    model: str | None = None
    hits: int = 1000
    k1: float | None = None
    b: float | None = None
    mu: float | None = None
    feedback: str | None = None
    fb_terms: int | None = None
    fb_docs: int | None = None
    original_query_weight: float | None = None
    alpha: float | None = None
    beta: float | None = None
    remove_query: bool = False
    ef_search: int | None = None


# Which parameters a ranking model or a feedback method has, with the defaults of Pyserini's command line.
_MODELS: dict[str, dict[str, float]] = {
    BM25: {"k1": 0.9, "b": 0.4},
    BM25QS: {"k1": 0.9, "b": 0.4},
    BM25_OFFICIAL: {"k1": 0.9, "b": 0.4},
    QLD: {"mu": 1000.0},
}
_FEEDBACK: dict[str, dict[str, float | int]] = {
    RM3: {"fb_terms": 10, "fb_docs": 10, "original_query_weight": 0.5},
    ROCCHIO: {"fb_terms": 10, "fb_docs": 10, "alpha": 1.0, "beta": 0.75},
}
PYSERINI_DEFAULTS = {key: value for keys in (*_MODELS.values(), *_FEEDBACK.values()) for key, value in keys.items()}
GRAPH = {"m": 16, "ef_construction": 100}  # the defaults of Anserini's command line
_EF_SEARCH = 1000
SCALE = 100.0  # of Anserini's regressions on learned sparse models
_LARGEST = 1_000_000  # what would be larger is a slip of the pen
_RANGES: dict[str, Range] = {
    "k1": (0, _LARGEST), "b": (0, 1), "mu": (0, _LARGEST), "original_query_weight": (0, 1), "alpha": (0, _LARGEST),
    "beta": (0, _LARGEST), "fb_terms": (1, 1000), "fb_docs": (1, 50), "hits": (1, MAX_HITS), "scale": (0.001, 100_000),
    "m": (2, 512), "ef_construction": (1, 3200), "ef_search": (1, MAX_HITS),
}  # fmt: skip
_WHOLE = ("fb_terms", "fb_docs", "hits", "m", "ef_construction", "ef_search")


def read(reader: Reader, index: object, search: object) -> tuple[IndexSpec, SearchSpec] | None:
    """The specifications that two parts of a condition's file give; None after noting why they give none."""
    kind = index.get("kind") if isinstance(index, dict) else None
    if kind not in KINDS:
        if reader.mapping(index, "index", _index_keys(None), {"kind"}) and kind is not None:
            reader.choice(kind, "index: kind", KINDS)
        return None
    if kind == LUCENE:
        found = _lexical_search(reader, search)
        return found and (_lexical_index(reader, index, found), found)
    return _encoded_index(reader, index, kind), _encoded_search(reader, search, kind)


def _index_keys(kind: str | None) -> set[str]:
    """The keys that an index of a kind has; of every kind, for None."""
    encoded = {"encoder", *({"scale"} if kind == IMPACT else {"metric"}), *(GRAPH if kind in GRAPHS else ())}
    every = {"exact_lengths", "encoder", "scale", "metric", *GRAPH}
    return {"kind"} | (every if kind is None else {"exact_lengths"} if kind == LUCENE else encoded)


def _lexical_index(reader: Reader, value: object, search: SearchSpec) -> IndexSpec:
    values = reader.mapping(value, "index", _index_keys(LUCENE), {"kind"})
    exact = reader.flag(values.get("exact_lengths", False), "index: exact_lengths")
    if exact != (search.model == BM25_OFFICIAL):
        wanted = "needs" if search.model == BM25_OFFICIAL else "cannot read"
        reader.fault(f"search: model {search.model} {wanted} an index with exact_lengths: true")
    return IndexSpec(LUCENE, exact, docvectors=search.feedback is not None)


def _lexical_search(reader: Reader, value: object) -> SearchSpec | None:
    others = {"model", "hits", "feedback"}
    values = reader.mapping(value, "search", others | PYSERINI_DEFAULTS.keys(), {"model"})
    model, feedback = values.get("model"), values.get("feedback")
    if "model" not in values or not reader.choice(model, "search: model", tuple(_MODELS)):
        return None
    if feedback is not None and not reader.choice(feedback, "search: feedback", tuple(_FEEDBACK)):
        return None
    if feedback and model in (BM25_OFFICIAL, BM25QS):
        reader.fault(f"search: model {model} cannot be combined with feedback {feedback}")
    has = _MODELS[model] | _FEEDBACK.get(feedback, {})
    for key in sorted(values.keys() - others - has.keys()):
        reader.fault(f"search: {model}{f' with {feedback}' if feedback else ''} has no parameter {key!r}")
    given = {key: values[key] for key in values if key in has or key == "hits"}
    return SearchSpec(model=model, feedback=feedback, **{**has, **_numbers(reader, given, "search")})


def _encoded_index(reader: Reader, value: object, kind: str) -> IndexSpec:
    values = reader.mapping(value, "index", _index_keys(kind), {"kind", "encoder"})
    model = _model(reader, values["encoder"], kind) if "encoder" in values else None
    given = {key: values[key] for key in values if key not in ("kind", "encoder", "metric")}
    numbers = _numbers(reader, given, "index")
    encoder = model.name if model else None
    if kind == IMPACT:
        return IndexSpec(kind, encoder=encoder, **({"scale": SCALE} | numbers))
    metric = values.get("metric", model.similarity if model else COSINE)
    reader.choice(metric, "index: metric", (COSINE, DOT))
    if kind in (LUCENE_FLAT, LUCENE_HNSW) and metric == DOT:
        reader.fault(f"index: {kind} ranks by {COSINE} only; Anserini's dense indexes want vectors of unit length")
    return IndexSpec(kind, encoder=encoder, metric=metric, **((GRAPH if kind in GRAPHS else {}) | numbers))


def _model(reader: Reader, name: object, kind: str) -> models.Model | None:
    if name not in models.names():
        known = f"{did_you_mean(str(name), models.names())} (models.yaml describes them)"
        reader.fault(f"index: no encoder {shown(name)}{known}")
        return None
    model = models.load(str(name))
    if (model.kind == models.SPARSE) != (kind == IMPACT):
        kinds = IMPACT if model.kind == models.SPARSE else ", ".join(DENSE)
        reader.fault(f"index: encoder {name} is {model.kind}; its index is {kinds}")
    return model


def _encoded_search(reader: Reader, value: object, kind: str) -> SearchSpec:
    values = reader.mapping(value, "search", {"hits", "remove_query", *({"ef_search"} if kind in GRAPHS else ())})
    remove = reader.flag(values.get("remove_query", False), "search: remove_query")
    numbers = _numbers(reader, {key: values[key] for key in values if key != "remove_query"}, "search")
    found = SearchSpec(remove_query=remove, **(({"ef_search": _EF_SEARCH} if kind in GRAPHS else {}) | numbers))
    if kind == LUCENE_HNSW and found.hits > found.ef_search:
        reader.fault(f"search: hits is {found.hits:,}, but {kind} finds no more than ef_search, {found.ef_search:,}")
    return found


def _numbers(reader: Reader, values: Mapping, name: str) -> dict:
    return reader.numbers(values, name, _RANGES, _WHOLE)
