"""A fit that a limit or Ctrl-C cut short is never compared, and everything that is told says so."""

import itertools
import json

import pytest

import xrisk
from tests.conftest import first_quick
from tests.study.test_rare_positives import quick, rare
from tests.study.test_worst_rows import noisy
from xrisk.datasets import make_spurious
from xrisk.objectives import RarePositives, WorstGroups, WorstRows
from xrisk.run import Stop
from xrisk.study import compare
from xrisk.study.comparison import fit_plan
from xrisk.tables import parts

pytest.importorskip("jinja2")
click = pytest.importorskip("click")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")

from click.testing import CliRunner  # noqa: E402

from xrisk.cli.app import app  # noqa: E402
from xrisk.objectives import rare_positives, worst_groups, worst_rows  # noqa: E402
from xrisk.report import render  # noqa: E402


def spurious():
    table = make_spurious(600, random_state=0)
    return parts(table.X, table.y, table.groups)


def positives():
    X, y = rare()
    return parts(X, y, y)


def losses():
    X, z, groups = noisy()
    return parts(X, z > 0, groups)


STUDIES = {
    "groups": (WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2)), spurious, worst_groups),
    "rankings": (RarePositives(quick()), positives, rare_positives),
    "tails": (WorstRows(xrisk.DROClassifier(radius=0.1)), losses, worst_rows),
}


def study_of(name):
    objective, rows, phrases = STUDIES[name]
    return compare(objective, *rows()), phrases


every_study = pytest.mark.parametrize("name", STUDIES)


@pytest.fixture
def cut(monkeypatch):
    """Make the fits at some places of a study end early, by a given reason."""

    def begin(places, stop=Stop.SECONDS):
        number = itertools.count()

        def fit(plan, model, train):
            found = fit_plan(plan, model, train)
            if next(number) in places:
                model.stop_ = stop
            return found

        monkeypatch.setattr("xrisk.study.comparison.fit_plan", fit)

    return begin


@every_study
@pytest.mark.parametrize(("place", "stop"), [(0, Stop.SECONDS), (1, Stop.INTERRUPTED), (2, Stop.ITERATIONS)])
def test_a_fit_that_was_cut_short_is_not_compared(cut, name, place, stop):
    cut({place}, stop)
    study, phrases = study_of(name)
    arm = study.arms[place]
    assert arm.name.endswith(" (not finished)")
    assert arm.key not in {key for each in study.verdict.differences for key in (each.key, each.other)}
    assert study.recommended is not arm
    said = phrases.verdict(study)
    assert said.startswith(f"Not compared, because the fit was cut short: {arm.name.split(' (')[0]}, {stop}. ")
    assert f"{arm.name} beats" not in said
    assert f"beats {arm.name}" not in said
    assert said in render(study).replace("&#39;", "'")
    assert not study.is_done
    assert [each["finished"] for each in study.to_dict()["models"]].index(False) == place


@every_study
@pytest.mark.parametrize("places", first_quick([{0, 1}, {0, 2}, {0, 1, 2}]))
def test_nothing_is_recommended_where_fewer_than_two_fits_finished(cut, name, places):
    cut(places)
    study, phrases = study_of(name)
    assert study.recommended is None
    assert study.verdict.differences == ()
    assert phrases.verdict(study).endswith("No model is recommended: fewer than two fits finished.")
    assert phrases.summary(study).endswith("No model is recommended: fewer than two fits finished.")
    assert "beats" not in phrases.verdict(study)
    assert phrases.verdict(study) in render(study)
    assert json.loads(json.dumps(study.to_dict(), allow_nan=False))["recommended"] is None


@pytest.mark.parametrize("name", ["groups", "tails"])
def test_nothing_is_said_against_a_plain_model_that_is_not_fitted(cut, name):
    cut({0})
    study, phrases = study_of(name)
    assert phrases.trade(study) == "Nothing can be compared with ERM (not finished)."


WORDS = {
    "group-dro": ("--groups", "g"),
    "dro": (),
    "two-way-partial-auc": ("--surrogate", "squared_hinge"),
}


@pytest.fixture
def table(tmp_path):
    X, y = rare(200, 0.3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(g=["u", "v"] * 100, y=y.astype(int))
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.parametrize("objective", WORDS)
@pytest.mark.parametrize("place", first_quick(range(3)))
def test_the_exit_code_is_three_whichever_fit_was_cut_short(cut, table, objective, place):
    cut({place})
    words = ["fit", str(table), "--target", "y", "--objective", objective, *WORDS[objective]]
    done = CliRunner().invoke(app, [*words, "--min-group-size", "5"] if objective != "two-way-partial-auc" else words)
    assert done.exit_code == 3, done.output
    assert "Not compared, because the fit was cut short:" in " ".join(done.stdout.split())


def test_where_nothing_is_recommended_the_model_that_was_asked_for_is_saved_and_named(cut, table):
    cut({0, 1, 2})
    model = table.with_name("m.xrisk")
    words = ["fit", str(table), "--target", "y", "--groups", "g", "--out", str(model)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "Robust (not finished)" in done.stdout.split("Model:")[1]
    assert xrisk.load(model).model.stop_ is Stop.SECONDS
