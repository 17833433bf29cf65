"""Data, tokenizers and stores made in memory for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from lightwork.tasks.extractive.examples import Answer, Example, Examples
from lightwork.tasks.extractive.windows import Windows


def example(
    example_id: str, question: str, context: str, *answers: str, start: int | None = None
) -> Example:
    """An example whose answers stand at their first place in the context, or at ``start``."""
    golds = tuple(Answer(text, context.index(text) if start is None else start) for text in answers)
    unusable = "" if context.strip() else "blank_contexts"
    return Example(example_id, question, context, golds, not golds, unusable)


def examples(*items: Example) -> Examples:
    """What reading gives for these items."""
    return Examples(list(items), {}, {})


def qa(example_id: str, answers: Any, question: str = "Who?", **more: Any) -> dict[str, Any]:
    """One question of the nested shape."""
    return {"id": example_id, "question": question, "answers": answers, **more}


def squad(context: str, *qas: dict[str, Any], version: str = "2.0") -> dict[str, Any]:
    """A nested document with one paragraph."""
    paragraph = {"context": context, "qas": list(qas)}
    return {"version": version, "data": [{"title": "made", "paragraphs": [paragraph]}]}


def written(folder: Path, content: Any, name: str = "data.json") -> Path:
    """A file with these bytes, this text, or this object as JSON."""
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        content = json.dumps(content, ensure_ascii=False).encode()
    path = folder / name
    path.write_bytes(content)
    return path


class Columns:
    """Windows as rows of a store, without a file."""

    def __init__(self, windows: Windows) -> None:
        self.columns = windows.columns

    def column(self, name: str) -> NDArray[Any]:
        values = self.columns[name]
        assert isinstance(values, np.ndarray)
        return values

    def row(self, name: str, index: int) -> NDArray[Any]:
        ragged = self.columns[name]
        assert isinstance(ragged, tuple)
        return ragged[0][ragged[1][index] : ragged[1][index + 1]]

    def text(self, name: str, index: int) -> str:
        return bytes(self.row(name, index)).decode()


def word_tokenizer(texts: Iterable[str], *, cls_last: bool = False) -> Any:
    """Every word between blanks is one token; ``cls_last`` is the layout of XLNet."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = sorted({word for text in texts for word in text.split()} - set(special))
    vocabulary = {token: index for index, token in enumerate(special + words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    single = "[CLS] $A [SEP]"
    if cls_last:
        pair, single = "$A [SEP] $B:1 [SEP]:1 [CLS]:2", "$A [SEP] [CLS]:2"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return _fast(tokenizer, cls_last)


def byte_tokenizer(texts: Sequence[str]) -> Any:
    """Byte-level BPE, which glues the blank before a word to it, with the layout of RoBERTa."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _fast(tokenizer, False, type_ids=False)


def _fast(tokenizer: Tokenizer, pad_left: bool, type_ids: bool = True) -> Any:
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=names if type_ids else [names[0], names[2]],
        padding_side="left" if pad_left else "right",
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
