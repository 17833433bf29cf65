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
from lightwork.tasks.extractive.model import ScratchShape, build_model
from lightwork.tasks.extractive.windows import WindowOptions, Windows, build_windows

TEXTS = [
    "The ferry leaves Tarn Harbour at noon; the master of the harbour is Odell Wick.",
    "Who painted the mural on Quay Street? Ines Falk painted it in one week of spring.",
    "望江塔建于1957年，由王某设计。塔内使用灯光，共有十二层。",
]

WORDS = [f"w{i}" for i in range(60)]
TWELVE = " ".join(WORDS[:12])
NARROW = WindowOptions(max_length=11, stride=3, max_question_length=2)
"""Three special tokens and a question of two words leave room for six words of context."""


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


def context_words(windows: Windows, index: int) -> list[str]:
    """The context of one window, decoded through its offsets."""
    rows = Columns(windows)
    context = rows.text("context", rows.column("example_context")[rows.column("example")[index]])
    spans = rows.row("offsets", index).reshape(-1, 2)
    return [context[first:last] for first, last in spans]


def label_text(windows: Windows, index: int) -> str | None:
    """The labelled text of one window; None where the label is the classification token."""
    rows = Columns(windows)
    start, end, first = (
        int(rows.column(name)[index]) for name in ("start", "end", "context_first")
    )
    if start == rows.column("cls")[index]:
        assert end == start
        return None
    context = rows.text("context", rows.column("example_context")[rows.column("example")[index]])
    spans = rows.row("offsets", index).reshape(-1, 2)
    return context[spans[start - first, 0] : spans[end - first, 1]]


def word_windows(
    items: Examples, options: WindowOptions = NARROW, training: bool = True, **layout: Any
) -> Windows:
    """Windows by a tokenizer that knows every word of ``items`` as one token."""
    texts = [text for item in items for text in (item.context, item.question)]
    return build_windows(items, word_tokenizer(texts, **layout), options, training=training)


def build(source: str, dropout: float | None = None, weights: bool = True, ids: int = 64) -> Any:
    """A model of ``source``; ``scratch`` is a tiny one."""
    shape = ScratchShape(layers=2, hidden=16, heads=2, intermediate=32, positions=48)
    return build_model(source, dropout=dropout, weights=weights, scratch=shape, vocabulary=ids)
