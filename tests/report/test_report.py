"""The page about a study."""

import copy
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xrisk
from xrisk import Certificate, Stop
from xrisk.datasets import make_spurious
from xrisk.objectives import WorstGroups
from xrisk.objectives.worst_groups import cards, summary, verdict
from xrisk.report import render, write_report
from xrisk.report.figures import ticks
from xrisk.report.findings import proof_of
from xrisk.report.page import _environment
from xrisk.study import Difference, Verdict, compare
from xrisk.tables import parts

pytest.importorskip("jinja2")

NASTY = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def rows():
    table = make_spurious(600, random_state=0)
    names = np.array([NASTY, 'a "quoted" one', "plain", "]]> --> </script>"])[table.groups]
    return parts(table.X, table.y, names)


@pytest.fixture(scope="module")
def study(rows):
    objective = WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0))
    return compare(objective, *rows, title=f"About {NASTY}", notes=(f"Note {NASTY}",))


@pytest.fixture(scope="module")
def page(study):
    return render(study)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((450, 3)), np.arange(450) % 3
    y = X[:, 0] * (1.0 + group) + rng.standard_normal(450)
    objective = WorstGroups(xrisk.GroupDRORegressor(alpha=1.0 / 3.0, l2=1e-2, random_state=0))
    return compare(objective, *parts(X, y, group))


def data_of(page):
    found = re.search(r'<script type="application/json" id="xrisk-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


class Tags(HTMLParser):
    """The tags of a page, and whether each is closed in its turn."""

    VOID = frozenset({"meta", "link"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags_of(page):
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


@pytest.fixture(scope="module")
def tags(page):
    return tags_of(page)


def test_the_numbers_in_the_page_are_the_models(study, page):
    (found,) = data_of(page)
    model = study.requested.model
    assert found["certificate"]["primal"] == model.certificate_.primal
    assert found["certificate"]["dual"] == model.certificate_.dual
    assert [group["weight"] for group in found["groups"]] == model.group_weights_.tolist()
    assert [group["risk"] for group in found["groups"]] == model.group_risk_.tolist()
    assert [each["worst"]["score"] for each in found["models"]] == [arm.test.worst.score for arm in study.arms]


def test_the_page_shows_the_worst_scores_in_words(study, page):
    assert all(f"{100 * arm.test.worst.score:.1f}\u202f%" in page for arm in study.arms)
    assert f"{study.requested.model.certificate_.dual:.6g}" in page


def test_peoples_text_is_escaped(page):
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert page.count("<script") == page.count("</script>") == 1


def test_the_page_asks_nothing_of_a_network(page, tags):
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page
    linked = [value for _, attrs in tags for name, value in attrs.items() if name in ("src", "href")]
    assert all(value.startswith(("#", "data:")) for value in linked)


def test_pictures_are_described_and_tables_captioned(tags):
    names = [name for name, _ in tags]
    assert names.count("caption") == names.count("table") > 0
    assert all(attrs.get("aria-label") for _, attrs in tags if attrs.get("role") == "img")
    drawn = [attrs for name, attrs in tags if name == "svg" and "viewbox" not in attrs and "width" not in attrs]
    assert all(attrs.get("aria-hidden") == "true" or attrs.get("role") == "img" for attrs in drawn)
    assert names.count("h1") == 1


def test_the_page_minds_phones_print_and_dark_rooms(page):
    for rule in ("max-width: 40rem", "@media print", "prefers-color-scheme: dark", 'name="viewport"'):
        assert rule in page


def test_the_headings_are_the_words_of_the_field(page):
    found = re.findall(r"<h2>(.*?)</h2>", page)
    assert {"Objective", "Group weights", "Optimality gap", "Reproducibility"} <= set(found)
    assert "450 training, 150 validation" in page


def test_a_group_of_one_row_is_not_told_as_rows(study):
    sizes = {**study.sizes, "smallest_group": {"name": "few", "rows": 1}}
    assert "the smallest, few, has 1 row; the largest" in render(study._replace(sizes=sizes))


def test_a_least_size_of_one_row_is_not_told_as_rows(rows):
    found = compare(WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0), min_group_size=1), *rows)
    assert "1 validation rows" not in render(found)
    assert "4 groups with at least 1 validation row." in verdict(found)


def test_small_groups_are_folded_and_said_to_be_left_out(study, page):
    few = len(study.arms[0].test.small)
    assert few == study.to_dict()["verdict"]["small"] == 2
    assert f"<summary>{few} groups with fewer than 30 validation rows, left out of the verdict</summary>" in page
    assert f"({few} smaller groups are left out)" in page
    assert {row.name for row in study.arms[0].test.small}.isdisjoint({arm.test.worst.name for arm in study.arms})


def test_where_no_group_is_large_the_page_names_no_worst_one(rows):
    model = xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0)
    study = compare(WorstGroups(model, min_group_size=1000), *rows)
    page = render(study)
    assert "No group has 1,000 validation rows, so the models cannot be told apart" in page
    assert study.to_dict()["models"][0]["worst"] is None


