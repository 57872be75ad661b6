"""Hostile command lines: nothing is lost, nothing ends in a traceback, and every refusal is one sentence."""

import gzip
import io
import json
import os
import sys
from decimal import Decimal

import numpy as np
import pytest

import xrisk
from tests.conftest import first_quick

click = pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from click.testing import CliRunner  # noqa: E402

from xrisk.cli import main  # noqa: E402
from xrisk.cli.app import app  # noqa: E402
from xrisk.tables.prepare import TableOptions, prepare  # noqa: E402
from xrisk.tables.read import Read  # noqa: E402

OBJECTIVES = ("group-dro", "dro", "two-way-partial-auc")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def text(n=80):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.3f},{rng.normal():.3f},{'uv'[k % 2]},{k % 3 % 2}" for k in range(n)]
    return "\n".join(["a,b,g,y", *rows]) + "\n"


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(text())
    (tmp_path / "link.csv").symlink_to("mine.csv")
    os.link(tmp_path / "mine.csv", tmp_path / "hard.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "new").symlink_to("m.xrisk")  # leads to what is not there yet
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    return tmp_path / "mine.csv"


def refused(done, *said):
    """One sentence and exit code two."""
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    told = done.stderr.strip().splitlines()[-1]
    assert all(each in told for each in said), told
    return told


INPUTS = ["mine.csv", "./mine.csv", "folder/../mine.csv", "link.csv", "hard.csv"]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("option", ["--out", "--report"])
@pytest.mark.parametrize("path", INPUTS)
def test_the_table_is_never_overwritten(table, objective, option, path):
    done = run("fit", "mine.csv", "--target", "y", "--objective", objective, option, path)
    refused(done, f"{option} must not be an input, it would overwrite mine.csv")
    assert table.read_text() == text()


@pytest.mark.parametrize("option", ["--out", "--picture"])
@pytest.mark.parametrize("path", INPUTS)
def test_a_race_does_not_overwrite_its_table(table, option, path):
    refused(run("compare", "mine.csv", "--target", "y", option, path), "it would overwrite mine.csv")
    assert table.read_text() == text()


@pytest.mark.parametrize(
    ("out", "page"),
    [("m.xrisk", "m.xrisk"), ("m.xrisk", "./m.xrisk"), ("m.xrisk", "new"), ("new", "m.xrisk"), ("m.xrisk", "M.xrisk")],
)
def test_two_outputs_are_two_files(table, out, page):
    refused(run("fit", "mine.csv", "--target", "y", "--out", out, "--report", page), "--out and --report must be two")
    refused(run("compare", "groups-cvar", "--out", out, "--picture", page), "--out and --picture must be two files")
    assert not (table.parent / "m.xrisk").exists()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("one", "one cannot be written: it is a link that leads nowhere"),
        ("one/m", "one/m cannot be written"),
        ("folder", "folder"),
        ("none/m", "none/m cannot be written: its folder does not exist"),
        ("mine.csv/m", "mine.csv/m cannot be written: its folder does not exist"),
        ("", ""),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(table, path, said):
    for words in (
        ("fit", "mine.csv", "--target", "y", "--out"),
        ("demo", "--report"),
        ("compare", "groups-cvar", "--out"),
    ):
        refused(run(*words, path), said)


def test_the_name_of_a_picture_is_checked_before_the_race(table):
    pytest.importorskip("matplotlib")
    refused(run("compare", "groups-cvar", "--picture", "race.xyz"), "must end in .png, .svg or .pdf, got race.xyz")


@pytest.mark.parametrize("encoding", first_quick(["latin-1", "ascii", "cp1252"]))
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_verdict_is_printed_whatever_the_terminal_can_show(table, monkeypatch, encoding, objective):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    words = ["fit", "mine.csv", "--target", "y", "--objective", objective, "--out", "m.xrisk", "--report", "α.html"]
    monkeypatch.setattr(sys, "argv", ["xrisk", *words])
    with pytest.raises(SystemExit) as done:
        main()
    stream.flush()
    told = " ".join(stream.buffer.getvalue().decode(encoding).split())
    assert done.value.code == 0
    assert "We recommend the simplest model" in told
    assert "Report: ?.html" in told
    assert xrisk.load("m.xrisk").encoding.target == "y"


@pytest.mark.parametrize("objective", first_quick(OBJECTIVES))
def test_names_that_are_no_text_reach_the_page(table, objective):
    name = os.fsdecode(b"t\xff.csv")
    try:
        os.rename("mine.csv", name)
    except (OSError, UnicodeError) as error:
        pytest.skip(f"this file system has no such names: {error}")
    page = os.fsdecode(b"p\xff.html")
    done = run("fit", name, "--target", "y", "--objective", objective, "--report", page, "--out", "m.xrisk")
    assert done.exit_code == 0, done.output
    with open(page, encoding="utf-8") as file:
        assert "t?.csv" in file.read()
    assert run("evaluate", "m.xrisk", name).exit_code == 0


def test_json_for_machines_has_names_that_are_no_text(table):
    page = os.fsdecode(b"p\xff.html")
    done = run("fit", "mine.csv", "--target", "y", "--report", page, "--json")
    assert json.loads(done.stdout)["report"] == page


def packed(rows, flip=None, keep=None):
    content = bytearray(gzip.compress(rows.encode(), mtime=0))
    if flip is not None:
        content[flip] ^= 0xA5
    return bytes(content[:keep])


FILES = {
    "empty.csv": ("", "is empty"),
    "blank.csv": ("\n \n", "is empty"),
    "header.csv": ("a,b,g,y\n", "has a header but no rows"),
    "one.csv": ("a,b,g,y\n1,2,u,1\n", "at least 10 are needed"),
    "class.csv": (text().replace(",1\n", ",0\n"), "class"),
    "nothing.csv": ("a,y\n" + "1,\n" * 40, "has no values"),
    "twice.csv": (text().replace("a,b", "a,a", 1), "2 columns named 'a'"),
    "ragged.csv": (text() + "1,2\n", "is ragged"),
    "zero.csv": (text().replace("u", "\0", 1), "holds zero bytes"),
    "quote.csv": (text().replace("u", '"u', 1), "cannot be read as CSV"),
    "wide.csv": (text().encode("utf-16"), "is not UTF-8 text"),
    "cut.csv.gz": (packed(text(), keep=-20), "is cut short"),
    "flipped.csv.gz": (packed(text(), flip=33), "cannot be read"),
    "changed.csv.gz": (packed(text(), flip=-6), "cannot be read"),
    "plain.csv.gz": (text(), "cannot be read"),
    "none.csv.gz": (b"", "is empty"),
    "no.parquet": ("PAR1", "no.parquet"),
    "constant.csv": ("a,y\n" + "1,0\n1,1\n" * 20, "no column"),
    "folder": (None, "is not a file"),
    "none.csv": (None, "does not exist"),
    "one": (None, "one"),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", FILES)
def test_a_bad_table_gets_one_sentence(table, name, objective):
    content, said = FILES[name]
    if content is not None:
        (table.parent / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(run("fit", name, "--target", "y", "--objective", objective), said)


BAD = ("nan", "inf", "-1", "abc", "", "1,2", "１e")
NUMBERS = {
    "group-dro": (
        "alpha",
        "lam",
        "l1",
        "l2",
        "validation",
        "test",
        "tol",
        "max-seconds",
        "bins",
        "seed",
        "min-group-size",
    ),
    "dro": ("radius", "strength", "outlier-fraction"),
    "two-way-partial-auc": ("min-tpr", "max-fpr"),
}
LINES = [(objective, name, value) for objective, names in NUMBERS.items() for name in names for value in BAD]
ODD = {("lam", "inf"), ("l2", "1,2"), ("max-seconds", "inf")}  # refused or not by others; never a traceback


@pytest.mark.parametrize(("objective", "name", "value"), LINES, ids=lambda each: str(each))
def test_a_bad_number_gets_one_sentence(table, objective, name, value):
    divergence = ("--divergence", "kl") if name == "lam" else ()
    done = run("fit", "mine.csv", "--target", "y", "--objective", objective, *divergence, f"--{name}", value)
    assert isinstance(done.exception, SystemExit | None)
    assert done.exit_code in ((0, 2) if (name, value) in ODD else (2,)), done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "z"), "there is no column 'z'"),
        (("--target", "y", "--groups", "z"), "there is no column 'z'"),
        (("--target", "y", "--drop", "a,b,g"), "no column"),
        (("--target", "y", "--loss", "squared"), "loss must be one of"),
        (("--target", "y", "--metric", "neg_mean_squared_error"), "metric"),
        (("--target", "y", "--objective", "dro", "--ambiguity", "chi2", "--strength", "0"), "strength"),
        (("--target", "y", "--objective", "dro", "--groups", "g", "--radius", "0"), "radius"),
        (("--target", "y", "--objective", "partial-auc", "--positive", "z"), "--positive must be one of"),
        (("--target", "y", "--validation", "0.9", "--test", "0.9"), "validation"),
    ],
)
def test_options_that_do_not_go_with_the_table_get_one_sentence(table, words, said):
    refused(run("fit", "mine.csv", *words), said)


