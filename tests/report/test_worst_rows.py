"""The page about a study of tails."""

import itertools
import json
import re

import numpy as np
import pytest

import xrisk
from tests.report.test_report import PERFECT, data_of, perfect, screen, tags_of
from xrisk.objectives import WorstRows
from xrisk.objectives.worst_rows import objective, proofs, summary, trade, verdict, weight_of_few
from xrisk.report import render, tails, write_report
from xrisk.report.numbers import rounded
from xrisk.report.tails import worst_names
from xrisk.study import Difference, compare
from xrisk.tables import parts

pytest.importorskip("jinja2")

NASTY = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    return X, X[:, 0] + X[:, 1] + rng.standard_normal(600)


@pytest.fixture(scope="module")
def study(table):
    X, z = table
    rows = parts(X, np.where(z > 0, "yes", NASTY), np.where(X[:, 2] > 0, NASTY, "plain"))
    names = {"title": f"About {NASTY}", "notes": (f"Note {NASTY}",)}
    return compare(WorstRows(xrisk.DROClassifier(radius=0.1, random_state=0)), *rows, **names)


@pytest.fixture(scope="module")
def regression(table):
    X, z = table
    model = xrisk.DRORegressor("cvar", alpha=0.2, random_state=0)
    return compare(WorstRows(model), *parts(X, 100.0 * z, np.zeros(z.size)))


def loss_panels(study):
    return tails.loss_panels(study.arms, 0.1)


@pytest.fixture(scope="module")
def page(study):
    return render(study)


@pytest.fixture(scope="module")
def tags(page):
    return tags_of(page)


def test_the_numbers_in_the_page_are_those_of_the_study(study, page):
    (found,) = data_of(page)
    assert found == json.loads(json.dumps(study.to_dict()))
    assert all(f"<td>{arm.test.tail:#.4g}<small>" in page for arm in study.arms)


def test_peoples_text_is_escaped(page):
    assert NASTY not in page
    assert "About &lt;script&gt;" in page


def test_the_page_asks_nothing_of_a_network(page, tags):
    assert not re.search(r"https?://|@import|url\(", page)
    assert not any("src" in attrs for _, attrs in tags)


def test_pictures_are_described_and_tables_captioned(tags):
    assert all(attrs.get("aria-label") for _, attrs in tags if attrs.get("role") == "img")
    kinds = [tag for tag, _ in tags]
    assert kinds.count("table") == kinds.count("caption") == 4


def test_the_losses_of_all_models_are_drawn_in_both_panels(study, tags):
    drawn = [attrs["class"] for tag, attrs in tags if tag == "polyline"]
    assert drawn == [f"path {arm.key}" for arm in study.arms] * 2


def test_losses_fall_from_left_to_right(study):
    for panel in loss_panels(study):
        for _, points in panel["lines"]:
            assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(points))


def test_a_tenth_of_the_rows_is_shaded_and_then_shown_alone(study):
    whole, tail = loss_panels(study)
    assert (whole["region"]["width"], tail["region"]["width"]) == (10.0, 100.0)
    assert tail["across"][-1]["name"].startswith("10")


def test_the_mean_height_over_the_worst_tenth_is_what_is_judged(study):
    tail = loss_panels(study)[1]
    top, bottom = tail["up"][-1], tail["up"][0]
    unit = (float(top["name"]) - float(bottom["name"])) / (bottom["y"] - top["y"])
    for (_, points), arm in zip(tail["lines"], study.arms, strict=True):
        heights = [unit * (tail["height"] - y) for _, y in points]
        assert np.mean(heights) == pytest.approx(arm.test.tail, rel=0.05)


def test_heavy_rows_and_the_sentence_on_wrong_labels_are_shown(study, page):
    assert "Rows with a wrong label or a wrong number have large losses, so they get large weights" in page
    assert f"lies on {100.0 * study.details.half:.1f}\u202f% of the training rows" in page
    assert all(f'<th scope="row">{each.row}</th>' in page for each in study.details.heavy)
    assert "In small type: the probability of the target" in page


def test_a_few_rows_that_carry_half_of_the_weight_are_counted(study):
    weights = np.full(study.requested.model.sample_weights_.size, 1e-3)
    weights[:2] = 0.3
    model = xrisk.DROClassifier()
    model.__dict__.update(vars(study.requested.model), sample_weights_=weights / weights.sum())
    few = study._replace(arms=(study.arms[0], study.requested._replace(model=model), study.arms[2]))
    assert weight_of_few(few).startswith("Half of the robust model's weight lies on 2 rows. These few rows determine")


