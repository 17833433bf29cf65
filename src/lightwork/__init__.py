"""Question-answering models, trained by data parallelism: the same model on every card."""

__version__ = "0.1.0"
