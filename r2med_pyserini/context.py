"""What the stages of one plan share: where and how it is carried out, Java threads, the Hub, models."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .artifacts import Hashes
from .encoders import Encoders
from .encoders.base import AUTO, Settings
from .hub import Hub
from .javatasks import JavaPool
from .paths import Collection, Workspace
from .reranking import Rerankers
from .stages import Stage
from .suites import Dataset, Suite

# Raised when a stage's code changes what it writes for the same inputs, so that older outputs are made anew.
FORMATS = {"fetch": 1, "collection": 1, "vectors": 1, "index": 1, "search": 2, "fuse": 1, "rerank": 1, "scores": 1}

PRECISION, SENTENCES = "precision", "sentences"  # in the notes of an artifact: what models computed in; what to tell


@dataclass(frozen=True)
class Setting:
    """Where and how a plan is carried out. `source` is a folder to take raw files from, instead of the Hub."""

    workspace: Workspace
    hashes: Hashes
    threads: int
    source: Path | None = None
    models: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Context:
    """The setting of a plan for one suite, and what is made once for all of its stages."""

    suite: Suite
    setting: Setting

    @property
    def workspace(self) -> Workspace:
        """Where everything lies."""
        return self.setting.workspace

    @cached_property
    def pool(self) -> JavaPool:
        """Threads inside Java."""
        return JavaPool(self.setting.threads)

    @cached_property
    def hub(self) -> Hub:
        """The Hub's client for datasets."""
        return Hub()

    @cached_property
    def encoders(self) -> Encoders:
        """The models, loaded when they are first wanted."""
        return Encoders(self.setting.models)

    @cached_property
    def rerankers(self) -> Rerankers:
        """The rerankers, loaded when they are first wanted."""
        return Rerankers(self.setting.models)

    def subject(self, dataset: Dataset, detail: str = "") -> str:
        """How a stage is named: suite, dataset, and what of it."""
        return f"{self.suite.name}/{dataset.slug}" + (f" {detail}" if detail else "")

    def hash(self, path: Path) -> str:
        """SHA-256 of a file."""
        return self.setting.hashes.of(path)

    def inputs(self, converted: Stage) -> dict[str, str]:
        """The part of a run's recipe that says what it was made from: hashes of documents and topics."""
        files = Collection(converted.artifact.path)
        return {"docs": self.hash(files.docs), "topics": self.hash(files.topics)}


def serves(have: dict, want: dict) -> bool:
    """Whoever leaves the precision open takes what is there."""
    return have == want or (want["dtype"] == AUTO and have == want | {"dtype": have.get("dtype")})
