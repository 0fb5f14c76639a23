"""The site in docs/: its pages are a function of the package, and of the logs and documents in that folder."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from . import conditions, reproductions, site_conditions, site_datasets, site_index, site_markdown
from .artifacts import replace_text
from .conditions import Condition
from .errors import BadInput, R2medError, system_error
from .paths import MINI
from .published import SUITE
from .report.grid import grid
from .report.page import Link
from .reproductions import Reproduction
from .site_commands import HERE
from .site_conditions import GENERATOR, MARK, Sentence
from .site_facts import NEEDS, Part, family, needs
from .suites import Suite, load_suite

FOLDERS = (".", "conditions", "datasets")  # where pages lie
_OVERVIEW = "conditions/README.md"  # which code hosts show with the folder
_DATA = "data.md"
_HEAD = 5000  # characters, within which a page names what wrote it


@dataclass(frozen=True)
class Difference:
    """Pages that a folder lacks or has in another state, and those that nobody wants any more, by their paths in it."""

    outdated: list[str]
    unwanted: list[str]

    def __bool__(self) -> bool:
        return bool(self.outdated or self.unwanted)


def build(docs: Path, shown: Iterable[Condition] | None = None) -> dict[str, str]:
    """Every page: path in the folder -> text. `docs` has the logs and the documents that the pages link.

    The pages are about the conditions `shown`, all of the package if it is None. Raises R2medError if commands cannot
    be told on this machine, and BadInput.
    """
    every = list(conditions.load_all(conditions.names()) if shown is None else shown)
    suites = [load_suite(name, HERE) for name in (SUITE, MINI.name)]
    logs = _logs(docs, suites)
    pages = {"index.html": site_index.html(every, suites, documents(docs))}
    for condition in every:
        described = site_conditions.describe(condition, suites, logs.get(condition.name, ()))
        pages[f"conditions/{condition.name}.html"] = site_conditions.html(described)
        pages[f"conditions/{condition.name}.md"] = site_conditions.in_markdown(described)
    pages[_OVERVIEW] = _overview(every)
    benchmark, sample = suites
    about_data = f"../{_DATA}" if (docs / _DATA).is_file() else None
    for dataset, ours in zip(benchmark.datasets, sample.datasets, strict=True):
        pages[f"datasets/{dataset.slug}.html"] = site_datasets.html(dataset, ours, benchmark, every, about_data)
    return pages


def documents(docs: Path) -> list[Link]:
    """The documents in a folder, and the README beside it: their headings, and links as from the index."""
    found = []
    for path in (docs.parent / "README.md", *sorted(docs.glob("*.md"))):
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
        heading = next((line for line in text.splitlines() if line.startswith("# ")), f"# {path.stem}")
        found.append(Link(heading.removeprefix("# ").strip(), path.name if path.parent == docs else f"../{path.name}"))
    return found


def compare(pages: dict[str, str], folder: Path) -> Difference:
    """How a folder differs from what it should hold. Raises R2medError if a file that is not ours lies in the way."""
    outdated, here = [], dict(_ours(folder))
    for name, text in pages.items():
        path = folder / name
        if here.get(name) == text:
            continue
        if path.exists() and name not in here:
            raise R2medError(f"{path} is no page that r2med wrote: move it away, or name another folder with --output")
        outdated.append(name)
    return Difference(outdated, sorted(here.keys() - pages.keys()))


def write(pages: dict[str, str], folder: Path) -> Difference:
    """Bring a folder up to date; what was done. Files that are not ours stay. Raises R2medError."""
    difference = compare(pages, folder)
    try:
        for name in difference.outdated:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, pages[name])
        for name in difference.unwanted:
            (folder / name).unlink()
    except OSError as error:
        raise R2medError(f"cannot write the pages: {system_error(error)}") from error
    return difference


def _ours(folder: Path) -> Iterator[tuple[str, str]]:
    """The pages in a folder that this module wrote: path and text."""
    for inner in FOLDERS:
        for path in sorted((folder / inner).glob("*")):
            if path.suffix in (".html", ".md") and path.is_file():
                text = path.read_bytes().decode("utf-8", errors="replace")
                if text.startswith(MARK) or f'content="{GENERATOR}"' in text[:_HEAD]:
                    yield str(PurePosixPath(inner) / path.name), text


def _logs(docs: Path, suites: Iterable[Suite]) -> dict[str, list[Sentence]]:
    """Condition -> what its page says of everybody who reproduced it."""
    found: dict[str, list[Sentence]] = {}
    for suite in suites:
        for name, entries in reproductions.read(reproductions.log_of(suite.name, docs)).items():
            found.setdefault(name, []).extend(_logged(entry, suite) for entry in entries)
    return found


def _logged(entry: Reproduction, suite: Suite) -> Sentence:
    page = entry.commit_page if (entry.commit_page or "").startswith("https://") else None
    commit = Part(entry.commit, page, code=True)
    what = f"Results on {suite.name}{', a sample,' if suite.sample else ''} reproduced by "
    who = Part(f"@{entry.handle}", f"https://github.com/{entry.handle}")
    end = [Part("; "), Part("record", f"../{entry.record}")] if entry.record else []
    okish = ", OKish" if entry.okish else ""
    return (Part(what), who, Part(f" on {entry.date} (commit "), commit, Part(f"{okish})"), *end)


def _overview(every: Iterable[Condition]) -> str:
    """The list of all conditions in Markdown."""
    header = ("condition", "what it is", "family", "needs")
    rows = [
        [
            site_markdown.link(condition.name, site_conditions.file_name(condition.name, "md")),
            site_markdown.text(condition.title),
            family(condition),
            NEEDS[needs(condition)],
        ]
        for condition in every
    ]
    table = grid(header, rows, "markdown", left=(0, 1, 2, 3))
    said = "Each is one retrieval system. [The matrix of all scores](../index.html) opens in a browser from disk."
    return f"{MARK}\n\n# Conditions\n\n{said}\n\n{table}\n"
