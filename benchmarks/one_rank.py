"""What the programs of one rank share: a request that the program which starts them has written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from lightwork.comm.parent import die_with_parent
from lightwork.comm.told import tell
from lightwork.errors import LightworkError

Request = TypeVar("Request")


def save(request: Any, path: Path) -> None:
    """A dataclass of JSON values, as the first argument of a rank names it."""
    path.write_text(json.dumps(asdict(request)), encoding="utf-8")


def as_one_rank(kind: Callable[..., Request], run: Callable[[Request], None]) -> None:
    """``run`` the request in the file that is the first argument; mistakes are told in a line."""
    die_with_parent(os.environ)
    request = kind(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    try:
        run(request)
    except LightworkError as error:
        tell(f"error: {error}", os.environ, error.joint)
        sys.exit(error.exit_code)
