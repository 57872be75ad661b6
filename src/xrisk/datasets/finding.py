"""The files of the loaders, and downloads that give up after a while."""

import contextlib
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

SILENCE = 10.0  # seconds a server may keep silent


def find_file(name: str) -> Path | None:
    """The file ``name`` in the first folder that has it: $XRISK_DATA, then ../shared/data; None if neither has."""
    given = os.environ.get("XRISK_DATA")
    roots = [Path.cwd(), Path(__file__).resolve().parents[3]]
    folders = ([Path(given)] if given else []) + [root.parent / "shared" / "data" for root in roots]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def download(title: str, fetch: Callable[[], Any]) -> Any:
    """What ``fetch`` returns, or an error in one sentence that says where the data was looked for."""
    try:
        with impatient(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn about retries
            return fetch()
    except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
        raise OSError(
            f"{title} is neither in the folder named by XRISK_DATA nor in ../shared/data, and could not be "
            f"downloaded: {type(error).__name__}"
        ) from error


@contextlib.contextmanager
def impatient() -> Iterator[None]:
    """Connections opened inside wait for SILENCE seconds at most."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
