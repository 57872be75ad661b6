"""A run on disk: arrays and JSON in one file, written atomically; the file has no code, and all it holds is checked."""

import json
import math
import numbers
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, State
from xrisk.files import read_array, read_json, read_members, refuse, write_archive
from xrisk.run.budget import Progress
from xrisk.run.fingerprint import fingerprint
from xrisk.run.observers import TracePoint
from xrisk.solvers.base import check_state, like_state

KIND = "xrisk run"
FORMAT = f"{KIND} 2"
MOST = 2**53  # that a count can be
GENERATORS: tuple[Any, ...] = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.MT19937,
    np.random.Philox,
    np.random.SFC64,
)
PLACES = {"MT19937": ("pos", 624), "Philox": ("buffer_pos", 4)}  # indices that NumPy does not check


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
        The file; an older checkpoint there is replaced at the first save, any other file is refused.
    every : float
        Seconds between saves. The end of a run is saved in any case.
    """

    def __init__(self, path: str | Path, *, every: float = 30.0) -> None:
        given: Any = every
        if not (isinstance(given, numbers.Real) and float(given) >= 0):
            raise ValueError(f"every must be a number of seconds, not negative, got {every!r}")
        self.path, self._every, self._last = Path(path), every, time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self._every

    def save(self, saved: Saved, run: str) -> None:
        """Write the file so that a crash leaves the old one or the new one, never a part; ``run`` is a fingerprint."""
        self._last = time.monotonic()  # also after a failure: a full disk is tried again later
        value, x, dual = saved.best
        arrays = {f"state.{name}": np.asarray(array) for name, array in saved.state.items()}
        arrays |= {"best.value": np.array(value, dtype=float), "best.x": x, "best.dual": dual}
        for name, kind in POINTS.items():
            arrays[f"points.{name}"] = np.array([getattr(point, name) for point in saved.points], dtype=kind)
        header = {
            "format": FORMAT,
            "fingerprint": run,
            "rng": _plain(saved.rng.bit_generator.state),
            "progress": vars(saved.progress),
        }
        arrays = {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()}
        header["checksum"] = _checksum(header, arrays)
        write_archive(self.path, json.dumps(header, allow_nan=False).encode(), arrays)
        self._last = time.monotonic()

    def check(self) -> None:
        """Refuse a place where no file can be, and a file that is no checkpoint, before the run begins."""
        folder = self.path.absolute().parent
        if not folder.is_dir():
            raise FileNotFoundError(f"path must be a file in a folder that exists, {folder} does not")
        if self.path.exists() and not _is_checkpoint(self.path):
            raise ValueError(f"path must be a new file or an older checkpoint, {self.path} is something else")


def _is_checkpoint(path: Path) -> bool:
    """Whether the file that would be replaced is an older checkpoint or empty."""
    if not path.is_file():
        return False
    if not path.stat().st_size:
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return str(read_json(archive.read("header.json"))["format"]).startswith(KIND)
    except Exception:  # a foreign file may raise anything
        return False


POINTS = dict(zip(TracePoint._fields, (np.int64, np.int64, float, float, float, str, float), strict=True))


def load_run(path: str | Path, run: str) -> Saved:
    """Read a checkpoint of the run with this fingerprint, and check that it is complete and has the right types."""
    content = Path(path).read_bytes()
    with damaged(path):
        members = read_members(content)
        header = read_json(members.pop("header.json"))
        if header["format"] != FORMAT:
            refuse(f"its form is {header['format']!r}, not {FORMAT!r}")
        arrays = {name.removesuffix(".npy"): read_array(data) for name, data in members.items()}
        if header.pop("checksum") != _checksum(header, arrays):
            refuse("its checksum is not that of its content")
    if header["fingerprint"] != run:
        raise ValueError(f"problem and solver must be those of the checkpoint {path}, they differ")
    with damaged(path):
        return Saved(
            state={name.removeprefix("state."): a for name, a in arrays.items() if name.startswith("state.")},
            rng=_generator(header["rng"]),
            progress=_progress(header["progress"]),
            points=_points({name: arrays[f"points.{name}"] for name in POINTS}),
            best=(float(arrays["best.value"]), arrays["best.x"], arrays["best.dual"]),
        )


def restored(solver: Solver, task: Any, blank: State, saved: Saved) -> Any:
    """The saved state, if it can be one of this run: kernels do not check what they read."""
    like = like_state(solver, task, blank, with_leaves(blank, saved.state))
    check_like(like, saved.state)
    state = with_leaves(like, saved.state)
    check_state(solver, state)
    _, x, dual = saved.best
    for name, found, known in (("x", x, solver.solution(blank)), ("dual", dual, solver.dual(task, blank))):
        if (found.dtype, found.shape) != (known.dtype, known.shape):
            refuse(f"{name} of its best point must be of shape {known.shape}, got {found.shape}")
    return state


@contextmanager
def damaged(path: str | Path) -> Iterator[None]:
    """Report every failure inside as a damaged checkpoint."""
    try:
        yield
    except Exception as error:  # foreign bytes may raise anything
        why = f": {error}" if isinstance(error, ValueError) and "\n" not in str(error) else ""
        raise ValueError(f"path must be a checkpoint, {path} is damaged or something else{why}") from error


def leaves(state: State, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays and numbers of a state by their dotted names; a state may hold further states."""
    found: dict[str, np.ndarray] = {}
    for name, field in zip(state._fields, state, strict=True):
        found |= leaves(field, f"{prefix}{name}.") if isinstance(field, tuple) else {prefix + name: np.asarray(field)}
    return found


