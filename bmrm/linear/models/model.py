"""A trained linear model: its weights, its predictions, and the certificate of its training."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bmrm.base import arguments
from bmrm.base.columns import check_names, find_names
from bmrm.base.labels import Labels, label_array
from bmrm.base.offsets import add_offset, offsets_of_margins, row_offsets
from bmrm.base.probabilities import logistic, softmax
from bmrm.base.vectors import Vector, make_arrays_read_only
from bmrm.errors import DataError, ParameterError
from bmrm.io.csr import Csr, check_finite, check_numbering, find_numbering
from bmrm.linear.models.calibration import Calibration
from bmrm.linear.models.certificate import Certificate, TrainingData
from bmrm.linear.models.model_file import LABEL_TYPES, SEVERAL, parts_of, read, write

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

Label: TypeAlias = "float | int | bool | str"

TASKS = ("binary", "ordinal", "regression", "count", "novelty", "ranking", *SEVERAL)

CLASS_LOSSES = ("multiclass", "softmax", "multilabel_ranking")
"""Losses of differences of a row's margins: one number for all of them would change nothing."""

Predictions: TypeAlias = "Labels | list[tuple[Label, ...]]"
MatrixLike: TypeAlias = "Csr | sparray | spmatrix | npt.NDArray[np.floating[Any]]"


def _certificate_of(result: Any) -> Certificate:
    names = ("objective", "lower_bound", "status", "n_iter", "tol", "tol_kind", "rounding")
    return Certificate(**{name: getattr(result, name) for name in names}, dtype=result.stored)


