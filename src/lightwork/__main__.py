"""``python -m lightwork`` is the same as ``lightwork``; torchrun starts ranks by it."""

from lightwork.cli.main import run

if __name__ == "__main__":
    run()
