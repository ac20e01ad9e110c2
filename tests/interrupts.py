"""Programs that tests start must hear Ctrl-C, wherever the tests themselves run."""

from __future__ import annotations

import signal


def hear_interrupts() -> None:
    """Hear Ctrl-C even where the tests run in the background, whose programs ignore it: for `preexec_fn`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
