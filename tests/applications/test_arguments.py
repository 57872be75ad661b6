"""One table of divergences and one of losses: everything that names them is made from these."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from xrisk.applications import CLASS_LOSSES, DIVERGENCES, LOSSES, NUMBER_LOSSES
from xrisk.applications.arguments import divergences_that_take, risk_of
from xrisk.functions import ChiSquareRiskA, ChiSquareRiskB, CVaRRisk, KLRisk, MaxRisk

RISKS = {
    "cvar": CVaRRisk(0.3),
    "chi2": ChiSquareRiskA(2.0),
    "chi2-b": ChiSquareRiskB(2.0),
    "kl": KLRisk(2.0),
    "max": MaxRisk(),
}


@pytest.mark.parametrize("word", DIVERGENCES)
def test_a_word_builds_its_risk(word):
    assert repr(risk_of(word, alpha=0.3, lam=2.0)) == repr(RISKS[word])


@pytest.mark.slow
@pytest.mark.parametrize("word", DIVERGENCES)
def test_every_word_states_a_problem(word):
    problem = xrisk.group_dro(*table(), divergence=word, alpha=0.3, lam=2.0)
    assert repr(problem.outer) == repr(RISKS[word])
    assert np.isfinite(problem.value(np.zeros(4)))


def test_a_spec_stands_for_itself():
    assert risk_of(KLRisk(0.5), alpha=0.1, lam=1.0) == KLRisk(0.5)


def test_an_unknown_word_is_told_the_known_ones():
    with pytest.raises(ValueError, match="divergence must be one of cvar, chi2, chi2-b, kl, max or a spec, got 'tv'"):
        risk_of("tv", alpha=0.1, lam=1.0)


def test_words_are_asked_for_by_the_number_they_take():
    assert divergences_that_take("alpha") == ["cvar"]
    assert divergences_that_take("lam") == ["chi2", "chi2-b", "kl"]


@pytest.mark.parametrize("word", DIVERGENCES)
def test_the_estimators_tell_what_each_word_means(word):
    said = f'"{word}": {DIVERGENCES[word].meaning}'
    assert said in xrisk.GroupDROClassifier.__doc__
    assert said in xrisk.GroupDRORegressor.__doc__


def test_losses_of_one_score_are_of_classes_or_of_numbers():
    assert {*CLASS_LOSSES, *NUMBER_LOSSES} == set(LOSSES) - {"multinomial"}
    assert not set(CLASS_LOSSES) & set(NUMBER_LOSSES)


@pytest.mark.parametrize("word", CLASS_LOSSES)
def test_the_classifiers_name_every_loss_of_classes(word):
    models = (xrisk.GroupDROClassifier, xrisk.MultiTaskGroupDROClassifier, xrisk.PNormPushClassifier)
    assert all(f'"{word}"' in model.__doc__ for model in models)
