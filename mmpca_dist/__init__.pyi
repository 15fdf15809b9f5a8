from .configuration.schema import RunConfig as RunConfig
from .configuration.schema import load_config as load_config
from .datasets.readers.formats import open_dataset as open_dataset
from .jobs.finished_runs import load_model as load_model
from .jobs.finished_runs import load_moments as load_moments
from .kernels.generalized_discriminant import GeneralizedDiscriminantAnalysis as GeneralizedDiscriminantAnalysis
from .kernels.orthogonal_laplacian import OrthogonalLaplacianProjection as OrthogonalLaplacianProjection
from .kernels.projection_penalty import KernelProjectionPenaltyClassifier as KernelProjectionPenaltyClassifier
from .methods.all_columns import AllColumns as AllColumns
from .methods.bayesian_margin_pca import BayesianMarginPCA as BayesianMarginPCA
from .methods.bayesian_margin_pca import BayesianMarginRegressor as BayesianMarginRegressor
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
from .neighbors.estimator import NearestOpposite as NearestOpposite
from .runs.stages import run as run
from .statistics.gather import class_moments as class_moments
from .statistics.moments import ClassMoments as ClassMoments

__version__: str
