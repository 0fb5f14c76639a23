"""The pages of the site about datasets: published figures, scores to expect, and an example of the embedded sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import site_facts
from .conditions import Condition
from .jsonl import Faults, objects
from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE
from .report.page import Link, figure, page, render
from .site_conditions import GENERATOR, HOME, file_name
from .site_facts import HUB, MEASURES, Fact, Part
from .suites import Dataset, Suite

PAPER = "https://arxiv.org/abs/2505.14558"
LICENCE = "CC BY 4.0"  # as the datasets' pages state
CITATION = f"""\
@misc{{li2025r2med,
  title  = {{R2MED: A Benchmark for Reasoning-Driven Medical Retrieval}},
  author = {{Lei Li and Xiao Zhou and Zheng Liu}},
  year   = {{2025}},
  eprint = {{2505.14558}},
  archivePrefix = {{arXiv}},
  url    = {{{PAPER}}}
}}"""


@dataclass(frozen=True)
class Example:
    """A query of the sample, the answer that its author had in mind, and a passage that is relevant."""

    query: str
    answer: str
    body_system: str
    document: str
    passage: str


@dataclass(frozen=True)
class Scored:
    """A condition and its published figures for a dataset, as text, in the order of MEASURES."""

    name: str
    title: str
    href: str
    figures: list[str]


def example(raw: Dataset) -> Example | None:
    """The first query of a dataset whose files are here, with the first passage that is relevant; None without one.

    Raises BadInput if the files are wrong.
    """
    faults = Faults()
    queries = [row for _, row in objects(raw.raw / QUERY_FILE, faults)]
    judged = [(row["q_id"], row["p_id"]) for _, row in objects(raw.raw / QRELS_FILE, faults) if row["score"] > 0]
    texts = {row["id"]: row["text"] for _, row in objects(raw.raw / CORPUS_FILE, faults)}
    faults.check()
    for row in queries:
        relevant = next((document for query, document in judged if query == row["id"] and document in texts), None)
        if relevant is not None:
            return Example(row["text"], row["answer"], row["body_system"], relevant, texts[relevant])
    return None


def statistics(dataset: Dataset) -> list[Fact]:
    """The published figures of a dataset, and where it is pinned."""
    page, tree = f"{HUB}/datasets/{dataset.repo}", f"{HUB}/datasets/{dataset.repo}/tree/{dataset.revision}"
    where = (Part(dataset.repo, page), Part(" at revision "), Part(dataset.revision[:12], tree))
    said = {
        "task": dataset.task,
        "queries": f"{dataset.queries:,}, of {dataset.words[0]:,} words on average",
        "documents": f"{dataset.documents:,}, of {dataset.words[1]:,} words on average",
        "judgements": f"{dataset.qrels:,}, {dataset.qrels / dataset.queries:.1f} a query",
    }
    return [*(Fact(name, (Part(text),)) for name, text in said.items()), Fact("files", where)]


def scored(conditions: Iterable[Condition], suite: Suite, dataset: Dataset) -> list[Scored]:
    """The conditions with a published figure for a dataset, the best first."""
    found = []
    for condition in conditions:
        known = site_facts.known_scores(condition, suite, True).get(dataset.slug, {})
        if any(measure in known for measure in MEASURES):
            href = f"../conditions/{file_name(condition.name, 'html')}"
            figures = [figure(known.get(measure)) for measure in MEASURES]
            found.append((-known.get(MEASURES[0], 0), Scored(condition.name, condition.title, href, figures)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _about(shown: Example) -> list[Fact]:
    known = {"answer": shown.answer, "body system": shown.body_system, "relevant passage": shown.document}
    return [Fact(name, (Part(text),)) for name, text in known.items() if text]


def html(
    dataset: Dataset, sample: Dataset, suite: Suite, conditions: Sequence[Condition], about_data: str | None
) -> str:
    """The page of one dataset of the benchmark; `sample` is the embedded one of the same name.

    `about_data` is where the document about the data is, as seen from the page, if there is one.
    """
    shown = example(sample)
    body = render(
        "dataset.html.jinja",
        dataset=dataset,
        statistics=statistics(dataset),
        rows=scored(conditions, suite, dataset),
        measures=MEASURES,
        example=shown,
        about=_about(shown) if shown else [],
        commands_={
            "fetch": f"r2med data --dataset {dataset.slug}\nr2med stats --dataset {dataset.slug}",
            "run": f"r2med run bm25-official --dataset {dataset.slug}\nmake bm25-official-{dataset.slug}",
            "sample": f"r2med run bm25 --suite mini --dataset {dataset.slug}",
        },
        licence=LICENCE,
        paper=PAPER,
        about_data=about_data,
        citation=CITATION,
    )
    lead = f"One of the {len(suite.datasets)} datasets of R2MED, as its authors describe it."
    links = [Link(HOME, "../index.html"), Link("datasets", "../index.html#datasets"), Link(dataset.name)]
    return page(dataset.name, body, lead=lead, links=links, generator=GENERATOR)
