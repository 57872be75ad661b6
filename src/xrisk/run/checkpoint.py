"""A run on disk: arrays and JSON in one file, written atomically, no code inside."""

import hashlib
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xrisk.files import written_whole
from xrisk.run.budget import Progress
from xrisk.run.observers import TracePoint

FORMAT = "xrisk run 1"


class Saved(NamedTuple):
    """What a checkpoint holds."""

    state: dict[str, np.ndarray]
    rng: np.random.Generator
    progress: Progress
    points: list[TracePoint]
    best: tuple[float, np.ndarray, np.ndarray]  # value, variable, duals


class Checkpoint:
    """Where and how often to save a run; `xrisk.resume` continues it bit for bit.

    Parameters
    ----------
    path : str or Path
        The file; an older one there is replaced at the first save.
    every : float
        Seconds between saves. The end of a run is saved in any case.
    """

    def __init__(self, path: str | Path, *, every: float = 30.0) -> None:
        if not every >= 0:
            raise ValueError(f"every must not be negative, got {every}")
        self.path, self._every, self._last = Path(path), every, time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self._every

    def save(self, saved: Saved, fingerprint: str) -> None:
        """Write the file so that a crash leaves the old one or the new one, never a part."""
        value, x, dual = saved.best
        header = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "rng": _plain(saved.rng.bit_generator.state),
            "progress": vars(saved.progress),
            "points": [list(point) for point in saved.points],
            "best": value,
        }
        arrays = {f"state.{name}": np.asarray(array) for name, array in saved.state.items()}
        with written_whole(self.path) as file:
            np.savez(file, header=np.array(json.dumps(header)), best_x=x, best_dual=dual, **arrays)  # type: ignore[arg-type]
        self._last = time.monotonic()


def load_run(path: str | Path, fingerprint: str) -> Saved:
    """Read a checkpoint of the run with this fingerprint."""
    try:
        # opened here: numpy leaves a damaged file open
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"path must be a checkpoint, {path} is damaged or something else") from error
    if header.get("format") != FORMAT:
        raise ValueError(f"path must be a checkpoint of the form {FORMAT!r}, got {header.get('format')!r}")
    if header["fingerprint"] != fingerprint:
        raise ValueError(f"problem and solver must be those of the checkpoint {path}, they differ")
    return Saved(
        state={name.removeprefix("state."): a for name, a in arrays.items() if name.startswith("state.")},
        rng=_generator(header["rng"]),
        progress=Progress(**header["progress"]),
        points=[TracePoint(*point) for point in header["points"]],
        best=(float(header["best"]), arrays["best_x"], arrays["best_dual"]),
    )


def leaves(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays and numbers of a state by their dotted names; a state may hold further states."""
    found: dict[str, np.ndarray] = {}
    for name, field in zip(state._fields, state, strict=True):
        found |= leaves(field, f"{prefix}{name}.") if isinstance(field, tuple) else {prefix + name: np.asarray(field)}
    return found


def with_leaves(blank: Any, found: dict[str, np.ndarray], prefix: str = "") -> Any:
    """A state like ``blank`` with the saved arrays and numbers in their places."""
    fields = {}
    for name, field in zip(blank._fields, blank, strict=True):
        if isinstance(field, tuple):
            fields[name] = with_leaves(field, found, f"{prefix}{name}.")
        else:
            leaf = found[prefix + name]
            fields[name] = leaf if isinstance(field, np.ndarray) else type(field)(leaf)
    return blank._replace(**fields)


def fingerprint(*specs: Any) -> str:
    """Digest of specs: their types and numbers, and of long arrays the shape and an even sample."""
    digest = hashlib.sha256()
    for mark in _marks(specs):
        digest.update(mark)
    return digest.hexdigest()


def _marks(value: Any) -> Iterator[bytes]:
    """What tells a value from others, tuples entry by entry."""
    if isinstance(value, tuple):
        yield f"{type(value).__name__}{len(value)}".encode()
        for entry in value:
            yield from _marks(entry)
    elif isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(flat[:: max(1, flat.size // 65536)]).tobytes()
    elif callable(value):
        yield getattr(value, "__qualname__", type(value).__name__).encode()
    else:
        yield repr(value).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return value.item() if isinstance(value, np.generic) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=value["dtype"])
    return {key: _arrays(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _generator(state: dict) -> np.random.Generator:
    known: tuple[Any, ...] = (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    )
    kinds = {kind.__name__: kind for kind in known}
    if state["bit_generator"] not in kinds:
        raise ValueError(f"the checkpoint's random generator is unknown: {state['bit_generator']}")
    bits = kinds[state["bit_generator"]]()
    bits.state = _arrays(state)
    return np.random.Generator(bits)
