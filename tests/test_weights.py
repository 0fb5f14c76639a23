"""Which files of a model are wanted, and where they are: all that needs no Hub."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini import models, rerankers, weights
from r2med_pyserini.errors import R2medError
from r2med_pyserini.models import DOCUMENT, QUERY, SIDES, Model
from r2med_pyserini.weights import EXTRA, at_hand, folder, reranker_at_hand, wanted, wants

COMMIT = "0123456789" * 4


def model(**facts) -> Model:
    return Model("toy", "dense", facts.pop("loader", "sentence-transformers"), **facts)


PACKAGED = model(package="toy-model", version="1.0", path="toy_model/files")


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A site-packages with a package that must not be imported."""
    for name, text in {
        "toy_model/__init__.py": "raise RuntimeError('imported')",
        "toy_model/files/config.json": "{}",
        "toy_model-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


# what is wanted

PLAIN = ["config.json", "model.safetensors", "tokenizer.json"]
LEFT_OUT = [
    ".gitattributes", ".eval_results/r.json", "README.md", "flax_model.msgpack", "tf_model.h5", "rust_model.ot",
    "model-q4.gguf", "model.onnx", "onnx/model.onnx", "onnx/config.json", "ONNX/model.onnx_data",
    "openvino/openvino_model.bin", "openvino/openvino_model.xml", "coreml/fill-mask/weight.bin", "logo.png",
    "images/scores.JPG", "consolidated.00.pth", "consolidated.safetensors", "original/params.json",
    "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "checkpoint-500/model.safetensors",
    "global_step10/zero.pt", "runs/events.out", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
    "pytorch_model.bin.index.json",
]  # fmt: skip
KEPT = [
    "1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.pt", "merges.txt", "vocab.txt",
    "spiece.model", "modeling_own.py", "chat_template.jinja", "config_sentence_transformers.json", "modules.json",
    "colbert_linear.pt", "qwen.tiktoken", "model.safetensors.index.json", "adapter_model.bin",
]  # fmt: skip


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_pytorch_does_not_read_is_left_out(name):
    assert sorted(wanted([*PLAIN, name])) == PLAIN


@pytest.mark.parametrize("name", KEPT)
def test_what_it_may_read_is_wanted(name):
    assert sorted(wanted([*PLAIN, name])) == sorted([*PLAIN, name])


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["pytorch_model.bin"], ["pytorch_model.bin"]),
        (["2_Dense/pytorch_model.bin", "model.safetensors"], ["2_Dense/pytorch_model.bin", "model.safetensors"]),
        (["2_Dense/pytorch_model.bin", "2_Dense/model.safetensors"], ["2_Dense/model.safetensors"]),
        (["model-1-of-1.safetensors", "pytorch_model-1-of-1.bin"], ["model-1-of-1.safetensors"]),
        (["adapter_model.safetensors", "pytorch_model.bin"], ["adapter_model.safetensors", "pytorch_model.bin"]),
        (["adapter_model.bin", "adapter_model.safetensors"], ["adapter_model.safetensors"]),
        (["model.bin", "model.safetensors"], ["model.safetensors"]),
    ],
)
def test_pickled_weights_are_wanted_only_where_there_are_no_others(files, chosen):
    assert wanted(files) == chosen


def test_weights_come_last_and_those_of_the_model_itself_at_the_very_end():
    files = ["2_Dense/model.safetensors", "a.safetensors", "modules.json", "tokenizer.json", "2_Dense/config.json"]
    assert wanted(files)[-2:] == ["2_Dense/model.safetensors", "a.safetensors"]
    assert set(wanted(files)) == set(files)


# models in packages


@pytest.mark.parametrize("side", SIDES)
def test_a_package_is_found_and_not_imported(packages, side):
    assert folder(PACKAGED, side) == packages / "toy_model" / "files"
    assert at_hand(PACKAGED)
    assert "toy_model" not in sys.modules


def test_a_package_that_is_not_installed_needs_the_extra():
    assert wants(PACKAGED) == EXTRA
    with pytest.raises(R2medError, match=r"^toy needs the extra: pip install 'r2med-pyserini\[models\]'$"):
        folder(PACKAGED, QUERY)


def test_a_package_without_its_files_is_to_be_installed_again(packages):
    (packages / "toy_model" / "files" / "config.json").unlink()
    (packages / "toy_model" / "files").rmdir()
    command = "pip install --force-reinstall 'toy-model==1.0'"
    assert wants(PACKAGED) == command
    with pytest.raises(R2medError, match=f"^toy lacks its files in package toy-model: {command}$"):
        folder(PACKAGED, QUERY)


def test_a_package_of_another_version_is_refused(packages):
    newer, command = replace(PACKAGED, version="1.0.1"), "pip install 'toy-model==1.0.1'"
    assert (wants(newer), at_hand(newer)) == (command, False)
    said = f"^toy needs package toy-model 1.0.1, not 1.0, which is installed: {command}$"
    with pytest.raises(R2medError, match=said):
        folder(newer, QUERY)


def test_a_model_that_borrows_a_tokenizer_needs_the_other_model_too(packages):
    lender = models.load("bge-m3")
    borrower = replace(PACKAGED, loader="onnx", tokenizer=lender.name)
    assert wants(borrower) == wants(lender)
    assert wants(model(loader="onnx", package="none", path="x", tokenizer=lender.name)) == EXTRA


# other models


OWN = "https://toy.example/v1"
LACKING = "set TOY_KEY"


@pytest.mark.parametrize(
    ("key", "address", "said"),
    [
        (None, None, LACKING),
        ("", "", LACKING),
        (" \n", " ", LACKING),
        ("secret", None, None),
        (None, f"{OWN}/", LACKING),
        (None, "http://localhost:8000/v1", None),  # may want no key
        ("secret", "http://localhost:8000/v1", None),
    ],
)
def test_an_api_is_at_hand_if_its_key_is_set_or_another_server_is_named(monkeypatch, key, address, said):
    for variable, value in (("TOY_KEY", key), ("TOY_URL", address)):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    api = {"base_url": OWN, "base_url_variable": "TOY_URL", "key_variable": "TOY_KEY"}
    behind_api = model(loader="api", id="toy", api=api)
    assert (wants(behind_api), at_hand(behind_api)) == (said, said is None)


@pytest.mark.parametrize(("name", "here"), [(None, False), ("", False), (" \n", False), ("qwen3-8b ", True)])
def test_a_served_reranker_is_at_hand_if_its_model_is_named(monkeypatch, name, here):
    reranker = rerankers.load("llm-pointwise")
    monkeypatch.delenv(reranker.api["model_variable"], raising=False)
    if name is not None:
        monkeypatch.setenv(reranker.api["model_variable"], name)
    assert reranker_at_hand(reranker) is here


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        (["config.json", "model.safetensors"], True),
        (["adapter_config.json", "adapter_model.bin"], True),
        (["model.safetensors"], False),
        (["config.json"], False),
        ([], False),
    ],
)
def test_without_the_list_of_its_files_a_folder_is_looked_at(tmp_path, files, whole):
    for name in files:
        (tmp_path / name).write_text("{}")
    assert weights._looks_whole(tmp_path) is whole


@pytest.mark.parametrize(
    ("facts", "side", "repo"),
    [
        ({}, DOCUMENT, "o/documents"),
        ({"query_id": "o/queries", "revision": COMMIT}, QUERY, "o/queries"),
        ({"query_id": "o/queries", "query_revision": COMMIT}, DOCUMENT, "o/documents"),
    ],
)
def test_without_a_pinned_revision_a_model_is_refused(facts, side, repo):
    unpinned = model(id="o/documents", **facts)
    with pytest.raises(R2medError, match=rf"^toy: no revision of {repo} is pinned, .*: use another model$"):
        folder(unpinned, side)
    assert wants(unpinned) == "no revision is pinned: it cannot be used"