@pytest.mark.parametrize(("relative", "most", "card"), [(1e-9, "0.001", "0.01"), (3.34e-4, "0.034", "0.04")])
def test_the_gap_is_rounded_up(study, relative, most, card):
    model = copy.copy(study.requested.model)
    model.certificate_ = model.certificate_._replace(relative=relative)
    found = study._replace(arms=(*study.arms[:-1], study.requested._replace(model=model)))
    assert f"within {most}\u202f%" in proof_of(found.requested.model).headline
    assert cards(found)[-1].values[0][1] == f"≤ {card}\u202f%"


PERFECT = "The fit is perfect up to rounding: its loss is below 10⁻¹² of that of a constant model"


def perfect(arm):
    """A model as a fit whose optimum is zero leaves it."""
    model = copy.copy(arm.model)
    model.stop_, model.certificate_ = Stop.PERFECT, Certificate(1e-20, 0.0, 1e-20, 1.0)
    return arm._replace(model=model)


def screen(show, study):
    """What a terminal shows of a study, on one line."""
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=200)
    show(console, study)
    return " ".join(console.file.getvalue().split())


def test_a_perfect_fit_is_said_to_be_perfect(study):
    from xrisk.cli.screen import show_study

    found = study._replace(arms=(*study.arms[:-1], perfect(study.requested)))
    page = render(found)
    assert f"<strong>{PERFECT}</strong>" in page
    assert "100.000\u202f%" not in page
    assert cards(found)[-1].values[0][1] == "zero up to rounding"
    assert f"Robust model: {PERFECT}." in screen(show_study, found)
    assert "relative gap" not in screen(show_study, found)


def test_numbers_that_a_line_fits_end_in_a_perfect_fit():
    X, group = np.random.default_rng(0).standard_normal((300, 2)), np.arange(300) % 3
    found = compare(WorstGroups(xrisk.GroupDRORegressor(l2=0.0, random_state=0)), *parts(X, X @ [1.0, 2.0], group))
    assert found.requested.model.stop_ is Stop.PERFECT
    assert proof_of(found.requested.model).headline == PERFECT


def test_the_ending_of_a_perfect_fit_names_what_it_is_measured_by():
    assert "of that of a constant model" in str(Stop.PERFECT)
    assert "of that of a constant model" in PERFECT


def test_an_optimum_of_zero_is_said_to_be_reached_up_to_rounding(study):
    model = copy.copy(study.requested.model)
    model.stop_, model.certificate_ = Stop.OPTIMAL, Certificate(1e-20, -1e-20, 2e-20, 2.0)
    found = study._replace(arms=(*study.arms[:-1], study.requested._replace(model=model)))
    assert proof_of(found.requested.model).headline.startswith("Optimal up to rounding: the gap is below 10⁻¹²")


def test_every_headline_has_all_three_models(study):
    said = summary(study)
    assert all(f"{arm.name} {100 * arm.test.worst.score:.1f}" in said for arm in study.arms)
    assert all([name for name, _ in card.values] == [arm.name for arm in study.arms] for card in cards(study)[:2])


def test_the_metric_is_named_with_the_loss(page):
    assert "Trained on the logistic loss, scored by accuracy" in page