def with_leaves(blank: State, found: dict[str, np.ndarray], prefix: str = "") -> Any:
    """A state like ``blank`` with the saved arrays and numbers in their places."""
    fields = {}
    for name, field in zip(blank._fields, blank, strict=True):
        if isinstance(field, tuple):
            fields[name] = with_leaves(field, found, f"{prefix}{name}.")
        else:
            leaf = found[prefix + name]
            fields[name] = leaf if isinstance(field, np.ndarray) else type(field)(leaf)
    return blank._replace(**fields)


def check_like(blank: State, found: dict[str, np.ndarray]) -> None:
    """Refuse what cannot be the arrays and numbers of a state like ``blank``: kernels do not check what they read."""
    wanted = leaves(blank)
    if wanted.keys() != found.keys():
        refuse(f"its state has not the parts {', '.join(wanted)}")
    for name, leaf in found.items():
        like = wanted[name]
        if (leaf.dtype, leaf.shape) != (like.dtype, like.shape):
            refuse(f"{name} must be {like.dtype} of shape {like.shape}, got {leaf.dtype} of shape {leaf.shape}")
        if leaf.dtype.kind == "i" and not leaf.ndim and not 0 <= leaf <= MOST:
            refuse(f"{name} must be a count, got {leaf}")
        parent = name[: name.rfind(".") + 1]
        check = CHECKS.get(name.removeprefix(parent))
        if check is not None:
            check(name, leaf, {each.removeprefix(parent): a for each, a in found.items() if each.startswith(parent)})


Siblings = dict[str, np.ndarray]  # leaves of the same part of a state


def _check_order(name: str, order: np.ndarray, siblings: Siblings) -> None:
    if not np.array_equal(np.sort(order), np.arange(order.size)):
        refuse(f"{name} must be a permutation of 0, …, {order.size - 1}")


def _check_touched(name: str, touched: np.ndarray, siblings: Siblings) -> None:
    if not ((touched >= -2) & (touched <= MOST)).all():
        refuse(f"{name} must hold iterations, from -2 on")


def _check_filled(name: str, filled: np.ndarray, siblings: Siblings) -> None:
    """Refuse more cuts than the arrays hold, and cuts without finite squares."""
    most = len(siblings["offsets"])
    if not min(1, most) <= filled <= most:
        refuse(f"{name} must lie between {min(1, most)} and {most}, got {filled}")
    for each in ("slopes", "offsets", "slacks", "spreads"):
        _check_size(f"{name.removesuffix('filled')}{each}", siblings[each][: int(filled)], siblings)


def _check_size(name: str, values: np.ndarray, siblings: Siblings) -> None:
    if not (np.abs(values) < LARGEST).all():
        refuse(f"{name} must hold numbers below {LARGEST:g} in size")


def _check_kept(name: str, kept: np.ndarray, siblings: Siblings) -> None:
    """Refuse steps in a memory along which the slope has not grown."""
    count = min(int(kept), len(siblings["steps"]))
    if not (np.einsum("ij,ij->i", siblings["steps"], siblings["changes"])[:count] > 0.0).all():
        refuse(f"{name} must count steps along which the slope grows, got {kept}")


LARGEST = 1e150
CHECKS: dict[str, Callable[[str, np.ndarray, Siblings], None]] = {
    "order": _check_order,
    "touched": _check_touched,
    "filled": _check_filled,
    "share": _check_size,
    "kept": _check_kept,
}


def _checksum(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    return fingerprint(json.dumps(header, sort_keys=True), arrays)


def _progress(found: dict[str, Any]) -> Progress:
    progress = Progress(**found)
    for name, kind in Progress.__annotations__.items():
        value = getattr(progress, name)
        if type(value) is not kind or not (math.isfinite(value) and 0 <= value <= MOST):
            refuse(f"its {name} must be a non-negative number, got {value!r}")
    return progress


def _points(columns: dict[str, np.ndarray]) -> list[TracePoint]:
    for name, kind in POINTS.items():
        column = columns[name]
        if column.ndim != 1 or column.dtype.kind != np.dtype(kind).kind:
            refuse(f"{name} of its trace must be {np.dtype(kind)}, got {column.dtype} of shape {column.shape}")
    if (np.diff(columns["iterations"]) <= 0).any():
        refuse("iterations of its trace must grow")
    return [TracePoint(*point) for point in zip(*(columns[name].tolist() for name in POINTS), strict=True)]


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
    kinds = {kind.__name__: kind for kind in GENERATORS}
    name = state["bit_generator"]
    if name not in kinds:
        refuse(f"its random generator is unknown: {name}")
    bits, found = kinds[name](), _arrays(state)
    place, most = PLACES.get(name, ("", 0))
    if not _is_like(bits.state, found) or {**found, **found["state"]}.get(place, 0) > most:
        refuse(f"its random generator has no state of a {name}")
    bits.state = found
    return np.random.Generator(bits)


def _is_like(known: Any, found: Any) -> bool:
    """Whether a state of a generator has the parts of another: NumPy reads beyond arrays that are too short."""
    if isinstance(known, dict):
        return (
            isinstance(found, dict)
            and known.keys() == found.keys()
            and all(_is_like(known[k], found[k]) for k in known)
        )
    if isinstance(known, np.ndarray):
        return isinstance(found, np.ndarray) and (known.dtype, known.shape) == (found.dtype, found.shape)
    return type(known) is type(found) and (known == found if isinstance(known, str) else found >= 0)
