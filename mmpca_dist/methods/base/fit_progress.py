"""scikit-learn's callbacks of fits, such as ``set_callbacks(ProgressBar())``, where its version has them (1.9)."""

from __future__ import annotations

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9
    CallbackSupportMixin = object

    def with_callbacks(method: Any) -> Any:
        """Return the method; this scikit-learn has no callbacks."""
        return method


class TellsProgress(CallbackSupportMixin):
    """Tells callbacks of a fit and of each of its passes, a task of its own."""

    @with_callbacks
    def _told(self, fit: Any, X: Any, y: Any) -> Any:
        """Fit by a function without parameters."""
        if not getattr(self, "_skl_callbacks", ()):
            return fit()
        self.__dict__.pop("_at_pass", None)  # of a fit that failed
        begun = self._init_callback_context(max_subtasks=None)
        begun.call_on_fit_task_begin(estimator=self, X=X, y=y)
        fit()
        self._pass_ends()
        begun.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _pass_begins(self, name: str, n_bytes: int) -> None:
        """Tell of a pass over the rows, or of other work, and that the one before has ended."""
        if hasattr(self, "_callback_fit_ctx"):
            self._pass_ends()
            self._at_pass = self._callback_fit_ctx.subcontext(task_name=name)
            self._at_pass.call_on_fit_task_begin(estimator=self)

    def _pass_ends(self) -> None:
        ended = self.__dict__.pop("_at_pass", None)
        if ended is not None:
            ended.call_on_fit_task_end(estimator=self)
