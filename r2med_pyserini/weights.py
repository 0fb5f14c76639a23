"""Where a model's files lie: in the Hub's cache, fetched when they are first wanted, or in an installed package.

Of a repository only what PyTorch, transformers and sentence-transformers read is fetched, and safetensors instead of
pickled weights where there are both.
"""

import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from threading import Lock

from . import models
from .errors import R2medError, system_error
from .facts import server
from .hubclient import HubClient, Repository, files_known
from .models import API, SIDES, Model
from .rerankers import Reranker

EXTRA = "pip install 'r2med-pyserini[models]'"
_ELSEWHERE = "a copy of another machine's cache (HF_HOME)"
_WEIGHTS = (".safetensors", ".bin")
# Weights for other software, pictures and prose, what training left behind, and Mistral's own form of the same weights.
_OTHER_SUFFIXES = frozenset(
    (".h5", ".msgpack", ".ot", ".gguf", ".ggml", ".onnx", ".onnx_data", ".tflite", ".pb", ".mlmodel", ".ckpt", ".pth",
     ".npz", ".md", ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".mp4", ".ipynb", ".html", ".log", ".zip",
     ".gz", ".tar", ".parquet", ".arrow")
)  # fmt: skip
_OTHER_FOLDERS = re.compile(r"\..*|onnx|openvino|coreml|original|runs|checkpoint-\d+|global_step\d+", re.IGNORECASE)
_OTHER_FILES = re.compile(r"\..*|consolidated.*|training_args\.bin|(optimizer|scheduler|rng_state).*")

_hub = HubClient()
_one_at_a_time = Lock()  # else two conditions that share a model would both see that it is not there


def folder(model: Model, side: str) -> Path:
    """The folder with the model's files for a side (models.QUERY or models.DOCUMENT), fetched if need be.

    If all files are here, nobody is asked for them. Raises R2medError with one sentence that says what to do if they
    cannot be had. A model behind an API has none.
    """
    if model.package:
        return _installed(model)
    return fetched(_repository(model, side))


def repository(name: str, id_: str, revision: str | None) -> Repository:
    """The repository `id_` of the Hub, which holds files of the model `name`. Raises R2medError if it is not pinned."""
    if revision is None:
        raise R2medError(f"{name}: no revision of {id_} is pinned, so scores would not last: use another model")
    return Repository(name, "model", id_, revision, _ELSEWHERE)


def fetched(place: Repository) -> Path:
    """The folder with the files of a repository, fetched if need be; see `folder`."""
    try:
        with _one_at_a_time:
            _fetch(place)
    except OSError as error:
        raise R2medError(f"{place.label}: {system_error(error)}") from error
    return place.snapshot


def reranker_at_hand(reranker: Reranker) -> bool:
    """Whether a reranker can be used at once: its files are here, or it is known which server to ask."""
    if reranker.api:
        with suppress(R2medError):
            return bool(reranker.served_model())
        return False
    try:
        return all(_is_here(repository(reranker.name, *place)) for place in reranker.repositories())
    except (R2medError, OSError):
        return False


def at_hand(model: Model) -> bool:
    """Whether a model can be used at once: its files are here, or its API's key or another server is named.

    Quick, asks nobody.
    """
    return wants(model) is None


def wants(model: Model) -> str | None:
    """What there is to do before a model can be used, in a few words for a list; None if it is at hand."""
    if model.loader == API:
        variable = model.api["key_variable"]
        key = os.environ.get(variable, "").strip()
        return None if key or server(model.api) else f"set {variable}"  # a server of one's own may want no key
    if model.package:
        _, command = _to_install(model) or (None, None)
        return wants(models.load(model.tokenizer)) if model.tokenizer and not command else command
    try:
        places = [_repository(model, side) for side in SIDES]
        lacking = [place for place in places if not _is_here(place)]
    except R2medError:
        return "no revision is pinned: it cannot be used"
    except OSError as error:
        return system_error(error)
    return f"fetched from {lacking[0].page} when first used" if lacking else None