@pytest.mark.parametrize(("metric", "name"), [("neg_log_loss", "log loss"), ("balanced_accuracy", "balanced accuracy")])
def test_another_metric_is_named_wherever_it_is_told(rows, metric, name):
    found = compare(WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0), metric), *rows)
    page = render(found)
    assert f"Trained on the logistic loss, scored by {name}" in page
    assert f"Judged by {name} in the worst of 2 groups" in page
    assert f"{name.capitalize()} in the worst group: ERM " in page
    assert f"Worst group, {name}" in page
    assert data_of(page)[0]["settings"]["metric"] == metric
    assert "NaN" not in page


@pytest.mark.parametrize("key", ["erm", "reweighted", "robust"])
def test_the_verdict_has_the_same_words_whoever_wins(study, key):
    order = ["erm", "reweighted", "robust"]
    others = [each for each in order if each != key]
    pairs = tuple(
        Difference(one, other, 0.1, 0.3) if one == key else Difference(one, other, -0.3, -0.1)
        for one, other in itertools.combinations(reversed(order), 2)
        if key in (one, other)
    )
    said = verdict(study._replace(verdict=Verdict(key, pairs)))
    name = study.arm(key).name
    assert all(f"{name} beats {study.arm(other).name} by +10.0 to +30.0" in said for other in others)
    assert said.endswith(f"We recommend the simplest model that no other significantly outperforms: {name}.")


@pytest.mark.parametrize(("key", "told"), [("erm", False), ("robust", True)])
def test_a_recommended_model_that_is_nearly_constant_is_said_to_be(study, key, told):
    found = study._replace(constant="hardly better", verdict=study.verdict._replace(recommended=key))
    assert found.to_dict()["is_nearly_constant"]
    assert ("it is hardly better than a constant model" in summary(found)) == told
    assert ("it is hardly better than a constant model" in verdict(found)) == told


def test_models_that_rows_cannot_tell_apart_are_said_to_be(study):
    level = Verdict("erm", (Difference("robust", "erm", -0.02, 0.1),))
    assert "Robust and ERM cannot be told apart (-2.0 to +10.0)" in verdict(study._replace(verdict=level))


def test_several_studies_share_a_page(study, regression):
    page = render([study, regression], title="Two")
    assert len(data_of(page)) == 2
    assert page.count("<article") == 2
    assert "<title>Two" in page


def test_errors_of_a_regression_are_told_as_errors(regression):
    page = render(regression)
    assert "Root mean squared error" in page
    assert regression.arms[0].test.worst.score == max(row.score for row in regression.arms[0].test.large)


def test_a_model_that_is_not_certified_says_so():
    table = make_spurious(200, random_state=0)
    model = xrisk.GroupDROClassifier(alpha=0.5, tol=1e-15, random_state=0)
    study = compare(WorstGroups(model), *parts(table.X, table.y, table.groups))
    assert not study.to_dict()["certified"]
    page = render(study)
    assert "Stopped before the tolerance" in page
    assert "Proved optimal" not in page


@pytest.mark.parametrize("divergence", ["max", "kl", "chi2", "chi2-b"])
def test_the_objective_is_told_for_every_divergence(study, divergence):
    model = study.requested.model
    requested = type(model)(**{**model.get_params(), "divergence": divergence})
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(requested, name, value)
    page = render(study._replace(arms=(*study.arms[:-1], study.requested._replace(model=requested))))
    assert "The robust model is a linear model that minimises the loss" in page


def test_without_bounds_there_is_no_picture_of_them(study):
    assert "Relative gap" not in render(study._replace(details=()))


def test_no_study_is_refused():
    with pytest.raises(ValueError, match="at least one study"):
        render([])


def test_the_file_is_the_page(study, page, tmp_path):
    write_report(tmp_path / "r.html", study)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_without_jinja2_a_sentence_says_what_to_install(study, monkeypatch):
    _environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"a report needs jinja2: pip install xrisk\[report\]"):
        render(study)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_inside_and_ascend(low, width):
    found = ticks(low, low + width)
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in found)
    assert found == sorted(found)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--enable-logging=stderr"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_a_browser_shows_the_page_without_complaint(study, tmp_path):
    write_report(tmp_path / "r.html", study)
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "r.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    (found,) = data_of(done.stdout)
    assert found["certificate"]["primal"] == study.requested.model.certificate_.primal
    assert [each["worst"]["score"] for each in found["models"]] == [arm.test.worst.score for arm in study.arms]
