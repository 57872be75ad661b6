"""What docs/benchmarks.md and docs/rates.md say of the measured exponents."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
AGAIN = ("over the theorem's logarithm", "in stages")  # the same exponent, measured in another way


def verdicts():
    """(exponent, within 15 %) of every row of the table that is no second measurement."""
    lines = (ROOT / "docs" / "rates.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and " ± " in line]
    return [(row[0], row[1], row[4]) for row in rows if not any(words in row[1] for words in AGAIN)]


def test_the_count_of_exponents_is_that_of_the_table():
    found = verdicts()
    within = sum(verdict == "yes" for _, _, verdict in found)
    assert f"{within} of {len(found)} exponents" in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