def test_whole_numbers_of_any_length_are_read(table):
    table.write_text("a,b,y\n" + "".join(f"{k}{'0' * 400},{k % 7},{k % 2}\n" for k in range(80)))
    assert run("fit", "mine.csv", "--target", "y").exit_code == 0


def test_a_price_that_is_almost_nothing_is_no_traceback(table):
    words = ("--objective", "dro", "--ambiguity", "chi2", "--strength", "1e-300")
    assert run("fit", "mine.csv", "--target", "y", *words).exit_code in (0, 2, 3)


def test_numbers_that_cannot_be_computed_with_are_told_in_a_sentence(table, monkeypatch):
    def divide(*given, **options):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("xrisk.cli.app.compare", divide)
    refused(run("fit", "mine.csv", "--target", "y"), "too large or too small to compute with")


def test_all_about_one_method_for_machines_is_about_one():
    told = json.loads(run("methods", "sox", "--json").stdout)
    assert told["name"] == "sox"
    refused(run("methods", "nobody", "--json"), "there is no method 'nobody'")


@pytest.mark.parametrize("objective", OBJECTIVES[1:])
def test_a_table_without_a_known_class_is_refused_by_evaluate(table, objective):
    run("fit", "mine.csv", "--target", "y", "--objective", objective, "--out", "m.xrisk")
    pd.read_csv("mine.csv").assign(y="other").to_csv("others.csv", index=False)
    refused(run("evaluate", "m.xrisk", "others.csv"), "others.csv: no row is of a class that m.xrisk knows")


