"""Numbers in sentences."""


def counted(number: int, one: str, many: str) -> str:
    """A number and what it counts, in the grammatical number it asks for.

    Examples
    --------
    >>> from xrisk.phrases import counted
    >>> counted(1, "row has no group", "rows have no group")
    '1 row has no group'
    >>> counted(1200, "row", "rows")
    '1,200 rows'
    """
    return f"{number:,} {one if number == 1 else many}"
