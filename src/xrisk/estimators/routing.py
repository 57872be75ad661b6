"""Whether groups were lost on their way to ``fit``."""

import sys
import warnings

import sklearn

LOST = (
    "fit was given no groups in a search or cross-validation, so {instead}: scikit-learn hands groups on after "
    "sklearn.set_config(enable_metadata_routing=True)"
)


def warn_of_lost_groups(instead: str, stacklevel: int) -> None:
    """Warn where scikit-learn's model selection calls ``fit`` without groups and metadata routing is off.

    A search keeps groups for its splitter then, and the model that it chooses would be another one, in silence.
    """
    if not sklearn.get_config()["enable_metadata_routing"] and _is_in_model_selection():
        warnings.warn(LOST.format(instead=instead), stacklevel=stacklevel + 1)


def _is_in_model_selection() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            return True
    return False
