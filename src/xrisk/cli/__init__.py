"""The command ``xrisk``; needs the packages of the extra ``cli``."""

import io
import sys

EXTRA = ("click", "rich", "pandas", "jinja2")


def main() -> None:
    """Run the command line; without its packages, say in one sentence how to get them."""
    try:
        for name in EXTRA:
            __import__(name)
    except ImportError as error:
        sys.stderr.write(f"The command line needs {error.name}: pip install 'xrisk[cli]'\n")
        sys.exit(2)
    from xrisk.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without α shows a question mark, and the rest
    app()
