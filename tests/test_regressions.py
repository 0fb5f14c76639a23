"""Which conditions a machine can run, and why not the others; end_to_end/test_log.py runs them."""

import sys

import pytest

from r2med_pyserini import conditions, models, regressions, rerankers
from r2med_pyserini.encoders.base import Settings
from r2med_pyserini.errors import UsageError
from r2med_pyserini.hubclient import Repository
from r2med_pyserini.outcome import Outcome
from r2med_pyserini.regressions import BESIDES, GIB, Machine, memory, parameters, run

from .tiny_models import hub_cache

LEXICAL = ("bm25", "bm25-official", "bm25-rm3", "bm25-rocchio", "bm25qs", "qld")
CPU = Settings(device="cpu")
TRUSTING = Settings(device="cpu", trust_remote_code=True)
KEYS = ("OPENAI_API_KEY", "VOYAGE_API_KEY", "OPENAI_BASE_URL", "VOYAGE_BASE_URL")


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """A machine without models of the Hub, keys and services."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for name in rerankers.names():
        api = rerankers.load(name).api or {}
        monkeypatch.delenv(api.get("model_variable", "R2MED_NONE"), raising=False)
    with hub_cache(tmp_path / "hub"):
        yield


@pytest.fixture
def room(monkeypatch):
    """Says how many bytes of memory there are."""

    def room(there: int) -> None:
        monkeypatch.setattr(regressions, "memory", lambda: there)

    return room


def lacks(name: str, settings: Settings = CPU, services: bool = False) -> str | None:
    return Machine(settings, services).lacks(conditions.load(name))


def put(*places: tuple[str, str | None]) -> None:
    """Put what looks like a model into the cache, for each of these repositories."""
    for id_, revision in places:
        folder = Repository("x", "model", id_, revision, "").snapshot
        folder.mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_text("{}")


def put_model(name: str) -> None:
    model = models.load(name)
    put(*{(files["id"], files["revision"]) for files in map(model.files, models.SIDES)})


class TestMachine:
    @pytest.mark.parametrize("name", LEXICAL)
    def test_words_need_nothing(self, name):
        assert lacks(name) is None

    def test_a_model_that_is_not_here(self):
        said = lacks("bge-large-en-v1.5")
        assert said.startswith("bge-large-en-v1.5 is not here (fetched from https://") and said.endswith("first used)")

    def test_a_model_that_is_here(self, room):
        put_model("bge-large-en-v1.5")
        room(64 * GIB)
        assert lacks("bge-large-en-v1.5") is None

    @pytest.mark.parametrize("name", ["rrf-bm25-bge", "bge-large-en-v1.5+bge-reranker-100"])
    def test_what_a_condition_is_made_from_counts(self, name):
        assert lacks(name).startswith("bge-large-en-v1.5 is not here")

    def test_a_reranker_that_is_not_here(self, room):
        assert lacks("bm25+bge-reranker-100") == "bge-reranker-v2-m3 is not here"
        put(*rerankers.load("bge-reranker-v2-m3").repositories())
        room(64 * GIB)
        assert lacks("bm25+bge-reranker-100") is None

    def test_services_are_asked_on_demand_and_with_a_key(self, monkeypatch):
        name = "openai-text-embedding-3-large"
        assert lacks(name) == "openai-text-embedding-3-large asks a service: --with-services"
        assert lacks(name, services=True) == "openai-text-embedding-3-large: set OPENAI_API_KEY"
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        assert lacks(name, services=True) is None
        assert lacks(name) is not None

    def test_rerankers_that_are_served(self, monkeypatch):
        name, reranker = "bm25+llm-listwise-20", rerankers.load(conditions.load("bm25+llm-listwise-20").rerank.reranker)
        assert lacks(name).endswith("asks a service: --with-services")
        variable = reranker.api["model_variable"]
        assert lacks(name, services=True) == f"{reranker.name}: set {variable}"
        monkeypatch.setenv(variable, "some-model")
        assert lacks(name, services=True) is None

    def test_code_of_a_repository(self, room):
        put_model("nv-embed-v2")
        room(999 * GIB)
        assert lacks("nv-embed-v2") == "nv-embed-v2 runs code of its repository: --trust-remote-code"
        assert lacks("nv-embed-v2", TRUSTING) is None

    def test_memory_for_its_weights(self, room):
        put_model("e5-mistral-7b-instruct")
        wanted = parameters(models.load("e5-mistral-7b-instruct").facts["parameters"]) * 4 + BESIDES
        room(wanted - 1)
        said = lacks("e5-mistral-7b-instruct")
        assert said == "e5-mistral-7b-instruct wants about 28 GiB of memory, this machine has 28"
        room(wanted)
        assert lacks("e5-mistral-7b-instruct") is None

    def test_two_models_take_twice_the_memory(self, room):
        put_model("medcpt-fixed")
        one = parameters(models.load("medcpt-fixed").facts["parameters"]) * 4
        room(2 * one + BESIDES - 1)
        assert "wants about" in lacks("medcpt-fixed")
        room(2 * one + BESIDES)
        assert lacks("medcpt-fixed") is None

    def test_without_pytorch(self, monkeypatch):
        put_model("bge-large-en-v1.5")
        monkeypatch.setitem(sys.modules, "torch", None)  # `find_spec` says then that there is none
        assert lacks("bge-large-en-v1.5").startswith("the package torch is not installed: pip install")

    def test_a_device_that_is_not_here(self):
        put_model("bge-large-en-v1.5")
        with pytest.raises(UsageError, match="--device warp: not on this machine"):
            lacks("bge-large-en-v1.5", Settings(device="warp"))


class TestParameters:
    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("109M", 109_000_000),
            ("109M a side", 109_000_000),
            ("22.7M", 22_700_000),
            ("7.1B", 7_100_000_000),
            ("unknown", None),
            (None, None),
            ("12", None),
            ("7BN", None),
        ],
    )
    def test_parameters(self, text, count):
        assert parameters(text) == count

    def test_every_model_that_runs_here_says_how_many_it_has(self):
        local = [models.load(name) for name in models.names() if models.load(name).loader != models.API]
        local += [rerankers.load(name) for name in rerankers.names() if not rerankers.load(name).api]
        silent = [model.name for model in local if parameters(model.facts.get("parameters")) is None]
        assert silent == []


def test_memory_is_what_a_machine_can_have():
    assert GIB // 4 < memory() < 2**50


class TestRun:
    def dry(self, *slugs: str, suite: str = "mini") -> Outcome:
        return run(suite, slugs, False, CPU, lambda _: None, dry_run=True)

    def test_what_is_left_out_and_what_is_to_be_done(self, workspace):
        text = self.dry("biology").text
        table, stages = text.split("\n\n")[1:]
        left_out = {line.split("  ")[0] for line in table.splitlines()[2:]}
        run_here = {words[-1] for line in stages.splitlines() if (words := line.split()) and "evaluate" in words}
        assert left_out | run_here == set(conditions.names()) and not left_out & run_here
        assert set(LEXICAL) <= run_here and "bge-large-en-v1.5" in left_out
        assert text.startswith(f"Left out of {len(conditions.names())} conditions: {len(left_out)}\n")
        assert not workspace.runs.exists()

    def test_wrong_usage(self, workspace):
        with pytest.raises(UsageError, match="did you mean 'biology'"):
            self.dry("biolgy")
        with pytest.raises(UsageError, match="did you mean 'mini'"):
            self.dry(suite="minni")
