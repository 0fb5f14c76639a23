"""What the site's pages say of a condition: its family, what it needs, its settings, models and known scores."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from . import evaluation, models, published, rerankers
from .composites import INTERPOLATION, RRF, WEIGHTED
from .conditions import Condition, closure
from .facts import TASK
from .models import DOCUMENT, QUERY, Model
from .rerankers import Reranker
from .specs import FAISS_FLAT, FAISS_HNSW, IMPACT, LUCENE, LUCENE_FLAT, LUCENE_HNSW
from .suites import Suite

LEXICAL, SPARSE, DENSE, FUSION, RERANKING = FAMILIES = ("lexical", "sparse", "dense", "fusion", "reranking")
OFFLINE, DOWNLOAD, SERVICE = "offline", "download", "service"
NEEDS = {
    OFFLINE: "works offline",
    DOWNLOAD: "fetches a model",
    SERVICE: "asks a service",
}
MEASURES = (evaluation.HEADLINE, "R@100")  # of the matrix
HUB = "https://huggingface.co"
SOURCES = {
    "r2med": ("the R2MED authors", "https://github.com/R2MED/R2MED"),
    "mteb": ("MTEB", "https://github.com/embeddings-benchmark/results"),
}
_KINDS = {
    FAISS_FLAT: "FAISS compares every vector with the query's",
    FAISS_HNSW: "FAISS walks an HNSW graph of the vectors",
    LUCENE_FLAT: "Lucene compares every vector with the query's",
    LUCENE_HNSW: "Lucene walks an HNSW graph of the vectors",
}
_EXPLAINED = {
    "kind": "kind of index",
    "exact_lengths": "document lengths kept exactly, not rounded as Lucene does",
    "docvectors": "term vectors of documents, which relevance feedback reads",
    "encoder": "the model",
    "metric": "what vectors are ranked by",
    "scale": "a weight times this, rounded, is an impact",
    "m": "neighbours of a node in the graph",
    "ef_construction": "candidates looked at while the graph is built",
    "ef_search": "candidates looked at in a search",
    "model": "ranking model",
    "hits": "documents kept a query",
    "k1": "how soon repetitions of a word stop to count",
    "b": "how much a document's length counts",
    "mu": "smoothing",
    "feedback": "relevance feedback",
    "fb_terms": "words that feedback adds",
    "fb_docs": "documents that feedback reads",
    "original_query_weight": "share of the query's own words",
    "alpha": "weight of the first part",
    "beta": "weight of the feedback",
    "remove_query": "a hit with the query's own id is left out, as the authors do",
    "method": "how runs are fused",
    "inputs": "the conditions whose runs are fused",
    "depth": "documents a query that count",
    "k": "constant of reciprocal rank fusion",
    "weights": "one an input",
    "normalization": "of scores, before they are added",
    "input": "the condition whose run is reranked",
    "reranker": "the model",
    "keep": "what happens to documents below the depth",
    "max_passage": "a long document has the score of its best window",
}


@dataclass(frozen=True)
class Part:
    """A piece of a sentence: text, a link if it has `href`, in the type of code if it is `code`."""

    text: str
    href: str | None = None
    code: bool = False


@dataclass(frozen=True)
class Fact:
    """A name, and what is to be said of it."""

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Setting:
    """A line of a condition's file: the part that it stands in, key, value, and what the key means."""

    section: str
    key: str
    value: str
    meaning: str


@dataclass(frozen=True)
class ScoreTable:
    """Known scores of a condition for a suite: a row (name of the dataset, figures) each, and the means.

    A figure is None where nobody gave one, and a mean unless all datasets have the measure. `source` says who did.
    """

    title: str
    source: tuple[Part, ...]
    sample: bool
    measures: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]
    means: tuple[float | None, ...]


def family(condition: Condition) -> str:
    """Which of FAMILIES it belongs to."""
    if condition.fusion:
        return FUSION
    if condition.rerank:
        return RERANKING
    return {LUCENE: LEXICAL, IMPACT: SPARSE}.get(condition.index.kind, DENSE)


def used(condition: Condition) -> list[Model | Reranker]:
    """The models that it runs, those of its inputs included, each once."""
    found: dict[str, Model | Reranker] = {}
    for one in closure([condition]).values():
        if one.encoder:
            found[f"encoder {one.encoder}"] = models.load(one.encoder)
        if one.rerank:
            found[f"reranker {one.rerank.reranker}"] = rerankers.load(one.rerank.reranker)
    return list(found.values())


def needs(condition: Condition) -> str:
    """Which of NEEDS it has besides what is installed."""
    every = used(condition)
    if any(model.api for model in every):
        return SERVICE
    return DOWNLOAD if any(model.id for model in every) else OFFLINE


def cautions(condition: Condition) -> list[tuple[Part, ...]]:
    """What a user should know before running it: code of others, keys, revisions that are not pinned."""
    found = []
    for model in used(condition):
        if model.remote_code:
            found.append((
                Part(model.id or model.name, _card(model.id)),
                Part(" brings code of its own, which the option "),
                Part("--trust-remote-code", code=True),
                Part(" lets run with all your rights."),
            ))  # fmt: skip
        if model.api:
            variables = [value for key, value in sorted(model.api.items()) if key in ("key_variable", "model_variable")]
            found.append((
                Part(f"{model.name} sends texts to a service; the environment must say: "),
                *_listed([Part(name, code=True) for name in variables]),
                Part("."),
            ))  # fmt: skip
        if any(revision is None for _, revision in _repositories(model)):
            found.append((Part(f"No revision of {model.id} is pinned yet: r2med refuses to run it."),))
    return found


def summary(condition: Condition) -> tuple[Part, ...]:
    """What it does, as a sentence."""
    index, search = condition.index, condition.search
    if condition.fusion:
        start = Part(f"Fuses the runs of {len(condition.inputs)} conditions: ")
        return (start, *_listed([_condition(name) for name in condition.inputs]), Part("."))
    if condition.rerank:
        how = condition.rerank
        middle = f" is put into the order that {how.reranker} gives its best {how.depth} documents a query."
        return (Part("The run of "), _condition(how.input), Part(middle))
    if index.kind == LUCENE:
        feedback = f" and {search.feedback} feedback" if search.feedback else ""
        return (Part(f"Lucene searches words, ranked by {search.model}{feedback}."),)
    if index.kind == IMPACT:
        return (Part(f"{index.encoder} gives weights to words, and Lucene adds them up as impacts."),)
    return (Part(f"{index.encoder} makes a vector of each text; {_KINDS[index.kind]}, by {index.metric}."),)


def settings(condition: Condition) -> list[Setting]:
    """All that its file says of how the run is made, defaults included."""
    sections = ("index", "search", "fusion", "rerank")
    return [
        Setting(section, key, _plain(value), _meaning(condition, key))
        for section in sections
        if getattr(condition, section)
        for key, value in getattr(condition, section).parameters().items()
    ]


def _meaning(condition: Condition, key: str) -> str:
    if key == "alpha" and condition.search:
        return "weight of the query's own words"
    if condition.fusion and condition.fusion.method not in (RRF, WEIGHTED, INTERPOLATION) and key == "method":
        return "how runs are fused: by adding scores"
    return _EXPLAINED.get(key, "")


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is True else str(value)


def model_facts(model: Model | Reranker) -> list[Fact]:
    """What is known of a model, with links to its card, and where that is known from."""
    found = [Fact("files", _files(model))] if not model.api else [Fact("service", _service(model))]
    said = {key: model.facts.get(key) for key in ("architecture", "parameters", "licence")}
    found += [Fact(key, (Part(str(value)),)) for key, value in said.items() if value]
    found += list(_encoding(model) if isinstance(model, Model) else _reranking(model))
    unconfirmed = model.facts.get("unconfirmed")
    if unconfirmed:
        found.append(Fact("not confirmed", (Part(", ".join(unconfirmed)),)))
    if "note" in model.facts:
        found.append(Fact("note", (Part(model.facts["note"]),)))
    sources = [Part(text, text if text.startswith("https://") else None) for text in model.facts.get("source", ())]
    return [*found, Fact("source", _listed(sources))] if sources else found


def _files(model: Model | Reranker) -> tuple[Part, ...]:
    if isinstance(model, Model) and model.package:
        return (Part(f"Python package {model.package} {model.version}, {model.path}"),)
    found = []
    for name, revision in _repositories(model):
        known = [Part(" at revision "), Part(revision[:12], f"{HUB}/{name}/tree/{revision}")] if revision else []
        found.append((Part(name, _card(name)), *known))
    return tuple(part for number, parts in enumerate(found) for part in ((Part("; "),) if number else ()) + parts)


def _repositories(model: Model | Reranker) -> list[tuple[str, str | None]]:
    """The Hub's repositories that hold its files, with their revisions."""
    if isinstance(model, Reranker):
        return model.repositories()
    if model.api or model.package:
        return []
    found = ((model.id, model.revision), (model.query_id, model.query_revision))
    return [(name, revision) for name, revision in found if name]


def _card(name: str | None) -> str | None:
    return f"{HUB}/{name}" if name else None


def _service(model: Model | Reranker) -> tuple[Part, ...]:
    name = [Part(model.id, code=True), Part(" at ")] if model.id else []
    return (*name, Part(model.api["base_url"], code=True))