def test_a_regression_has_r2_and_no_probabilities(regression):
    page = render(regression)
    assert "probability of the target" not in page
    assert "<dt>R²</dt>" in page
    assert "e+0" not in page.split('<script type="application/json"', maxsplit=1)[0]


def test_the_certificate_of_both_robust_models_is_shown(study, page):
    robust, trimmed = proofs(study)
    assert robust.headline.startswith("Proved optimal to within")
    assert f"Robust: {robust.headline}" in page
    assert "given the 22 training rows that are set aside" in trimmed.text


def test_perfect_fits_are_said_to_be_perfect(study):
    from xrisk.cli.screen import show_study

    found = study._replace(arms=(study.arms[0], *map(perfect, study.arms[1:])))
    page, shown = render(found), screen(show_study, found)
    assert page.count(f": {PERFECT}</strong>") == 2
    assert "100.000\u202f%" not in page
    assert "given the 22 training rows that are set aside" in page
    assert all(f"{arm.name}: {PERFECT}." in shown for arm in study.arms[1:])


def test_the_page_says_when_to_use_which(page):
    for option in ("--ambiguity kl", "--ambiguity chi2", "--ambiguity cvar", "--objective group-dro"):
        assert f"<small>{option}</small>" in page


def test_the_objective_names_the_numbers_and_the_loss(study, regression):
    assert "here radius = 0.1. The loss is Logistic: ℓ(z, y) = log(1 + exp(−y z))." in objective(study)
    assert "here alpha = 0.2. The loss is Squared: ℓ(z, y) = ½ (z − y)²." in objective(regression)


def test_the_trade_is_told_against_the_plain_model(study):
    erm, robust = study.arms[0].test, study.requested.test
    assert f"Robust {100.0 * (robust.tail / erm.tail - 1.0):+.1f} % in the worst 10 %" in trade(study)


def test_the_worst_group_of_each_model_is_named(study):
    said = worst_names([(arm.name, arm.test.groups) for arm in study.arms])
    assert said.startswith("The worst group, by mean loss among those with at least 30 rows: ERM ")
    assert worst_names([("ERM", None)]) == ""


def test_where_every_group_is_small_none_is_named(study):
    groups = study.requested.test.groups
    small = type(groups)(
        groups.rows,
        groups.overall,
        metric=groups.metric,
        confidence=groups.confidence,
        missing=groups.missing,
        min_group_size=1000,
    )
    assert worst_names([("Robust", small)]) == "No group has 1,000 rows: no worst group is named."


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (Difference("robust", "erm", 0.01, 0.2), "Robust beats ERM by +0.01 to +0.2"),
        (Difference("robust", "erm", -0.2, -0.01), "ERM beats Robust by +0.01 to +0.2"),
        (Difference("robust", "erm", -0.1, 0.1), "Robust and ERM cannot be told apart (-0.1 to +0.1)"),
    ],
)
def test_the_verdict_has_the_same_words_whoever_wins(study, difference, said):
    assert said in verdict(study._replace(verdict=study.verdict._replace(differences=(difference,))))


def test_a_recommendation_of_a_constant_model_is_reserved(study):
    constant = study._replace(constant="hardly better than a constant one")
    assert "hardly better than a constant model" in summary(constant)
    assert "hardly better" not in summary(study)


@pytest.mark.parametrize(
    ("value", "form", "said"),
    [(5760.4, "#.4g", "5760"), (12345.6, "#.3g", "12300"), (-54321.0, "+.3g", "-54300"), (0.5, "#.4g", "0.5000")],
)
def test_large_losses_are_written_out(value, form, said):
    assert rounded(value, form) == said


def test_the_file_is_the_page(study, page, tmp_path):
    write_report(tmp_path / "r.html", study)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page


def test_the_page_calls_that_the_default_which_is(page):
    default = xrisk.DROClassifier().ambiguity
    rows = re.findall(r'<tr><th scope="row">(\w+)<small>.*?</th><td>(.*?)</td></tr>', page)
    assert [word for word, _ in rows] == ["kl", "chi2", "cvar", "outliers", "groups"]
    assert [word for word, when in rows if when.startswith("The default.")] == [default]