@dataclass(frozen=True, eq=False)
class Model:
    """A trained linear model with its certificate, whose arrays are read-only.

    Parameters
    ----------
    w : ndarray of float64, shape (n_features,), or (n_features, K) for K classes
    intercept : float, or ndarray of float64, shape (K,)
    loss : str
        Name of the loss with which it was trained. With the task "multiclass", a loss of two classes means
        that each class was trained against the rest.
    task : str
        What `predict` returns: a label ("binary", "multiclass"), x.w + b ("regression"), exp(x.w + b)
        ("count"), +1 (usual) or -1 (novel) ("novelty"), the set of labels of a row ("multilabel"), all
        labels in order ("label_ranking"), the score x.w ("ranking"), or the label between whose thresholds
        x.w lies ("ordinal").
    classes : tuple of float, int, bool or str, or None
        The labels (negative, positive) of a binary model, the labels of the columns of ``w``, or the labels
        of an ordinal model, ascending. An array may be given, too.
    lam : float
    reg : str, default "l2"
    reg_params : mapping of str to float or bool
        See `Result.reg_params`.
    loss_params : mapping of str to float
    certificate : Certificate, or None
    calibration : Platt, Isotonic or None
        Maps decision values of a binary model to probabilities; see `bmrm.calibrate`.
    zero_based : bool, or None
        Whether feature numbers in the training text start at 0; None if the data were not text, or if this
        is not known.
    thresholds : tuple of float, or None
        The thresholds of an ordinal model: one fewer than labels, not descending.
    label_type : str or None
        The NumPy type of predicted labels: "float64", "int64", "bool", "str" (text), ...; default: that of
        ``classes`` as an array. None if there are no classes.
    feature_names : tuple of str or None
        The names of the columns of X, if it was a frame. `predict` refuses a frame with other columns, or
        with the same ones in another order.
    training : TrainingData or None
        The size of the training data.
    has_offset : bool, default False
        Whether numbers were added to the margins in training. `predict` then asks for those of its rows.
    library_version : str
        Version of the package that wrote the model.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "a.model")
    >>> Model(np.array([1.0, -2.0]), 0.5, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save(path)
    >>> model = Model.load(path)
    >>> model.w, model.intercept, model.loss
    (array([ 1., -2.]), 0.5, 'hinge')
    >>> model.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([ 1., -1.])
    >>> values = model.decision_function(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> values, model.predictions(values)
    (array([ 1.5, -1.5]), array([ 1., -1.]))
    >>> model = Model(np.array([1.0]), 0.0, "logistic", "binary", (-1.0, 1.0), lam=1e-3)
    >>> model.predict_probability(np.array([[0.0], [2.0]])).round(2), model.probabilities(np.array([0.0]))
    (array([0.5 , 0.88]), array([0.5]))
    """

    w: Vector
    intercept: float | Vector
    loss: str
    task: str
    classes: tuple[Label, ...] | None
    lam: float
    reg: str = "l2"
    reg_params: Mapping[str, float | bool] = field(default_factory=dict)
    loss_params: Mapping[str, float] = field(default_factory=dict)
    certificate: Certificate | None = None
    calibration: Calibration | None = None
    zero_based: bool | None = None
    thresholds: tuple[float, ...] | None = None
    label_type: str | None = None
    feature_names: tuple[str, ...] | None = None
    training: TrainingData | None = None
    has_offset: bool = False
    library_version: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.w, np.ndarray) or arguments.has_masked(self.w):
            object.__setattr__(self, "w", arguments.numbers("model: weights", self.w, each="feature"))
        if self.thresholds is not None:
            found = arguments.numbers("model: thresholds", self.thresholds, each="entry")
            if found.ndim != 1:
                raise DataError(f"model: thresholds: found shape {found.shape}, expected a list of numbers")
            object.__setattr__(self, "thresholds", tuple(found.tolist()))
        self._take_classes()
        arguments.number("model: lam", self.lam, DataError)
        arguments.numbers("model: intercept", self.intercept, each="class")
        make_arrays_read_only(self, "w", "intercept")
        problem = self._problem()
        if problem:
            raise DataError(f"model: {problem}")

    def _take_classes(self) -> None:
        """Make the classes Python's numbers, booleans or texts, and note their type."""
        if self.classes is None:
            object.__setattr__(self, "label_type", None)
            return
        found = label_array("model: classes", self.classes, each="entry")
        if found.ndim != 1:
            raise DataError(f"model: classes: found shape {found.shape}, expected a list of labels")
        name = "str" if found.dtype.kind == "U" else found.dtype.name
        if self.label_type is not None and self.label_type != name:
            found, name = _cast_labels(found, self.label_type), self.label_type
        object.__setattr__(self, "classes", tuple(found.tolist()))
        object.__setattr__(self, "label_type", name)

    @property
    def _labels(self) -> Labels:
        """The classes as an array of the type of the labels."""
        assert self.classes is not None
        return np.array(self.classes, dtype=self.label_type)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        make_arrays_read_only(self, "w", "intercept")

    def _problem(self) -> str | None:
        if not (math.isfinite(self.lam) and self.lam > 0):
            return f"lam is {self.lam}, expected a positive number"
        names = self.feature_names
        if names is not None and not (len(names) == len(self.w) and all(isinstance(n, str) for n in names)):
            return f"found {len(names)} names of features, expected {len(self.w)} texts"
        if self.task not in TASKS:
            return f"unknown task {self.task!r}"
        several = self.task in SEVERAL
        if self.w.ndim != 1 + several or self.w.dtype != np.float64:
            wanted = "float64 matrix" if several else "float64 vector"
            return f"weights have shape {self.w.shape} and type {self.w.dtype}, expected one {wanted}"
        if several and not self.w.shape[1]:
            return f"weights have shape {self.w.shape}, expected one column per label"
        if np.shape(self.intercept) != self.w.shape[1:]:
            return (
                f"found an intercept of shape {np.shape(self.intercept)}, expected {self.w.shape[1:]} "
                f"for weights of shape {self.w.shape}"
            )
        if not (np.isfinite(self.w).all() and np.isfinite(self.intercept).all()):
            return "found weights that are not finite"
        if self.calibration is not None and self.task != "binary":
            return f"found a {self.task} model with a calibration, expected none"
        if (several or self.task in ("binary", "ordinal")) != (self.classes is not None):
            wanted = "labels" if self.classes is None else "none"
            return f"found a {self.task} model with labels {self.classes}, expected {wanted}"
        if (self.task == "ordinal") != (self.thresholds is not None):
            wanted = "thresholds" if self.thresholds is None else "none"
            return f"found a {self.task} model with thresholds {self.thresholds}, expected {wanted}"
        return None if self.classes is None else self._label_problem(self.classes)

    def _label_problem(self, classes: tuple[Label, ...]) -> str | None:
        if self.task == "ordinal":
            if len(classes) < 2:
                return f"found {len(classes)} labels, expected 2 or more"
        else:
            wanted = self.w.shape[1] if self.task in SEVERAL else 2
            if len(classes) != wanted:
                return f"found {len(classes)} labels, expected {wanted}"
        labels = self._labels
        if self.task == "ordinal" and self.label_type == "str":
            return "found text as labels of ordered classes, expected numbers"
        finite = labels.dtype.kind != "f" or np.isfinite(labels).all()
        if not (finite and (labels[1:] > labels[:-1]).all()):
            return f"found labels {classes}, expected finite ones, ascending"
        if self.thresholds is not None and not (
            len(self.thresholds) == len(classes) - 1
            and np.isfinite(self.thresholds).all()
            and (np.diff(self.thresholds) >= 0).all()
        ):
            return f"found thresholds {self.thresholds}, expected finite ones between the labels, in order"
        return None

    @property
    def n_features(self) -> int:
        """Number of features, the length of ``w``."""
        return len(self.w)

    @classmethod
    def from_result(
        cls, result: Any, *, calibration: Calibration | None = None, zero_based: bool | None = None
    ) -> Model:
        """Make a model from the result of `bmrm.solve`.

        Parameters
        ----------
        result : Result
        calibration : Platt, Isotonic or None
        zero_based : bool, optional
            See `Model`; default: that of the result.

        Returns
        -------
        Model

        Raises
        ------
        ParameterError
            For a structured loss, whose model is just w and an oracle; or if the result has only the weights
            of one rank.

        Examples
        --------
        >>> import numpy as np, bmrm
        >>> X, y = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
        >>> Model.from_result(bmrm.solve(X, y, lam=0.1)).predict(X)
        array([ 1., -1.])
        """
        if result.loss.task == "structured":
            raise ParameterError("loss structured: a model is just w and the oracle; keep the result's w")
        if len(result.w) != result.n_features:
            raise ParameterError(
                f"model: found the {len(result.w)} weights of this rank, expected all {result.n_features}"
            )
        return cls(
            w=np.asarray(result.w, np.float64),
            intercept=result.intercept if result.w.ndim == 2 else float(result.intercept),
            loss=result.loss.name,
            task=result.loss.task,
            classes=result.classes,
            lam=float(result.lam),
            reg=result.reg,
            reg_params=dict(result.reg_params),
            loss_params=dict(result.loss.params),
            certificate=_certificate_of(result),
            calibration=calibration,
            zero_based=result.zero_based if zero_based is None else zero_based,
            feature_names=result.feature_names,
            training=TrainingData(result.n_samples, result.n_features, result.nnz, result.text_checksum),
            has_offset=result.has_offset,
            thresholds=None if result.thresholds is None else tuple(map(float, result.thresholds)),
        )

    def decision_function(
        self, X: MatrixLike, *, offset: npt.ArrayLike | None = None, threads: int | None = None
    ) -> Vector:
        """Compute x.w + b + offset for each row, and for each class if there are several.

        Parameters
        ----------
        X : Csr, scipy sparse matrix or ndarray, shape (m, n_features)
        offset : array_like of shape (m,), or (m, K), or 0, optional
            Added to the margins; 0 adds nothing. Needed if the model was trained with offsets.
        threads : int, default all cores

        Returns
        -------
        ndarray of float64, shape (m,), or (m, K)

        Raises
        ------
        DataError
            If ``X`` is not a matrix of finite real numbers, does not have ``n_features`` columns, is a frame
            whose columns are not those of training in their order, or comes from text (`bmrm.load_svmlight`)
            whose feature numbers start differently from the model's; or if the offsets do not match.
        ParameterError
            If the model was trained with offsets, and none are given.
        """
        check_numbering("model", self.zero_based, find_numbering(X))
        check_names("X", self.feature_names, find_names(X))
        if not isinstance(X, Csr):
            sparse = arguments.is_sparse(X)
            X = Csr.from_scipy(X) if sparse else np.ascontiguousarray(arguments.matrix("X", X))
        if X.shape[1] != self.n_features:
            raise DataError(f"data: found {X.shape[1]} features, expected the model's {self.n_features}")
        more = self._offset_of(offset, X.shape[0])
        from bmrm.matrix._cpu import Matrix

        if isinstance(X, np.ndarray):
            matrix = Matrix.from_dense(X, threads=threads)
        else:
            matrix = Matrix(
                X.indptr, X.indices, X.data, X.shape, threads=threads, transpose=False, by_popularity=False
            )
        values = matrix.matvec(self.w) if self.w.ndim == 1 else matrix.matmat(self.w)
        values += self.intercept
        if isinstance(X, np.ndarray) and not np.isfinite(values).all():
            try:
                check_finite(X)  # checked only now: a NaN or an infinity in X shows in the values
            except DataError as error:
                raise DataError(f"X: {error}") from None
        return add_offset(values, more)

    def _offset_of(self, offset: Any, rows: int) -> Vector | None:
        """Return the offsets of rows in the shape of their margins; None for none."""
        if offset is None and self.has_offset:
            raise ParameterError(
                "offset: found none for a model trained with offsets, expected a number per row, or offset=0"
            )
        if offset is None or (np.ndim(offset) == 0 and offset == 0):
            return None
        found = row_offsets(offset, rows)
        assert found is not None
        columns = self.w.shape[1] if self.w.ndim > 1 else None
        alike = self.task == "multilabel" or self.loss not in CLASS_LOSSES
        return offsets_of_margins(found, columns, alike=alike)

    def predict(self, X: MatrixLike, *, offset: npt.ArrayLike | None = None) -> Predictions:
        """Predict each row: apply `predictions` to the `decision_function`.

        Parameters
        ----------
        X : Csr, scipy sparse matrix or ndarray, shape (m, n_features)
        offset : array_like of shape (m,), or (m, K), or 0, optional
            See `decision_function`.

        Returns
        -------
        ndarray of shape (m,), or list of tuple
            See `predictions`.

        Raises
        ------
        DataError
            If ``X`` is not a matrix of finite real numbers with ``n_features`` columns, or the offsets do not
            match.
        ParameterError
            If the model was trained with offsets, and none are given.
        """
        return self.predictions(self.decision_function(X, offset=offset))

    def predictions(self, values: Vector) -> Predictions:
        """Convert decision values x.w + b to predictions of the task.

        Parameters
        ----------
        values : ndarray of float64, shape (m,), or (m, K) for K classes

        Returns
        -------
        ndarray of shape (m,), or list of tuple
            Labels, of the type that they had in training; values, expected counts, scores, or +1 and -1. A
            tie goes to the negative or smaller label, or to the first of several classes. For ``multilabel``,
            one tuple per row with the labels whose value is above 0, ascending; for ``label_ranking``, all
            labels, largest value first.

        Raises
        ------
        DataError
            If the values are not numbers, or their shape is wrong.
        """
        values = arguments.predictions(values, self.w.shape[1] if self.w.ndim > 1 else None)
        if self.task in SEVERAL:
            labels = self._labels
            if self.task == "multiclass":
                return np.asarray(labels[values.argmax(axis=1)])
            if self.task == "multilabel":
                return [tuple(labels[row > 0].tolist()) for row in values]
            return [tuple(labels[np.argsort(-row, kind="stable")].tolist()) for row in values]
        if self.task == "binary":
            return np.asarray(self._labels[(values > 0).astype(np.intp)])
        if self.task == "ordinal":
            return np.asarray(self._labels)[np.searchsorted(np.asarray(self.thresholds), values)]
        if self.task == "count":
            with np.errstate(over="ignore"):
                return np.exp(values)
        if self.task == "novelty":
            return np.where(values >= 0, 1.0, -1.0)
        return values

    @property
    def has_probabilities(self) -> bool:
        """Whether the model predicts probabilities: it is calibrated, or its loss is logistic or softmax."""
        return self.calibration is not None or self.loss in ("logistic", "softmax")

    def predict_probability(self, X: MatrixLike, *, offset: npt.ArrayLike | None = None) -> Vector:
        """Predict probabilities of each row: apply `probabilities` to the `decision_function`.

        Parameters
        ----------
        X : Csr, scipy sparse matrix or ndarray, shape (m, n_features)
        offset : array_like of shape (m,), or (m, K), or 0, optional
            See `decision_function`.

        Returns
        -------
        ndarray of float64, shape (m,), or (m, K) for K classes

        Raises
        ------
        ParameterError
            If the model has neither a calibration nor the loss logistic or softmax; or if it was trained with
            offsets, and none are given.
        DataError
            If ``X`` is not a matrix of finite real numbers with ``n_features`` columns, or the offsets do not
            match.
        """
        return self.probabilities(self.decision_function(X, offset=offset))

    def probabilities(self, values: Vector) -> Vector:
        """Convert decision values to probabilities.

        Parameters
        ----------
        values : ndarray of float64, shape (m,), or (m, K) for K classes

        Returns
        -------
        ndarray of float64, of the shape of ``values``
            The probability of the larger label, calibrated if the model is; or of each class. With classes
            trained one against the rest it is as in LIBLINEAR: that of each logistic model, scaled to sum 1.

        Raises
        ------
        ParameterError
            If the model has neither a calibration nor the loss logistic or softmax.
        DataError
            If the values are not numbers, or their shape is wrong.
        """
        values = arguments.predictions(values, self.w.shape[1] if self.w.ndim > 1 else None)
        if self.calibration is not None:
            return self.calibration.probability(values)
        if self.loss == "softmax":
            return softmax(values)
        if self.loss == "logistic" and self.task == "multiclass":  # each against the rest
            return softmax(-np.logaddexp(0.0, -values))
        if not self.has_probabilities:
            raise ParameterError(
                f"probabilities: found a model with the loss {self.loss} and no calibration, expected one "
                "with a calibration, or with the loss logistic or softmax"
            )
        return logistic(values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, whole or not at all.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        OSError
            If the folder cannot be written or the disk is full.
        """
        write(path, *self.file_parts())

    def file_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and the tensors of the model file."""
        return parts_of(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a model file, or a model in LIBLINEAR's text format.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Model
            From LIBLINEAR's text it has lam 1, because the file does not say, and no certificate. Several
            classes have the task "multiclass", whatever the loss.

        Raises
        ------
        DataError
            If the file is not a model file, is truncated or damaged, or has a newer format.
        OSError
            If the file cannot be read.
        """
        return load_checked(path)[0]

    def export_liblinear(self, path: str | os.PathLike[str]) -> None:
        """Write the model as the text file that LIBLINEAR's ``predict`` reads.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        ParameterError
            If LIBLINEAR has no such model: the task is novelty, counts or several labels per row, a label is
            not an integer, features are numbered from 0, or it was trained with offsets.
        OSError
            If the folder cannot be written or the disk is full.

        References
        ----------
        Fan, Chang, Hsieh, Wang, Lin, LIBLINEAR, JMLR 9 (2008) 1871; its README, "Library Usage".
        """
        from bmrm.linear.models.liblinear import export

        if self.has_offset:
            raise ParameterError("model: found one trained with offsets, which LIBLINEAR does not have")
        export(path, self.w, self.intercept, loss=self.loss, classes=self.classes, zero_based=self.zero_based)


def load_checked(path: str | os.PathLike[str]) -> tuple[Model, str | None, Mapping[str, str]]:
    """Read a model, the checksum of its file (None if it has none), and all metadata."""
    from bmrm.linear.models import liblinear

    with open(path, "rb") as file:
        is_text = file.read(len(liblinear.START)) == liblinear.START
    if is_text:
        try:
            return Model(**liblinear.read_fields(path)), None, {}
        except DataError as error:
            raise DataError(f"{os.fspath(path)}: {error}") from None
    return read(path, Model)


def _cast_labels(labels: Labels, label_type: str) -> Labels:
    """Convert labels to the type of this name; raise if it does not hold them exactly."""
    if label_type in LABEL_TYPES and (labels.dtype.kind == "U") == (label_type == "str"):
        with np.errstate(all="ignore"):
            found = labels.astype(label_type)
        if (found == labels).all():
            return found
    raise DataError(f"model: found labels that are not of type {label_type!r}, expected labels of that type")
