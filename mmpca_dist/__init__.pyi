import typing as t

import mmpca_dist.methods.base.reducer

from .configuration.schema import RunConfig as RunConfig
from .configuration.schema import load_config as load_config
from .jobs.events import Callback as Callback
from .jobs.events import ProgressLines as ProgressLines
from .jobs.finished_runs import load_maps as load_maps
from .jobs.finished_runs import load_moments as load_moments
from .methods.all_columns import AllColumns as AllColumns
from .methods.base.row_features import NystroemFeatures as NystroemFeatures
from .methods.base.row_features import RandomFourierFeatures as RandomFourierFeatures
from .methods.concept_eraser import ConceptEraser as ConceptEraser
from .methods.contrast import ScatterContrast as ScatterContrast
from .methods.fisher_discriminant import FisherDiscriminant as FisherDiscriminant
from .methods.fisher_score import FisherScore as FisherScore
from .methods.lasso import LassoSelection as LassoSelection
from .methods.lol import LOL as LOL
from .methods.margin_pca import MarginPCA as MarginPCA
from .methods.maximum_margin_criterion import MaximumMarginCriterion as MaximumMarginCriterion
from .methods.pls import PLS as PLS
from .methods.random_projection import RandomProjection as RandomProjection
from .methods.ridge import RidgeDirections as RidgeDirections
from .methods.supervised_pca import SupervisedPCA as SupervisedPCA
from .models.bayesian_margin.estimators import BayesianMarginPCA as BayesianMarginPCA
from .models.bayesian_margin.estimators import BayesianMarginRegressor as BayesianMarginRegressor
from .models.logistic_discriminant.estimator import LogisticDiscriminant as LogisticDiscriminant
from .models.projection_penalty.estimators import ProjectionPenaltyClassifier as ProjectionPenaltyClassifier
from .models.projection_penalty.estimators import ProjectionPenaltyRegressor as ProjectionPenaltyRegressor
from .models.projection_penalty.kernel.classifier import (
    KernelProjectionPenaltyClassifier as KernelProjectionPenaltyClassifier,
)
from .models.projection_penalty.kernel.generalized_discriminant import (
    GeneralizedDiscriminantAnalysis as GeneralizedDiscriminantAnalysis,
)
from .models.projection_penalty.kernel.orthogonal_laplacian import (
    OrthogonalLaplacianProjection as OrthogonalLaplacianProjection,
)
from .neighbors.estimator import NearestOpposite as NearestOpposite
from .pictures.displays import LoadingsDisplay as LoadingsDisplay
from .pictures.displays import ReductionDisplay as ReductionDisplay
from .pictures.displays import SpectrumDisplay as SpectrumDisplay
from .runs.fit import run as run
from .runs.outcomes import FinishedEvaluation as FinishedEvaluation
from .runs.outcomes import FinishedRun as FinishedRun
from .runs.outcomes import TransformedRows as TransformedRows
from .runs.outcomes import to_anndata as to_anndata
from .runs.python_api import evaluate as evaluate
from .runs.python_api import refresh as refresh
from .runs.python_api import transform as transform
from .statistics.cells import CellMoments as CellMoments
from .statistics.cells import cell_moments as cell_moments
from .statistics.from_rows import class_moments as class_moments
from .statistics.moments import ClassMoments as ClassMoments
from .tables.compose import open_dataset as open_dataset

__version__: str

if not t.TYPE_CHECKING:  # loaded from there; checkers read the types below
    from .jobs.finished_runs import load_model as load_model

@t.overload
def load_model(
    output: str, method: t.Literal["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2"], n_components: int | None = None
) -> MarginPCA: ...
@t.overload
def load_model(output: str, method: t.Literal["bm2pca"], n_components: int | None = None) -> BayesianMarginPCA: ...
@t.overload
def load_model(output: str, method: t.Literal["fisher"], n_components: int | None = None) -> FisherDiscriminant: ...
@t.overload
def load_model(
    output: str, method: t.Literal["contrast", "whitening"], n_components: int | None = None
) -> ScatterContrast: ...
@t.overload
def load_model(output: str, method: t.Literal["erase"], n_components: int | None = None) -> ConceptEraser: ...
@t.overload
def load_model(output: str, method: t.Literal["lol"], n_components: int | None = None) -> LOL: ...
@t.overload
def load_model(output: str, method: t.Literal["mmc"], n_components: int | None = None) -> MaximumMarginCriterion: ...
@t.overload
def load_model(output: str, method: t.Literal["hsic"], n_components: int | None = None) -> SupervisedPCA: ...
@t.overload
def load_model(
    output: str, method: t.Literal["logistic-discriminant"], n_components: int | None = None
) -> LogisticDiscriminant: ...
@t.overload
def load_model(output: str, method: t.Literal["pls"], n_components: int | None = None) -> PLS: ...
@t.overload
def load_model(output: str, method: t.Literal["ridge"], n_components: int | None = None) -> RidgeDirections: ...
@t.overload
def load_model(
    output: str, method: t.Literal["projection-penalty"], n_components: int | None = None
) -> ProjectionPenaltyClassifier: ...
@t.overload
def load_model(output: str, method: t.Literal["fisher-score"], n_components: int | None = None) -> FisherScore: ...
@t.overload
def load_model(output: str, method: t.Literal["lasso"], n_components: int | None = None) -> LassoSelection: ...
@t.overload
def load_model(output: str, method: t.Literal["all-columns"], n_components: int | None = None) -> AllColumns: ...
@t.overload
def load_model(
    output: str, method: t.Literal["random-projection"], n_components: int | None = None
) -> RandomProjection: ...
@t.overload
def load_model(
    output: str, method: str, n_components: int | None = None
) -> mmpca_dist.methods.base.reducer.MomentReducer: ...
