"""Tables from files, and an error in one sentence for each way in which a file can be wrong."""

import csv
import gzip
import io
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from xrisk.annotations import Frame
from xrisk.functions.parameters import counted

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
GAPS = ["?"]  # in addition to what pandas takes as missing


class Read(NamedTuple):
    """A table, and notes on reading it."""

    frame: Frame
    notes: tuple[str, ...]


def read_table(path: str) -> Read:
    """Read CSV (commas, semicolons, tabs or bars; also gzipped) or Parquet, by the ending of the name."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not Path(path).is_file():
        raise ValueError(f"{path} is not a file")
    if path.lower().endswith((".parquet", ".pq")):
        return _read_parquet(path)
    text = _text(path)
    names, delimiter, notes = _header(text, path)
    _refuse_ragged(text, delimiter, len(names), path)
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            names=names,
            header=0,
            index_col=False,
            na_values=GAPS,
            skipinitialspace=True,
            low_memory=False,
        )
    except (pd.errors.ParserError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as CSV: {_first_line(error)}") from error
    if frame.empty:
        raise ValueError(f"{path} has a header but no rows")
    return Read(frame, tuple(notes))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _read_parquet(path: str) -> Read:
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install xrisk[parquet]") from error
    except Exception as error:  # pyarrow has a class of its own for every way a file can be damaged
        raise ValueError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
    frame.columns = [str(name) for name in frame.columns]
    _refuse_repeated(list(frame.columns), path)
    if frame.empty:
        raise ValueError(f"{path} has no rows")
    return Read(frame.reset_index(drop=True), ())


def _text(path: str) -> str:
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if path.lower().endswith(".gz") else data
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise ValueError(f"{path} cannot be read: it is cut short") from error
    except zlib.error as error:
        raise ValueError(f"{path} cannot be read: it is damaged, gzip cannot unpack it") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = _unix(data[: error.start].decode("latin-1")).count("\n") + 1
        raise ValueError(f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}") from error
    if not text.strip():
        raise ValueError(f"{path} is empty")
    if "\0" in text:
        raise ValueError(f"{path} is not a text file: it holds zero bytes")
    return _unix(text)


def _unix(text: str) -> str:
    """Text whose lines end as Unix ends them; files from elsewhere end them by CR LF, very old ones by CR alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _header(text: str, path: str) -> tuple[list[str], str, list[str]]:
    """Names of the columns, the delimiter that gives the most columns, and notes."""
    headers = {delimiter: _fields(text, delimiter) for delimiter in DELIMITERS}
    delimiter = max(headers, key=lambda each: len(headers[each]))
    names = [name.strip() for name in headers[delimiter]]
    if not names:
        raise ValueError(f"{path} cannot be read as CSV: its first line is no list of names")
    notes = [] if delimiter == "," else [f"Columns are separated by a {DELIMITERS[delimiter]}."]
    blank = [k for k, name in enumerate(names) if not name]
    for k in blank:
        names[k] = f"column {k + 1}"
    if blank:
        notes.append(f"Column {blank[0] + 1} has no name; it is called {names[blank[0]]!r}.")
    _refuse_repeated(names, path)
    return names, delimiter, notes


def _fields(text: str, delimiter: str) -> list[str]:
    try:
        lines = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
        return next((fields for fields in lines if fields), [])
    except csv.Error:
        return []


def _refuse_repeated(names: list[str], path: str) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path} has {count} columns named {name!r}: give each a name of its own")


def _refuse_ragged(text: str, delimiter: str, width: int, path: str) -> None:
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for fields in lines:
            if fields and len(fields) != width:
                raise ValueError(
                    f"{path} is ragged: line {lines.line_num} has {counted(len(fields), 'field', 'fields')}, "
                    f"the header has {width}"
                )
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: line {lines.line_num}: {error}") from error
