"""Train a model to find the answers to questions in a text: a loop of one's own."""

import argparse
import json
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

NO_LABEL = -100  # the answer is not in what the model sees


def read_squad(path):
    """(question, context, first character of the answer, one past its last) of each question."""
    articles = json.loads(Path(path).read_text(encoding="utf-8"))["data"]
    examples = []
    for paragraph in [paragraph for article in articles for paragraph in article["paragraphs"]]:
        for qa in [qa for qa in paragraph["qas"] if qa["answers"]]:
            first = qa["answers"][0]["answer_start"]
            end = first + len(qa["answers"][0]["text"])
            examples.append((qa["question"], paragraph["context"], first, end))
    return examples


def collate(tokenizer, examples):
    """A batch of tensors, padded to its longest window, with the answer's first and last token."""
    questions, contexts, firsts, ends = zip(*examples, strict=True)
    options = {"max_length": 384, "truncation": "only_second", "padding": True}
    batch = tokenizer(questions, contexts, return_tensors="pt", **options)
    labels = []
    for row, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        tokens = [batch.char_to_token(row, place, sequence_index=1) for place in (first, end - 1)]
        labels.append([NO_LABEL] * 2 if None in tokens else tokens)
    batch["labels"] = torch.tensor(labels)
    return batch


def span_loss(model, batch):
    """The summed loss of all windows that have a label, and how many those are."""
    labels, mask = batch.pop("labels"), batch["attention_mask"].bool()
    output = model(**batch)
    loss = 0
    for logits, wanted in zip((output.start_logits, output.end_logits), labels.T, strict=True):
        seen = logits.masked_fill(~mask, -1e4)  # an answer is never in the padding
        loss = loss + cross_entropy(seen, wanted, ignore_index=NO_LABEL, reduction="sum") / 2
    return loss, (labels[:, 0] != NO_LABEL).sum().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder with a model and its tokenizer")
    parser.add_argument("--data", required=True, help="a SQuAD file")
    parser.add_argument("--out", required=True, help="the folder for the trained model")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForQuestionAnswering.from_pretrained(args.model).train()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    examples, join = read_squad(args.data), partial(collate, tokenizer)
    loader = DataLoader(examples, args.batch_size, shuffle=True, collate_fn=join)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    for epoch in range(args.epochs):
        for step, batch in enumerate(loader, 1):
            optimizer.zero_grad()
            loss_sum, count = span_loss(model, batch.to(model.device))
            loss = loss_sum / count
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            print(f"epoch {epoch} step {step} loss {loss:.9g}")

    def write(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    write(args.out)


if __name__ == "__main__":
    main()
