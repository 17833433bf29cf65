"""The built-in sample: questions about invented people and places, in English and Chinese."""

from __future__ import annotations

from lightwork.tasks.extractive.sample.writing import write_sample

__all__ = ["write_sample"]
