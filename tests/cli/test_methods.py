"""The commands about methods: their table, and races on named problems and on tables."""

import json

import numpy as np
import pytest

click = pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from click.testing import CliRunner  # noqa: E402

from xrisk.cli.app import app  # noqa: E402
from xrisk.solvers.catalogue import CATALOGUE, as_markdown, rows  # noqa: E402


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def flat(text):
    return " ".join(text.split())


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "g": rng.choice(["x", "y", "z"], 200)})
    frame["y"] = np.where(frame.a + rng.normal(size=200) > 0, "yes", "no")
    frame["z"] = frame.a * 2.0 + rng.normal(size=200)
    frame["k"] = rng.choice(["one", "two", "three"], 200)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_methods_lists_every_method():
    done = run("methods")
    assert done.exit_code == 0, done.output
    assert all(name in done.output for name in CATALOGUE)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_table_of_methods_breaks_no_word(width):
    done = CliRunner().invoke(app, ["methods"], env={"COLUMNS": str(width)})
    assert max(len(line) for line in done.output.splitlines()) <= width
    known = {word for row in rows() for cell in row for word in cell.split()}
    body = done.output.split("─")[-1]
    assert set(body.split()) - known == set()
    assert len(body.splitlines()) <= 3 * len(CATALOGUE)


def test_methods_tells_all_about_one():
    done = run("methods", "sox")
    assert "uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑)" in done.output
    assert "source: as published" in done.output


def test_methods_says_which_apply_to_a_problem_and_why_others_do_not():
    assert "mirror must be Quadratic()" in flat(run("methods", "--problem", "groups-cvar").output)


def test_methods_prints_its_page_and_json():
    assert run("methods", "--markdown").output == as_markdown()
    told = json.loads(run("methods", "--json").stdout)
    assert [row["name"] for row in told] == list(CATALOGUE)


def test_an_unknown_method_or_problem_is_refused_in_a_sentence():
    done = run("methods", "adam")
    assert done.exit_code == 2
    assert "there is no method 'adam'; there are alexr" in flat(done.output)
    done = run("compare", "nothing")
    assert done.exit_code == 2
    assert "there is no problem 'nothing'; there are groups-cvar" in flat(done.output)


@pytest.mark.slow
def test_a_race_on_a_named_problem_is_told_written_and_drawn(tmp_path):
    out, picture = tmp_path / "race.json", tmp_path / "race.png"
    words = ["--methods", "alexr,alexr-conjugate", "--iterations", 30, "--seeds", 2, "--jobs", 1]
    done = run("compare", "groups-cvar", *words, "--out", out, "--picture", picture)
    assert done.exit_code == 0, done.output
    assert "20 blocks" in done.output
    assert "alexr-conjugate does not apply: mirror must be Quadratic()" in flat(done.output)
    told = json.loads(out.read_text())
    assert told["methods"][0]["runs"][1]["points"][-1]["iterations"] == 30
    assert picture.stat().st_size > 10_000


def test_a_narrow_terminal_shows_fewer_columns():
    words = ["compare", "groups-cvar", "--methods", "alexr", "--iterations", "5", "--seeds", "1", "--jobs", "1"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert "median gap" in done.output
    assert "highest" not in done.output


@pytest.mark.parametrize(("target", "methods"), [("y", "alexr,sox"), ("z", "alexr"), ("k", "alexr")])
def test_a_race_on_a_table_of_two_classes_of_numbers_and_of_three_classes(people, target, methods, plain):
    words = ["--target", target, "--groups", "g", "--methods", methods, "--iterations", 20, "--seeds", 1, "--jobs", 1]
    done = run("compare", people, *words, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["blocks"] == 3
    assert {entry["name"] for entry in told["methods"]} == set(methods.split(","))


def test_a_race_can_be_tuned_over_a_grid_of_ones_own():
    words = ["--methods", "alexr", "--iterations", 30, "--seeds", 1, "--jobs", 1]
    done = run("compare", "groups-cvar", *words, "--grid", "step=0.01,0.1", "--grid", "dual-step=0.1", "--json")
    told = json.loads(done.stdout)
    assert told["grid"] == {"step": [0.01, 0.1], "dual_step": [0.1]}
    assert told["methods"][0]["cells_tried"] == 3  # both, and what lies beyond the better one


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["people.csv"], "--target is needed"),
        (["groups-cvar", "--seeds", 0], "seeds must be different whole numbers"),
        (["groups-cvar", "--grid", "step=fast"], "must look like step=0.01,0.1"),
        (["groups-cvar", "--grid", "speed=1"], "grid must name fields"),
        (["groups-cvar", "--iterations", -1], "iterations must not be negative"),
        (["groups-cvar", "--jobs", 0], "jobs must be at least 1"),
        (["groups-cvar", "--out", "/nowhere/race.json"], "its folder does not exist"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(words, sentence):
    done = run("compare", *words)
    assert done.exit_code == 2
    assert sentence in flat(done.output)
    assert "Traceback" not in done.output
