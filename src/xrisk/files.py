"""Files that are written whole or not at all, and archives of JSON and arrays that are not trusted when read."""

import io
import json
import math
import os
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

ARRAY_KINDS = "biufcSUmM"  # of NumPy's: numbers, text and dates, never objects


class UnreadableError(ValueError):
    """A file that is damaged, hostile, too new, or no model at all."""


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` when it is complete.

    It is written next to ``path`` and moved there: a crash leaves the old file or the new one, never a part. A link is
    written through.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from xrisk.files import written_whole
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with written_whole(path) as file:
    ...     _ = file.write(b"1 2 3")
    >>> path.read_text()
    '1 2 3'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"path must be a file, {path} is a directory")
    if target.exists() and not target.is_file():
        raise ValueError(f"path must be a file, {path} is a device or a pipe")
    scratch = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with _opened(scratch, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _opened(scratch: Path, path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open(scratch, "xb")
    except OSError as error:  # name the requested file, not the scratch file
        raise type(error)(error.errno, f"{path} cannot be written: {error.strerror}") from error


def refuse(sentence: str) -> NoReturn:
    """Say what is wrong with a file."""
    raise UnreadableError(sentence)


def write_archive(path: str | os.PathLike[str], header: bytes, arrays: Mapping[str, np.ndarray]) -> None:
    """Write ``header.json`` and each array as ``name.npy`` in a zip archive of stored members."""
    with written_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json"), header)  # of no date: the same model is the same file
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def read_members(content: bytes) -> dict[str, bytes]:
    """The members of an archive; stored ones only, which together are no larger than the file."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        refuse("it is cut short, or nothing that xrisk wrote")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        if len({info.filename for info in infos}) < len(infos):
            refuse("two of its members have one name")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                refuse(f"its member {info.filename!r} is compressed, which xrisk never does")
        if sum(info.file_size for info in infos) > len(content):
            refuse("its members claim to be larger than the file")
        return {info.filename: archive.read(info) for info in infos}


def read_array(data: bytes) -> np.ndarray:
    """An array of NumPy's format 1.0, its shape checked against the bytes there are before anything is allocated."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        refuse("one of its arrays is not of NumPy's format 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.kind not in ARRAY_KINDS or dtype.itemsize == 0:
        refuse(f"one of its arrays has the type {dtype}, which xrisk never writes")
    start = stream.seek(0, os.SEEK_CUR)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - start:
        refuse("the shape of one of its arrays does not go with its size")
    flat = np.frombuffer(data, dtype=np.uint8, offset=start).copy().view(dtype)
    if dtype.kind == "b" and (flat.view(np.uint8) > 1).any():
        refuse("one of its arrays of truth values holds something else")
    if dtype.kind == "U" and (flat.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder)) > 0x10FFFF).any():
        refuse("one of its arrays of text holds something that is no text")
    return flat.reshape(shape, order="F" if fortran else "C")


def read_json(data: bytes) -> Any:
    """Strict JSON: no name twice in an object, no NaN and no infinity."""
    return json.loads(data, object_pairs_hook=_no_repeats, parse_constant=_no_constant)


def _no_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    if len({name for name, _ in pairs}) < len(pairs):
        refuse("its header names something twice")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    refuse(f"its header holds {name}, which is not JSON")
