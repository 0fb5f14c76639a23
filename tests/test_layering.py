"""Imports point one way. ORDER is the specification: a module may import only modules that stand before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from r2med_pyserini.paths import PACKAGE

ORDER = (
    "__init__",
    "errors", "suggest", "paths", "reproductions", "checkout",
    "textio", "jsonl", "artifacts", "trec", "rawfiles", "yamlfile",
    "suites", "collection", "adoption", "hubclient", "hub", "importing", "validation",
    "evaluation", "significance", "published",
    "facts", "models", "rerankers", "weights", "service", "specs", "composites", "conditions",
    "encoders.base", "encoders.holding", "encoders.batching", "encoders.devices", "encoders.loading", "encoders.tokens",
    "encoders.machine", "encoders.running", "encoders.dense", "encoders.sparse", "encoders.onnx",
    "encoders.own_code", "encoders.api", "encoders.__init__", "vectors",
    "fusion",
    "reranking.pairs", "reranking.cache", "reranking.base", "reranking.tokens", "reranking.local",
    "reranking.replies", "reranking.chat", "reranking.llm", "reranking.pipeline",
    "reranking.__init__",
    "jvm", "javatasks", "anserini", "official_bm25", "lucene", "impacts", "lucene_dense", "faiss_index",
    "recording", "verdicts",
    "stages", "outcome",
    "context", "lexical_stages", "encoded_stages", "composite_stages", "plan",
    "commands_lexical", "commands_dense", "commands",
    "report.__init__", "report.grid", "report.comparison", "report.evaluation", "report.progress",
    "report.published", "report.table", "report.page", "report.shown",
    "datasets", "comparing", "results", "report.plots", "report.results_html", "report.latex", "experiments",
    "reporting", "encoding", "doctor", "cleaning", "passthrough",
    "showing", "records", "logbook", "regressions",
    "site_facts", "site_commands", "site_markdown", "site_conditions", "site_index", "site_datasets", "site",
    "options", "printing", "cli_log", "cli_pages", "cli", "__main__",
)  # fmt: skip
HEAVY = {
    "faiss", "huggingface_hub", "jnius", "jnius_config", "matplotlib", "numpy", "onnxruntime", "openai", "pandas",
    "pyserini", "scipy", "sentence_transformers", "torch", "transformers",
}  # fmt: skip
LONGEST = 400
NAME = PACKAGE.name


def module_name(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(tree: ast.AST, module: str) -> Iterator[str]:
    """Full names of what a module imports anywhere, functions included; relative ones resolved."""
    above = [NAME, *module.split(".")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within_package(tree: ast.AST, module: str) -> set[str]:
    """The modules of the package that a module imports."""
    found = set()
    for name in imports(tree, module):
        if name.split(".")[0] != NAME:
            continue
        parts = name.split(".")[1:]
        inner = ".".join(parts)
        outer = ".".join(parts[:-1])
        candidates = (inner, f"{inner}.__init__" if inner else "__init__", outer, f"{outer}.__init__".lstrip("."))
        found.add(next(candidate for candidate in candidates if candidate in MODULES))
    return found


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not for_type_checkers(child):
            yield child
            yield from outside_functions(child)


def parse(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def test_every_module_has_its_place_and_every_place_its_module():
    assert len(set(ORDER)) == len(ORDER)
    assert set(ORDER) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downwards(module):
    allowed = set(ORDER[: ORDER.index(module)]) if module in ORDER else set()
    assert within_package(parse(module), module) - allowed == set()


@pytest.mark.parametrize("module", MODULES)
def test_nothing_heavy_is_imported_with_a_module(module):
    nodes = [node for node in outside_functions(parse(module)) if isinstance(node, ast.Import | ast.ImportFrom)]
    top = ast.Module(nodes, type_ignores=[])
    assert {name.split(".")[0] for name in imports(top, module)} & HEAVY == set()


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("trec", "from .jsonl import Faults", {"jsonl"}),
        ("trec", "def f():\n    from . import plan", {"plan"}),
        ("trec", "from . import __version__", {"__init__"}),
        ("trec", "import r2med_pyserini.cli", {"cli"}),
        ("trec", "from r2med_pyserini import report", {"report.__init__"}),
        ("report.table", "from .. import verdicts", {"verdicts"}),
        ("report.table", "from ..suites import Suite", {"suites"}),
        ("report.table", "from .progress import Printer", {"report.progress"}),
        ("cli", "from .report import table", {"report.table"}),
        ("cli", "import json, orjson", set()),
    ],
)
def test_the_walk_sees_every_way_to_import(module, source, found):
    assert within_package(ast.parse(source), module) == found


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import torch", True),
        ("try:\n    from faiss import x\nexcept ImportError:\n    pass", True),
        ("class A:\n    import pandas", True),
        ("def f():\n    import torch", False),
        ("if TYPE_CHECKING:\n    import torch", False),
        ("if CHECKING:\n    import torch", True),
        ("class A:\n    def f(self):\n        import jnius", False),
    ],
)
def test_the_walk_tells_imports_of_functions_apart(source, seen):
    nodes = outside_functions(ast.parse(source))
    assert any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes) is seen


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".yaml", ".xml", ".properties", ".md")],
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_no_file_is_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST
