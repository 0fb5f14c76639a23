"""Tiny random rerankers with the architecture, the tokenizer and the files of published ones; see tiny_models.

`make("bge-reranker-v2-m3")` puts an XLMRobertaForSequenceClassification of two layers where the Hub's client would have
put BAAI/bge-reranker-v2-m3, so that the entry of rerankers.yaml and all code that loads it are used as they are.
"""

import json
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer, processors

from r2med_pyserini import rerankers, weights
from r2med_pyserini.rerankers import Reranker

from . import tiny_models, tiny_tokenizers
from .tiny_models import DIMENSIONS, save, seeded, write

PINNED = "0123456789" * 4  # for a repository whose revision rerankers.yaml does not know
NAMES = (
    "monobert-large-msmarco",
    "ms-marco-minilm-l-6",
    "bge-reranker-v2-m3",
    "mxbai-rerank-base",
    "rankllama-7b",
    "monot5-base",
    "qwen3-reranker-0.6b",
)
_SIZES = {"hidden_size": DIMENSIONS, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def described(name: str, **changes) -> Reranker:
    """What rerankers.yaml says of a reranker, with a revision in any case, and with changes."""
    found = rerankers.load(name)
    return replace(found, **{"revision": found.revision or PINNED, **changes})


def folders(reranker: Reranker) -> list[Path]:
    """Where the cache has its files: the reranker's own, and those of its base."""
    return [weights.repository(reranker.name, *place).snapshot for place in reranker.repositories()]


def make(name: str, **changes) -> Reranker:
    """The reranker of that name, with changes to its description, a tiny one of its kind being in the cache."""
    found = described(name, **changes)
    places = folders(found)
    if not places[0].exists():
        for place in places:
            place.mkdir(parents=True)
        MAKERS[name](*places)
    return found


def bert(folder: Path, labels: int = 1) -> None:
    def network(size: int):
        made = seeded(1)
        config = made.BertConfig(vocab_size=size, num_labels=labels, initializer_range=0.2, **_SIZES)
        return made.BertForSequenceClassification(config)

    names = {"tokenizer_class": "BertTokenizer", "model_max_length": 512, "pad_token": "[PAD]", "do_lower_case": True}
    save(folder, tiny_tokenizers.wordpiece(), network, **names)


def old_bert(folder: Path) -> None:
    """monoBERT's folder, of 2020: vocab.txt, pickled weights, and a configuration without type and classes."""
    import safetensors.torch
    import torch

    bert(folder, labels=2)
    tokenizer = folder / "tokenizer.json"
    vocabulary = json.loads(tokenizer.read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.get)))
    tokenizer.unlink()
    write(folder, "tokenizer_config.json", {"do_lower_case": True})
    names = ("unk", "sep", "pad", "cls", "mask")
    write(folder, "special_tokens_map.json", {f"{name}_token": f"[{name.upper()}]" for name in names})
    write(folder, "added_tokens.json", {})
    file = folder / "model.safetensors"
    torch.save(safetensors.torch.load_file(file), folder / "pytorch_model.bin")
    file.unlink()
    config = json.loads((folder / "config.json").read_text())
    of_today = ("model_type", "architectures", "id2label", "label2id", "dtype", "transformers_version")
    write(folder, "config.json", {key: value for key, value in config.items() if key not in of_today})


def xlm_roberta(folder: Path) -> None:
    def network(size: int):
        made = seeded(2)
        config = made.XLMRobertaConfig(vocab_size=size, max_position_embeddings=8194, type_vocab_size=1, num_labels=1,
                                       pad_token_id=1, initializer_range=0.2, **_SIZES)  # fmt: skip
        return made.XLMRobertaForSequenceClassification(config)

    tokenizer = in_pairs(tiny_tokenizers.xlm_roberta(), "<s> $A </s> </s> $B </s>")
    save(folder, tokenizer, network, tokenizer_class="XLMRobertaTokenizer", model_max_length=8192)


