"""What all objectives have in common, and the top of a ranking."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import xrisk
from xrisk.objectives import COMMANDS, TopOfRanking
from xrisk.study import Objective, compare
from xrisk.study.objective import Option
from xrisk.tables import parts

MEMBERS = sorted({*Objective.__annotations__, *(name for name in vars(Objective) if not name.startswith("_"))})
COMMON = {  # what every objective is asked with, beside its own options
    "target": "y",
    "categorical": (),
    "drop": (),
    "validation": 0.25,
    "test": None,
    "l1": 0.0,
    "l2": (1e-3,),
    "tol": 1e-3,
    "max_seconds": None,
    "seed": 0,
}


def two_classes(n=600, share=0.1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    score = X[:, 0] + X[:, 1] + rng.standard_normal(n)
    return X, score > np.quantile(score, 1.0 - share)


def all_options():
    return [option for command in COMMANDS.values() for option in command.options]


def default(option):
    """What the command line passes where an option is not given."""
    return () if option.kind is tuple else option.default


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    frame = pytest.importorskip("pandas").DataFrame
    X, y = two_classes(200)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    frame({"a": X[:, 0], "b": X[:, 1], "y": np.where(y, "yes", "no")}).to_csv(path, index=False)
    return str(path)


@pytest.fixture(params=list(COMMANDS))
def command(request):
    return COMMANDS[request.param]


@pytest.fixture
def question(command, table):
    """What a command line with no options of its own asks."""
    from xrisk.tables.prepare import TableOptions
    from xrisk.tables.read import read_table

    options = {option.name: default(option) for option in all_options()} | COMMON
    options |= {"objective": command.name, "data": table}
    asked = TableOptions("y")
    prepared = command.prepare(read_table(table), asked, table, validation=0.25, test=None, seed=0)
    return command.ask(options, prepared)


def test_a_command_is_called_by_its_word():
    assert all(command.name == name for name, command in COMMANDS.items())
    assert {"group-dro", "dro", "two-way-partial-auc", "partial-auc", "p-norm-push"} <= set(COMMANDS)


def test_the_keys_of_a_command_are_those_of_the_models_of_its_objective(command, question):
    plans = question.objective.plans(question.parts[0])
    assert tuple(plans) == command.keys
    assert question.objective.requested in plans
    assert all(plan.name and plan.minimises and plan.work > 0.0 for plan in plans.values())


def test_a_command_has_no_option_twice(command):
    names = [option.name for option in command.options]
    assert len(set(names)) == len(names)


def test_an_option_of_several_commands_is_the_same():
    for option in all_options():
        assert all(other is option for other in all_options() if other.name == option.name)


def test_options_are_words_of_the_command_line():
    for option in all_options():
        assert isinstance(option, Option)
        assert option.name.isidentifier()
        assert option.help.endswith(".")
        assert option.name not in COMMON
        assert option.default is None or not option.values or option.default in option.values


def test_the_protocol_names_what_a_study_uses():
    assert {"model", "title", "template", "plans", "checked", "judge", "verdict", "view", "table", "numbers"} <= set(
        MEMBERS
    )


@pytest.mark.parametrize("name", MEMBERS)
def test_an_objective_has_every_member_of_the_protocol(question, name):
    found = getattr(question.objective, name)
    assert callable(found) == inspect.isfunction(getattr(Objective, name, None))


def test_the_words_of_an_objective_are_words(question):
    objective = question.objective
    assert all(getattr(objective, name) for name in ("title", "metric", "judged_by", "chosen_by"))
    assert (Path(xrisk.__file__).parent / "report" / "templates" / objective.template).exists()


@pytest.fixture(scope="module")
def rows():
    X, y = two_classes()
    return parts(X, y, y)


@pytest.fixture(scope="module")
def study(rows):
    return compare(TopOfRanking(xrisk.PNormPushClassifier(p=3.0, random_state=0), ("no", "yes")), *rows)


def test_a_push_stands_beside_two_logistic_models(study):
    assert [arm.key for arm in study.arms] == ["logistic", "balanced", "ranking"]
    assert study.requested is study.arms[2]
    assert study.recommended in study.arms
    assert study.is_done


def test_the_model_that_is_asked_for_is_that_which_is_fitted_alone(study, rows):
    train, _ = rows
    alone = xrisk.PNormPushClassifier(p=3.0, random_state=0).fit(train.X, train.y)
    assert type(study.requested.model) is xrisk.PNormPushClassifier
    np.testing.assert_array_equal(study.requested.model.coef_, alone.coef_)
    assert study.requested.l2 == alone.l2


def test_the_model_of_the_objective_stays_unfitted(study):
    assert not hasattr(study.objective.model, "coef_")


def test_a_push_is_judged_where_false_positives_are_few(study, rows):
    _, validation = rows
    known = xrisk.metrics.partial_auc_score(
        validation.y, study.requested.model.decision_function(validation.X), min_tpr=0.0, max_fpr=0.1
    )
    assert study.requested.test.score == study.requested.validation == known
    assert study.objective.ranked == ("no", "yes", 0.0, 0.1)


def test_of_several_strengths_the_push_gets_its_best(rows):
    train, held = rows
    last, model = parts(held.X, held.y, held.y, validation=0.5), xrisk.PNormPushClassifier(random_state=0)
    study = compare(TopOfRanking(model), train, *last, l2=(1e-3, 10.0))
    alone = [compare(TopOfRanking(model), train, *last, l2=(each,)) for each in (1e-3, 10.0)]
    assert study.requested.validation == max(each.requested.validation for each in alone)
    assert study.requested.l2 in (1e-3, 10.0)


def test_the_page_of_a_push_tells_its_aim_and_its_certificate(study):
    pytest.importorskip("jinja2")
    from xrisk.report import render

    page, proof = render(study), study.objective.proof(study)
    assert "puts rows of class yes above those of class no" in study.objective.aim()
    assert "the p-norm, p = 3, of what" in study.objective.aim()
    assert study.objective.aim() in page
    assert proof.is_certified
    assert proof.headline.startswith("Proved optimal to within")
    assert f"<strong>{proof.headline}</strong>" in page
    assert "has no certificate" not in page


def test_the_study_of_a_push_is_json(study):
    told = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert told["certified"]
    assert told["certificate"]["relative"] <= study.requested.model.tol
    assert told["asked"] == {"negative": "no", "positive": "yes", "min_tpr": 0.0, "max_fpr": 0.1}
    assert [model["key"] for model in told["models"]] == ["logistic", "balanced", "ranking"]
