"""The one console of this process: what is logged appears above a running bar, not through it."""

from __future__ import annotations

import sys
from functools import cache

from rich.console import Console


@cache
def terminal() -> Console:
    """Standard error, where everything for a person goes; standard output stays for data.

    Only a terminal counts as one, whatever ``FORCE_COLOR`` says: a bar in a file is of no use.
    """
    return Console(stderr=True, soft_wrap=True, force_terminal=sys.stderr.isatty())
