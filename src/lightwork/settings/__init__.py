"""Settings of a run: YAML and ``section.key=value`` to frozen values, and the folder of the run."""

from lightwork.settings.conversion import steps_of
from lightwork.settings.identity import default_of, differences, identity, identity_hash
from lightwork.settings.loading import load_settings
from lightwork.settings.paths import check_files, check_paths, folder_reason, named
from lightwork.settings.run_folder import (
    LONGER,
    RunRecord,
    check_run,
    locate,
    open_run,
    read_run,
    run_folder,
    run_id_of,
    seeded,
    write_run,
)
from lightwork.settings.schema import Settings
from lightwork.settings.seed import is_random, numbered
from lightwork.settings.writing import to_yaml

__all__ = [
    "LONGER",
    "RunRecord",
    "Settings",
    "check_files",
    "check_paths",
    "check_run",
    "default_of",
    "differences",
    "folder_reason",
    "identity",
    "identity_hash",
    "is_random",
    "load_settings",
    "locate",
    "named",
    "numbered",
    "open_run",
    "read_run",
    "run_folder",
    "run_id_of",
    "seeded",
    "steps_of",
    "to_yaml",
    "write_run",
]
