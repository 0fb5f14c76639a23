"""The first page of the site: the matrix of conditions and datasets, and the ways to everything else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import commands, site_commands, site_facts
from .conditions import Condition
from .report.page import NO_FIGURE, Link, figure, page, render
from .site_conditions import GENERATOR, HOME, file_name
from .site_facts import FAMILIES, MEASURES, NEEDS
from .suites import Suite


@dataclass(frozen=True)
class Figures:
    """A choice of the matrix: which figures it shows, of which suite."""

    key: str
    label: str
    suite: Suite
    published: bool


@dataclass(frozen=True)
class Row:
    """A condition in the matrix; `figures` and `mean` are those that a reader sees first, as text."""

    name: str
    title: str
    href: str
    family: str
    needs: str
    figures: list[str]
    mean: str


def choices(conditions: Sequence[Condition], suites: Iterable[Suite]) -> list[Figures]:
    """What the matrix can show: published figures of the first suite, and others as far as a condition has some."""
    found = [
        Figures(
            f"{'published' if theirs else 'recorded'}-{suite.name}",
            f"{'published' if theirs else 'recorded by us'}, {suite.name}{' (a sample)' if suite.sample else ''}",
            suite,
            theirs,
        )
        for suite in suites
        for theirs in (True, False)
    ]
    return found[:1] + [
        choice
        for choice in found[1:]
        if any(site_facts.known_scores(condition, choice.suite, choice.published) for condition in conditions)
    ]


def html(conditions: Sequence[Condition], suites: Sequence[Suite], documents: Iterable[Link]) -> str:
    """The page. All suites have the same datasets; the commands that are copied are for the suite that is shown.

    Raises R2medError; see `site_commands.pyserini`.
    """
    shown = choices(conditions, suites)
    known = {condition.name: _known(condition, suites, shown) for condition in conditions}
    rows = [_row(condition, known[condition.name]["figures"], shown[0], suites[0]) for condition in conditions]
    rows.sort(key=lambda row: (row.mean == NO_FIGURE, row.mean if row.mean == NO_FIGURE else -float(row.mean)))
    body = render(
        "index.html.jinja",
        rows=rows,
        measures=MEASURES,
        choices=shown,
        families=FAMILIES,
        needs=NEEDS,
        suites=suites,
        datasets=suites[0].datasets,
        documents=list(documents),
        no_figure=NO_FIGURE,
    )
    data = {
        "measures": list(MEASURES),
        "choices": [{"key": c.key, "label": c.label, "suite": c.suite.name, "sample": c.suite.sample} for c in shown],
        "datasets": [{"slug": d.slug, "name": d.name} for d in suites[0].datasets],
        "suites": {suite.name: suite.argument for suite in suites},
        "places": list(site_commands.PLACES),
        "prefixes": {"ours": commands.OURS, "plain": commands.PLAIN},
        "conditions": known,
    }
    lead = (
        "R2MED is a benchmark of reasoning-driven medical retrieval. Here are the systems that r2med-pyserini runs on "
        "it, the scores to expect, and for every cell the commands that make it."
    )
    return page(HOME, body, lead=lead, data={"matrix-data": data}, scripts=["matrix.js"], generator=GENERATOR)


def _known(condition: Condition, suites: Sequence[Suite], shown: Iterable[Figures]) -> dict:
    """What the page's script knows of a condition: commands, and figures by choice and measure, the mean at the end."""
    figures = {}
    for choice in shown:
        scores = site_facts.known_scores(condition, choice.suite, choice.published)
        if scores:
            figures[choice.key] = {
                measure: [
                    *(figure(scores.get(d.slug, {}).get(measure)) for d in choice.suite.datasets),
                    figure(site_facts.mean(scores, measure, choice.suite)),
                ]
                for measure in MEASURES
            }
    cautions = ["".join(part.text for part in caution) for caution in site_facts.cautions(condition)]
    return {"commands": site_commands.templates(condition, suites), "figures": figures, "cautions": cautions}


def _row(condition: Condition, figures: dict, choice: Figures, suite: Suite) -> Row:
    lacking = [NO_FIGURE] * (len(suite.datasets) + 1)
    *values, mean = figures[choice.key][MEASURES[0]] if choice.key in figures else lacking
    return Row(
        name=condition.name,
        title=condition.title,
        href=f"conditions/{file_name(condition.name, 'html')}",
        family=site_facts.family(condition),
        needs=site_facts.needs(condition),
        figures=values,
        mean=mean,
    )
