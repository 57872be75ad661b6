"""Run the Python blocks of a page of Markdown one after the other, as one script; print what went wrong in each.

python tests/repository/run_blocks.py PAGE [MORE CODE], in a folder for the files that the blocks write
"""

import contextlib
import io
import json
import re
import sys
import traceback
from pathlib import Path


def blocks(page: Path) -> dict[int, str]:
    """The Python blocks of a page by the number of their first line."""
    text = page.read_text()
    found = re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    return {text[: block.start(1)].count("\n") + 1: block[1] for block in found}


def complaint(name: str, code: str) -> str | None:
    """The traceback that running ``code`` ends in."""
    try:
        exec(compile(code, name, "exec"), vars(sys.modules["__main__"]))
    except Exception:
        return traceback.format_exc()
    return None


def main(page: Path, more: list[str]) -> None:
    """Print a list of complaints, or nulls, in JSON."""
    codes = {**blocks(page), **dict(enumerate(more, start=100_000))}
    with contextlib.redirect_stdout(io.StringIO()):
        complaints = [complaint(f"{page.name}, after line {line}", code) for line, code in codes.items()]
    sys.stdout.write(json.dumps(complaints))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
