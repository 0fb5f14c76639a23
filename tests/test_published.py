import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from r2med_pyserini import conditions, published
from r2med_pyserini.cli import cli
from r2med_pyserini.errors import BadInput, UsageError
from r2med_pyserini.evaluation import trec_eval_name
from r2med_pyserini.paths import PUBLISHED_FILE, Workspace
from r2med_pyserini.published import System
from r2med_pyserini.report.published import render
from r2med_pyserini.suites import load_suite

DATASETS = load_suite("r2med", Workspace.default()).datasets
SLUGS = {dataset.slug for dataset in DATASETS}


def rows() -> list[dict]:
    with PUBLISHED_FILE.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_is_a_score_of_a_known_dataset_and_measure():
    found = rows()
    assert len(found) == 4600
    assert {row["dataset"] for row in found} == SLUGS
    assert all(0 <= float(row["value"]) <= 1 and trec_eval_name(row["metric"]) for row in found)


def test_no_row_stands_twice():
    keys = [tuple(value for name, value in row.items() if name != "value") for row in rows()]
    assert len(keys) == len(set(keys)) == sum(len(m) for t in published.table().values() for m in t.values())


def test_the_headline_of_the_paper():
    figures = [published.figures(System("r2med", "nv"), "r2med", slug)["nDCG@10"] for slug in SLUGS]
    assert round(100 * sum(figures) / len(figures), 1) == 31.4


def test_figures_belong_to_the_benchmark_only():
    assert published.figures(System("r2med", "bm25"), "mini", "biology") == {}


@pytest.mark.parametrize(
    ("field", "value", "near"),
    [("retriever", "bm52", "bm25"), ("source", "r2meb", "r2med"), ("gar_method", "hyd", "hyde")],
)
def test_unknown_words_get_a_suggestion(field, value, near):
    with pytest.raises(UsageError, match=f"did you mean '{near}'"):
        published.select(**{field: value})


def test_the_table_puts_the_best_mean_first():
    lines = render("nDCG@10", "csv", source="r2med", retriever=None, gar_method="", reranker="").splitlines()
    assert lines[1].startswith("r2med: nv,0.2715,") and lines[1].endswith(",0.3143")
    assert len(lines) == 16


@pytest.mark.parametrize("form", ["text", "markdown", "csv"])
def test_what_was_not_published_stays_empty(form):
    assert "None" not in render("nDCG@10", form) and "nan" not in render("nDCG@10", form)


def shown(*options: str) -> list[str]:
    """The systems that `r2med published` lists."""
    done = CliRunner().invoke(cli, ["published", "--format", "csv", *options], catch_exceptions=False)
    assert done.exit_code == 0
    header, *lines = csv.reader(done.stdout.splitlines())
    assert header == ["system", *(dataset.slug for dataset in DATASETS), "mean"]
    return [line[0] for line in lines]


@pytest.mark.parametrize("field", ["source", "retriever", "gar_method", "gar_llm", "reranker", "depth"])
def test_every_part_of_a_system_can_be_asked_for(field):
    known = {getattr(system, field) for system in published.table()}
    option = f"--{field.replace('_', '-')}"
    found = {value: shown(option, value) for value in known}
    wanted = {value: [str(s) for s in published.table() if getattr(s, field) == value] for value in known}
    assert {value: sorted(names) for value, names in found.items()} == {
        value: sorted(names) for value, names in wanted.items()
    }
    assert len(known) > 1 and all(found.values())


def test_parts_can_be_combined():
    names = shown("--retriever", "bge", "--gar-method", "hyde", "--gar-llm", "gpt4", "--depth", "")
    assert names == ["r2med: bge + hyde+gpt4"]
    assert shown("--source", "r2med", "--retriever", "bge", "--gar-llm", "", "--reranker", "") == ["r2med: bge"]


def test_a_measure_that_nobody_published():
    with pytest.raises(UsageError, match="there are MAP@100"):
        render("nDCG@11", "text")


def test_the_authors_bm25_is_held_against_theirs():
    counterpart = conditions.load("bm25-official").published
    assert (counterpart.system, counterpart.tolerance) == (System("r2med", "bm25"), 0.0002)


def test_a_counterpart_that_nobody_published_is_a_fault():
    text = "title: x\nindex: {kind: lucene}\nsearch: {model: bm25}\npublished: {source: r2med, retriever: bgee}\n"
    with pytest.raises(BadInput, match="did you mean 'r2med: bge'"):
        conditions.parse(text, Path("x.yaml"))
