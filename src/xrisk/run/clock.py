"""Time and Ctrl-C, as a run sees them."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from xrisk.annotations import Frame
from xrisk.compile import compiling


def now() -> float:
    """Seconds of a clock that stops while kernels are compiled, which happens once per kind of problem."""
    return time.perf_counter() - compiling.seconds()


@contextlib.contextmanager
def ctrl_c() -> Iterator[list[bool]]:
    """A list that Ctrl-C appends to, so that no iteration is cut in two; a second Ctrl-C raises."""
    pressed: list[bool] = []

    def note(number: int, frame: Frame) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
