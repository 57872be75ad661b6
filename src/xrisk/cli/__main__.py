"""``python -m xrisk.cli`` is ``xrisk``."""

from xrisk.cli import main

main()
