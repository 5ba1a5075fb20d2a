"""scikit-learn's callbacks on the solver's own: one subtask per pass, or per fold that is solved.

Callbacks exist from scikit-learn 1.9 on. With an older one estimators take none, and a fit reports nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bmrm.linear.solvers.progress import Progress

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for that of scikit-learn 1.9: there are no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is: there are no callbacks."""
        return method


__all__ = ["CallbackSupportMixin", "Report", "with_callbacks"]


class Report:
    """What a fit reports to the callbacks of its estimator.

    Parameters
    ----------
    estimator : estimator
    X, y : object
        The training data, for callbacks that want them.

    Attributes
    ----------
    stopped : bool
        Whether a callback has ended a search.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self._estimator, self._data = estimator, {"X": X, "y": y}
        self.stopped = False
        self._context = None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def on_pass(
        self, attributes: Callable[[Progress], dict[str, Any]] | None
    ) -> Callable[[Progress], bool] | None:
        """Return a callback for `bmrm.solve`: a true answer of a callback ends the solve.

        Parameters
        ----------
        attributes : callable or None
            Returns the fitted attributes that the estimator would have if it stopped after the pass; None if
            it would have none.
        """
        if self._context is None:
            return None

        def report(state: Progress) -> bool:
            metadata = {"objective": state.objective, "gap": state.gap}
            return self._subtask("pass", metadata, None if attributes is None else partial(attributes, state))

        return report

    def on_fold(self) -> Callable[[Any], None] | None:
        """Return a progress function for `bmrm.select`: a true answer of a callback ends the search."""
        if self._context is None:
            return None

        def report(solved: Any) -> None:
            result = solved.result
            metadata = {"objective": result.objective, "gap": result.gap, "lam": result.lam}
            if self._subtask("fold", metadata, None):
                self.stopped = True
                raise KeyboardInterrupt  # which `select` turns into an exception with what there is

        return report

    def end(self) -> None:
        """Report that the fit is over."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator, **self._data)

    def _subtask(self, name: str, metadata: dict[str, float], attributes: Any) -> bool:
        """Report a subtask that is over; return whether a callback wants the fit to stop."""
        assert self._context is not None
        given = {"estimator": self._estimator, **self._data, "metadata": metadata}
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(**given)
        return bool(task.call_on_fit_task_end(**given, reconstruction_attributes=attributes))