def deberta(folder: Path) -> None:
    """mxbai's: relative positions, no types of tokens, weights in half precision."""

    def network(size: int):
        made = seeded(3)
        config = made.DebertaV2Config(vocab_size=size, num_labels=1, relative_attention=True, position_buckets=16,
                                      norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
                                      position_biased_input=False, max_relative_positions=-1, type_vocab_size=0,
                                      pooler_hidden_size=DIMENSIONS, initializer_range=0.2, **_SIZES)  # fmt: skip
        return made.DebertaV2ForSequenceClassification(config).half()

    content = tiny_tokenizers.xlm_roberta().to_str()
    for theirs, ours in (("<s>", "[PAD]"), ("<pad>", "[CLS]"), ("</s>", "[SEP]"), ("<unk>", "[UNK]")):
        content = content.replace(f'"{theirs}"', f'"{ours}"')
    tokenizer = in_pairs(Tokenizer.from_str(content), "[CLS] $A [SEP] $B:1 [SEP]:1")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "unk", "mask")}
    save(folder, tokenizer, network, tokenizer_class="DebertaV2Tokenizer", model_max_length=512, **names)


def llama(adapter: Path, base: Path) -> None:
    """RankLLaMA's: a language model, and an adapter that brings a head with it."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import AutoModelForSequenceClassification

    def network(size: int):
        made = seeded(4)
        config = made.LlamaConfig(vocab_size=size, num_key_value_heads=2, initializer_range=0.2, **_SIZES)
        return made.LlamaForCausalLM(config)

    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "padding_side": "left"}
    save(base, tiny_tokenizers.llama(), network, tokenizer_class="LlamaTokenizer", **names)
    seeded(5)
    module = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    layers = ["q_proj", "v_proj", "o_proj", "up_proj"]
    made = LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=16, target_modules=layers, init_lora_weights=False)
    get_peft_model(module, made).save_pretrained(adapter)
    config = json.loads((adapter / "adapter_config.json").read_text())
    write(adapter, "adapter_config.json", config | {"base_model_name_or_path": "meta-llama/Llama-2-7b-hf"})


def t5(folder: Path) -> None:
    def network(size: int):
        made = seeded(6)
        config = made.T5Config(vocab_size=size, d_model=DIMENSIONS, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                               decoder_start_token_id=0)  # fmt: skip
        return made.T5ForConditionalGeneration(config)

    tokenizer = knowing(tiny_tokenizers.t5(), "▁true", "▁false", "▁Query:", "▁Document:", "▁Relevant:")
    save(folder, tokenizer, network, tokenizer_class="T5Tokenizer", model_max_length=512, extra_ids=100)


def qwen3(folder: Path) -> None:
    def network(size: int):
        made = seeded(7)
        config = made.Qwen3Config(vocab_size=size, num_key_value_heads=2, head_dim=8, initializer_range=0.2,
                                  tie_word_embeddings=True, **_SIZES)  # fmt: skip
        return made.Qwen3ForCausalLM(config)

    tokenizer = knowing(tiny_tokenizers.qwen(), "yes", "no")
    tokenizer.add_tokens(["<think>", "</think>"])
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None}
    save(folder, tokenizer, network, tokenizer_class="Qwen2Tokenizer", model_max_length=131072, **names)


def in_pairs(tokenizer: Tokenizer, template: str) -> Tokenizer:
    """A tokenizer that puts two texts together by a template, and one by its first part."""
    single = template.partition("$A")
    around = {word.partition(":")[0] for word in template.split() if word[0] != "$"}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{single[0]}$A {single[2].split()[0]}",
        pair=template,
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in sorted(around)],
    )
    return tokenizer


def knowing(tokenizer: Tokenizer, *words: str) -> Tokenizer:
    """The same tokenizer with some words more, at the end of its vocabulary."""
    content = json.loads(tokenizer.to_str())
    model, size = content["model"], tokenizer.get_vocab_size()
    for word in words:
        if model["type"] == "Unigram":
            model["vocab"].append([word, -4.0])
            continue
        for length in range(2, len(word) + 1):
            if word[:length] not in model["vocab"]:
                model["vocab"][word[:length]] = size
                size += 1
            merge = [word[: length - 1], word[length - 1]]
            model["merges"] += [merge] if merge not in model["merges"] else []
    return Tokenizer.from_str(json.dumps(content))


MAKERS = {
    "monobert-large-msmarco": old_bert, "ms-marco-minilm-l-6": bert, "bge-reranker-v2-m3": xlm_roberta,
    "mxbai-rerank-base": deberta, "rankllama-7b": llama, "monot5-base": t5, "qwen3-reranker-0.6b": qwen3,
}  # fmt: skip
hub_cache = tiny_models.hub_cache
