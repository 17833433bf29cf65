"""Whether this process is a rank or starts the ranks, and how many of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lightwork.comm.supervisor import Launch, supervise
from lightwork.errors import LaunchError

LOGS = "logs"
_GPU_FOLDERS = Path("/proc/driver/nvidia/gpus")
_NVIDIA_SMI_TIMEOUT_S = 20


def is_rank(environ: Mapping[str, str]) -> bool:
    """Whether a launcher, ours or another, started this process as one of its ranks."""
    return any(name in environ for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))


def opens_run(environ: Mapping[str, str]) -> bool:
    """Whether this process checks and opens the run folder, for all ranks.

    It does where it is going to start them, and as the first rank of another launcher.
    """
    return "LIGHTWORK_RUN_ID" not in environ and environ.get("RANK", "0") == "0"


def refuse_ranks(ranks: int | None, environ: Mapping[str, str]) -> None:
    """``--ranks`` means nothing where the ranks have been started already."""
    if ranks is not None:
        found = ", ".join(
            f"{name}={environ[name]}" for name in ("RANK", "WORLD_SIZE") if name in environ
        )
        raise LaunchError(
            f"--ranks {ranks} was given, but another launcher, such as torchrun, has started the "
            f"ranks already ({found or 'LOCAL_RANK is set'}); leave out --ranks or that launcher"
        )


def ranks_here(asked: int | None, device: str, environ: Mapping[str, str]) -> int:
    """How many ranks to start on this machine; LaunchError where they do not fit on it."""
    return choose_ranks(asked, device, 0 if device == "cpu" else visible_gpus(environ))


def choose_ranks(asked: int | None, device: str, gpus: int) -> int:
    """How many ranks to start where ``gpus`` GPUs are visible.

    Raises LaunchError where they cannot have a GPU each.
    """
    if device == "cpu" or (device == "auto" and gpus == 0):
        return asked or 1
    if gpus == 0:
        raise LaunchError("launch.device is cuda, but no GPU is visible; use launch.device=cpu")
    if asked is not None and asked > gpus:
        raise LaunchError(
            f"--ranks {asked} was given, but only {gpus} GPU{'s are' if gpus > 1 else ' is'} "
            f"visible and each rank needs its own; give at most {gpus}, or add launch.device=cpu"
        )
    return asked or gpus


def visible_gpus(environ: Mapping[str, str]) -> int:
    """GPUs that ranks would see, counted without torch.

    ``CUDA_VISIBLE_DEVICES`` is read as CUDA does: the list ends at the first empty or negative
    entry.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return _present_gpus()
    count = 0
    for entry in listed.split(","):
        if not entry.strip() or entry.strip().startswith("-"):
            break
        count += 1
    return min(count, _present_gpus()) if count else 0


def _present_gpus() -> int:
    program = shutil.which("nvidia-smi")
    if program is not None:
        try:
            listing = subprocess.run(
                [program, "-L"],
                capture_output=True,
                text=True,
                timeout=_NVIDIA_SMI_TIMEOUT_S,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return 0  # a driver that does not answer gives ranks no GPU either
        return sum(line.startswith("GPU ") for line in listing.splitlines())
    return len(list(_GPU_FOLDERS.iterdir())) if _GPU_FOLDERS.is_dir() else 0


def with_devices(devices: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for ranks that see only the GPUs ``devices``, such as ``2,3``; None: all.

    Numbers count the GPUs that are visible now, so ``CUDA_VISIBLE_DEVICES=4,5,6,7`` and ``2,3``
    give 6 and 7.
    """
    if devices is None:
        return dict(environ)
    if is_rank(environ):
        raise LaunchError(
            f"--devices {devices} was given, but another launcher has started the ranks already; "
            "set CUDA_VISIBLE_DEVICES for that launcher instead"
        )
    count = visible_gpus(environ)
    wanted = [text.strip() for text in devices.split(",")]
    known = [str(number) for number in range(count)]
    if count == 0:
        raise LaunchError(f"--devices {devices} was given, but no GPU is visible")
    if len(set(wanted)) < len(wanted) or not set(wanted) <= set(known):
        raise LaunchError(
            f"--devices {devices} cannot be used: the visible GPUs are {', '.join(known)}; name "
            "some of them, each once, as in --devices 0,1"
        )
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    names = known if listed is None else [name.strip() for name in listed.split(",")]
    chosen = ",".join(names[int(text)] for text in wanted)
    return {**environ, "CUDA_VISIBLE_DEVICES": chosen}


def launch_of(
    arguments: list[str],
    ranks: int,
    run: Path,
    run_id: str,
    grace_s: float,
    environ: Mapping[str, str],
) -> Launch:
    """``lightwork`` with ``arguments`` on every rank."""
    return Launch(
        command=(sys.executable, "-m", "lightwork", *arguments),
        ranks=ranks,
        run_id=run_id,
        log_dir=run / LOGS,
        environment=environ,
        grace_s=grace_s,
    )


def start_ranks(launch: Launch) -> int:
    """Start the ranks and wait; returns the exit code."""
    return supervise(launch)
