"""Hostile command lines: nothing is lost, nothing ends in a traceback, and every refusal is one sentence."""

import io
import json
import os
import sys

import numpy as np
import pytest

import xrisk

click = pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from click.testing import CliRunner  # noqa: E402

from xrisk.cli import main  # noqa: E402
from xrisk.cli.app import app  # noqa: E402

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
    refused(done, f"{option} must not be a file that is read, it would overwrite mine.csv")
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


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
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
    assert "Recommended is the simplest" in told
    assert "Report: ?.html" in told
    assert xrisk.load("m.xrisk").encoding.target == "y"


@pytest.mark.parametrize("objective", OBJECTIVES)
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
