from .configuration.schema import RunConfig as RunConfig
from .configuration.schema import load_config as load_config
from .jobs.finished_runs import load_maps as load_maps
from .jobs.finished_runs import load_model as load_model
from .jobs.finished_runs import load_moments as load_moments
from .methods.all_columns import AllColumns as AllColumns
from .methods.base.row_features import NystroemFeatures as NystroemFeatures
from .methods.base.row_features import RandomFourierFeatures as RandomFourierFeatures
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
from .runs.stages import run as run
from .statistics.gather import class_moments as class_moments
from .statistics.moments import ClassMoments as ClassMoments
from .tables.readers.formats import open_dataset as open_dataset

__version__: str