def wanted(files: Iterable[str]) -> list[str]:
    """Those files of a repository that loading the model takes, weights last and the folder's own at the very end.

    In this order a cache that holds the weights holds the rest too, even if a download was interrupted.
    """
    files = sorted(files)
    chosen = [name for name in files if not _is_other(PurePosixPath(name)) and not _has_twin(name, files)]
    return sorted(chosen, key=lambda name: (name.endswith(_WEIGHTS), -name.count("/")))


def _is_other(path: PurePosixPath) -> bool:
    """Whether it is of no use to PyTorch."""
    return bool(
        path.suffix.lower() in _OTHER_SUFFIXES
        or _OTHER_FILES.fullmatch(path.name)
        or any(map(_OTHER_FOLDERS.fullmatch, path.parts[:-1]))
    )


def _has_twin(name: str, files: list[str]) -> bool:
    """Whether pickled weights (pytorch_model*.bin) lie beside the same as safetensors (model*.safetensors)."""
    parent, slash, file = name.rpartition("/")
    stem = re.split(r"[-.]", file.removeprefix("pytorch_"))[0]
    twin = re.compile(re.escape(parent + slash + stem) + r"[^/]*\.safetensors")
    return file.endswith((".bin", ".bin.index.json")) and any(map(twin.fullmatch, files))


def _fetch(place: Repository) -> None:
    """See to it that the cache holds what is wanted of a repository."""
    try:
        files = _hub.files(place)
    except R2medError:  # the list is a matter of the Hub's client: other programs fill the cache without it
        if _looks_whole(place.snapshot):
            return
        raise
    for name, there in _lacking(place.snapshot, files).items():
        _hub.download(place, name, anew=there)


def _is_here(place: Repository) -> bool:
    files = files_known(place)
    return _looks_whole(place.snapshot) if files is None else not _lacking(place.snapshot, files)


def _lacking(snapshot: Path, files: Mapping[str, int]) -> dict[str, bool]:
    """The wanted files that are not here, in the order to fetch them; True for those of a wrong size."""
    paths = {name: snapshot / name for name in wanted(files)}
    there = {name: path.is_file() for name, path in paths.items()}
    return {name: there[name] for name in paths if not there[name] or paths[name].stat().st_size != files[name]}


def _looks_whole(snapshot: Path) -> bool:
    """Whether a folder holds a model, as far as it can be told without the list of its files."""
    names = wanted(path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file())
    shards: set[str] = set()
    for name in names:
        if name.endswith(".index.json"):
            try:
                shards |= set(json.loads((snapshot / name).read_bytes())["weight_map"].values())
            except (ValueError, TypeError, LookupError, AttributeError):
                return False
    return (
        not {"config.json", "adapter_config.json"}.isdisjoint(names)
        and any(name.endswith(_WEIGHTS) for name in names)
        and shards <= set(names)
    )


def _repository(model: Model, side: str) -> Repository:
    files = model.files(side)
    return repository(model.name, files["id"], files["revision"])


def _installed(model: Model) -> Path:
    wrong = _to_install(model)
    if wrong:
        what, command = wrong
        raise R2medError(f"{model.name} {what}: {command}")
    return _place(importlib.metadata.distribution(model.package), model)


def _to_install(model: Model) -> tuple[str, str] | None:
    """What a packaged model lacks, and the command that brings it; None if its files are here.

    Another version may hold other files, whose scores would pass for those of this one.
    """
    try:
        found = importlib.metadata.distribution(model.package)
    except importlib.metadata.PackageNotFoundError:
        return "needs the extra", EXTRA
    wanted = f"'{model.package}=={model.version}'"
    if found.version != model.version:
        what = f"needs package {model.package} {model.version}, not {found.version}, which is installed"
        return what, f"pip install {wanted}"
    if not _place(found, model).exists():
        return f"lacks its files in package {model.package}", f"pip install --force-reinstall {wanted}"
    return None


def _place(package: importlib.metadata.Distribution, model: Model) -> Path:
    """Where an installed package puts the model's files; it is not imported."""
    return Path(package.locate_file(model.path)).absolute()