def prepared(frame):
    return prepare(Read(frame, ()), TableOptions("y", ("g",)), "t.parquet", validation=0.25, test=None, seed=0)


def test_decimals_are_numbers(table):
    frame = pd.read_csv("mine.csv")
    exact = frame.assign(a=[Decimal(str(value)) for value in frame["a"]])
    np.testing.assert_array_equal(prepared(exact).train.X, prepared(frame).train.X)


@pytest.mark.parametrize("value", [[1, 2], (1,), {"u": 1}, {1}, np.arange(2)], ids=lambda each: type(each).__name__)
def test_columns_of_lists_are_refused(table, value):
    frame = pd.read_csv("mine.csv")
    frame["z"] = pd.Series([value] * len(frame), dtype=object)
    with pytest.raises(ValueError, match="column 'z' must hold one value in each row, it holds a"):
        prepared(frame)


def test_decimals_and_lists_of_parquet(table):
    pytest.importorskip("pyarrow")
    frame = pd.read_csv("mine.csv")
    frame.assign(a=[Decimal(str(value)) for value in frame["a"]]).to_parquet("t.parquet")
    assert run("fit", "t.parquet", "--target", "y").exit_code == 0
    frame.assign(z=[[1, 2]] * len(frame)).to_parquet("t.parquet")
    refused(run("fit", "t.parquet", "--target", "y"), "column 'z' must hold one value in each row")


def test_a_model_refuses_what_is_no_table_and_a_column_that_is_there_twice(table):
    run("fit", "mine.csv", "--target", "y", "--out", "m.xrisk")
    model, frame = xrisk.load("m.xrisk"), pd.read_csv("mine.csv")
    with pytest.raises(ValueError, match="there are 2 columns named 'a'"):
        model.predict(pd.concat([frame, frame[["a"]]], axis=1))
    for thing in (3, None, frame.to_numpy()):
        with pytest.raises(TypeError, match="a table must be a DataFrame or a dict of columns, got a"):
            model.predict(thing)
