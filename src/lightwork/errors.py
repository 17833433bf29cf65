"""The exception tree. Everything a person can mend is a LightworkError.

    LightworkError            shown as one message, without a traceback
    ├── SettingsError         a setting or an option that cannot be used          exit 2
    ├── DataError             a data file that cannot be read or does not fit     exit 2
    ├── LaunchError           processes, devices or addresses that do not fit     exit 2
    ├── RunError              a run folder that cannot be used for this run       exit 2
    ├── CheckpointError       nothing in the run can be loaded                    exit 2
    ├── StepError             a step failed on a rank; all ranks stop together    exit 1
    │   ├── NotFiniteError    its loss or gradient is no finite number             exit 1
    │   └── ExchangeError     gradients could not be sent; others wait for them    exit 1
    ├── VerifyError           what lightwork verify measured is not as promised   exit 1
    └── PeerLostError         another rank disappeared in the middle of a message exit 3

A message says what was given, what is allowed and what to do. The words ``joint`` and ``lonely``
decide who speaks when N ranks fail: a joint error happens on every rank alike, so only rank 0
shows it; a lonely one is shown by the rank it happened on.
``repeats``: a new attempt from the newest checkpoint would fail alike.
"""

from __future__ import annotations


class LightworkError(Exception):
    """Something a person can mend: ``str(error)`` is the whole message."""

    exit_code = 2
    joint = True
    repeats = True


class SettingsError(LightworkError):
    """One or more settings are wrong; the message lists all of them."""


class DataError(LightworkError):
    """A data file is missing, unreadable, or holds what cannot be trained on."""


class LaunchError(LightworkError):
    """The processes, devices or addresses that were asked for do not fit together."""


class RunError(LightworkError):
    """The run folder is in use, not writable, or belongs to another run."""


class CheckpointError(LightworkError):
    """No checkpoint verifies, or one does not fit the model."""


class StepError(LightworkError):
    """A step failed on at least one rank; every rank raises this together."""

    exit_code = 1
    repeats = False


class NotFiniteError(StepError):
    """A loss or a gradient is no finite number, as it would be again from the same state."""

    repeats = True


class ExchangeError(StepError):
    """This rank could not send its gradients, and cannot tell: the others wait for just that."""

    joint = False


class VerifyError(LightworkError):
    """A row of the table of ``lightwork verify`` failed; every rank raises this together."""

    exit_code = 1


class PeerLostError(LightworkError):
    """Another rank went away in the middle of a message; not this rank's own fault."""

    exit_code = 3
    joint = False
    repeats = False