def _encoding(model: Model) -> Iterator[Fact]:
    yield Fact("vectors", (Part(f"{model.kind}, of {model.dimensions:,} dimensions"),))
    pooling = {"own": "as its files say", "cls": "first token", "last": "last token"}.get(model.pooling, model.pooling)
    if model.kind == models.DENSE:
        unit = ", brought to unit length" if model.normalize else ""
        yield Fact("pooling", (Part(f"{pooling}{unit}"),))
    lengths = {side: f"{length:,}" if length else "its own" for side, length in model.max_length.items()}
    yield Fact("tokens at most", (Part(f"query {lengths[QUERY]}, document {lengths[DOCUMENT]}"),))
    for side in models.SIDES:
        yield Fact(f"before a {side}", _prompt(model.prompts[side], model.instructions.get(side)))


def _reranking(model: Reranker) -> Iterator[Fact]:
    yield Fact("how it is asked", (Part(model.loader),))
    if model.max_length:
        yield Fact("tokens at most", (Part(f"{model.max_length:,} of query and document together"),))
    if model.window:
        yield Fact("window", (Part(f"{model.window} documents, moved up by {model.stride}"),))
    for key in ("system", "prompt", "query", "document", "passage"):
        template = getattr(model, key)
        if template and template not in ("{query}", "{document}"):
            yield Fact(f"template: {key}", _prompt(template, model.instructions))


def _prompt(template: str, tasks: Mapping[str, str] | None) -> tuple[Part, ...]:
    """A template, as one line of code; and the tasks that stand in it for datasets."""
    if not template:
        return (Part("nothing"),)
    found = [Part(json.dumps(template, ensure_ascii=False), code=True)]
    if tasks and TASK in template:
        told: dict[str, list[str]] = {}
        for dataset, task in tasks.items():
            told.setdefault(task, []).append(dataset)
        of_each = (f'"{task}" ({", ".join(datasets)})' for task, datasets in told.items())
        found.append(Part(f", where {TASK} is {'; '.join(of_each)}"))
    return tuple(found)


def _condition(name: str) -> Part:
    return Part(name, f"{quote(name)}.html")


def _listed(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts with commas between them."""
    return tuple(piece for number, part in enumerate(parts) for piece in ((Part(", "),) if number else ()) + (part,))


def known_scores(condition: Condition, suite: Suite, published_ones: bool) -> dict[str, dict[str, float]]:
    """The published or the recorded figures of a condition for a suite: dataset -> measure -> value."""
    if published_ones:
        system = condition.published and condition.published.system
        found = {d.slug: published.figures(system, suite.name, d.slug) if system else {} for d in suite.datasets}
    else:
        recorded = condition.recorded.get(suite.name)
        found = {d.slug: recorded.scores.get(d.slug, {}) if recorded else {} for d in suite.datasets}
    return {slug: figures for slug, figures in found.items() if figures}


def mean(figures: Mapping[str, Mapping[str, float]], measure: str, suite: Suite) -> float | None:
    """The unweighted mean over a suite's datasets; None unless all have the measure."""
    values = [figures.get(dataset.slug, {}).get(measure) for dataset in suite.datasets]
    return None if None in values else sum(values) / len(values)


def score_tables(condition: Condition, suites: Iterable[Suite]) -> list[ScoreTable]:
    """Every table of known scores that a condition has."""
    found = []
    for suite in suites:
        for theirs in (True, False):
            figures = known_scores(condition, suite, theirs)
            if figures:
                found.append(_table(condition, suite, figures, theirs))
    return found


def _table(condition: Condition, suite: Suite, figures: dict[str, dict[str, float]], theirs: bool) -> ScoreTable:
    measures = tuple(name for name in evaluation.MEASURES if any(name in known for known in figures.values()))
    if theirs:
        counterpart = condition.published
        who, where = SOURCES[counterpart.system.source]
        source = (
            Part("Published by "), Part(who, where),
            Part(f" as {counterpart.system}. A score of ours is OK within {counterpart.tolerance:g} of the figure."),
        )  # fmt: skip
    else:
        made_with = ", ".join(f"{name} {version}" for name, version in condition.recorded[suite.name].made_with.items())
        source = (Part(f"Recorded by us with {made_with}. A score is OK if it equals the figure to four decimals."),)
    rows = tuple(
        (dataset.name, tuple(figures.get(dataset.slug, {}).get(measure) for measure in measures))
        for dataset in suite.datasets
    )
    means = tuple(mean(figures, measure, suite) for measure in measures)
    title = f"{'Published' if theirs else 'Recorded'}, suite {suite.name}"
    return ScoreTable(title, source, suite.sample, measures, rows, means)
