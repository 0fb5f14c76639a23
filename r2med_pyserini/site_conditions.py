"""The pages of the site about conditions: in HTML, and their twins in Markdown for reading on a code host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from . import site_commands, site_facts
from . import site_markdown as markdown
from .conditions import Condition
from .report.page import Link, figure, page, render
from .site_commands import Cell
from .site_facts import Fact, Part, ScoreTable, Setting
from .suites import Suite

Sentence = tuple[Part, ...]
GENERATOR = "r2med docs"  # by which the site's pages are known
MARK = f"<!-- written by `{GENERATOR}` -->"
HOME = "R2MED with Pyserini"


@dataclass(frozen=True)
class WholeSuite:
    """The commands for all datasets of a suite."""

    name: str
    heading: str
    sample: bool
    run: str
    make: str


@dataclass(frozen=True)
class DatasetCell:
    """The commands for one dataset, `slug`, under its full name."""

    slug: str
    dataset: str
    commands: Cell


@dataclass(frozen=True)
class ConditionPage:
    """All that the page of a condition says."""

    name: str
    title: str
    family: str
    needs: str
    summary: Sentence
    cautions: list[Sentence]
    suites: list[WholeSuite]
    cells: list[DatasetCell]
    tables: list[ScoreTable]
    settings: list[Setting]
    file: str
    yaml: str
    models: list[tuple[str, list[Fact]]]
    log: list[Sentence]


def describe(condition: Condition, suites: Sequence[Suite], log: Iterable[Sentence] = ()) -> ConditionPage:
    """What the page of a condition says. `log` has a sentence for everybody who reproduced its scores.

    The commands for single datasets are those of the first suite. Raises R2medError; see `site_commands.pyserini`.
    """
    first = suites[0]
    return ConditionPage(
        name=condition.name,
        title=condition.title,
        family=site_facts.family(condition),
        needs=site_facts.NEEDS[site_facts.needs(condition)],
        summary=site_facts.summary(condition),
        cautions=site_facts.cautions(condition),
        suites=[_whole(condition, suite) for suite in suites],
        cells=[DatasetCell(d.slug, d.name, site_commands.for_cell(condition, first, d)) for d in first.datasets],
        tables=site_facts.score_tables(condition, suites),
        settings=site_facts.settings(condition),
        file=condition.file.name,
        yaml=condition.file.read_text(encoding="utf-8").rstrip("\n"),
        models=[(model.name, site_facts.model_facts(model)) for model in site_facts.used(condition)],
        log=list(log),
    )


def _whole(condition: Condition, suite: Suite) -> WholeSuite:
    heading = f"All of {suite.name}" if suite.sample else f"All {len(suite.datasets)} datasets of {suite.name}"
    run, make = site_commands.run_line(condition, suite), site_commands.make_line(condition, suite)
    return WholeSuite(suite.name, heading, suite.sample, run, make)


def file_name(name: str, ending: str) -> str:
    """The file of a condition's page, as a link names it."""
    return f"{quote(name)}.{ending}"


def html(found: ConditionPage) -> str:
    """The page in HTML."""
    links = [Link(HOME, "../index.html"), Link("conditions", "../index.html#matrix"), Link(found.name)]
    footer = render("twin.html.jinja", href=file_name(found.name, "md"))
    body = render("condition.html.jinja", page=found)
    return page(found.name, body, lead=found.title, links=links, footer=footer, generator=GENERATOR)


def in_markdown(found: ConditionPage) -> str:
    """The page in Markdown."""
    blocks = [
        MARK,
        f"# {markdown.text(found.name)}",
        markdown.text(found.title),
        f"{found.family} · {found.needs}",
        markdown.parts(found.summary),
        *(f"> {markdown.parts(caution)}" for caution in found.cautions),
        "## Commands",
        *_commands(found),
        "## Expected scores",
        *_scores(found.tables),
        "## Settings",
        markdown.table(
            ("part", "setting", "value", "meaning"),
            [(s.section, markdown.code(s.key), markdown.code(s.value), s.meaning) for s in found.settings],
            left=(0, 1, 2, 3),
        ),
        f"The file {markdown.code(found.file)}:",
        markdown.fence(found.yaml, "yaml"),
        *_models(found.models),
        "## Reproduction log",
        "\n".join(f"- {markdown.parts(line)}" for line in found.log) or "None yet.",
    ]
    return "\n\n".join(blocks) + "\n"


def _commands(found: ConditionPage) -> list[str]:
    blocks = []
    for suite in found.suites:
        sample = " (not R2MED's scores, and not medical advice)" if suite.sample else ""
        blocks += [f"{suite.heading}{sample}:", markdown.fence(f"{suite.run}\n{suite.make}", "sh")]
    first, *others = found.cells
    text = _told(first)
    if all(text.replace(first.slug, other.slug) == _told(other) for other in others):
        names = ", ".join(markdown.code(other.slug) for other in others)
        start = f"One dataset, with r2med, with make, and in Pyserini's own words: {markdown.text(first.dataset)}."
        said = f"{start} For another one put its name in place of {markdown.code(first.slug)}: {names}."
        return [*blocks, said, markdown.fence(text, "sh")]
    blocks.append("One dataset, with r2med, with make, and in Pyserini's own words:")
    for cell in found.cells:
        lines = markdown.fence(_told(cell), "sh")
        blocks.append(f"<details>\n<summary>{escape(cell.dataset)}</summary>\n\n{lines}\n\n</details>")
    return blocks


def _told(cell: DatasetCell) -> str:
    """All commands of a cell, Pyserini's with our Java."""
    found = cell.commands
    return "\n".join((found.run, found.make, "", found.data, found.ours))


def _scores(tables: Iterable[ScoreTable]) -> list[str]:
    blocks = []
    for table in tables:
        sample = " These are not R2MED's scores." if table.sample else ""
        rows = [[markdown.text(name), *map(figure, figures)] for name, figures in table.rows]
        rows.append(["mean", *map(figure, table.means)])
        header = ("dataset", *table.measures)
        blocks += [f"### {table.title}", markdown.parts(table.source) + sample, markdown.table(header, rows)]
    return blocks or ["Nobody has published scores for this condition, and none are recorded yet."]


def _models(known: Iterable[tuple[str, list[Fact]]]) -> list[str]:
    blocks = []
    for name, facts in known:
        blocks += [f"### {markdown.text(name)}", "\n".join(f"- {f.name}: {markdown.parts(f.parts)}" for f in facts)]
    return ["## Models", *blocks] if blocks else []
