"""All pictures of a run's report."""

from __future__ import annotations

from mmpca_dist.report.choices import choices
from mmpca_dist.report.contents import ReportContents
from mmpca_dist.report.convergence import convergence
from mmpca_dist.report.drawing import Figure
from mmpca_dist.report.loadings import loadings
from mmpca_dist.report.margins import margins
from mmpca_dist.report.projections import projections
from mmpca_dist.report.reconstructions import reconstructions
from mmpca_dist.report.spectra import agreement, spectra


def figures(contents: ReportContents) -> list[Figure]:
    """Return the pictures of a run, in reading order; those that would show nothing are left out.

    ``choice`` (errors against numbers of components, where these were chosen), ``projection`` (rows along two
    components), ``margins`` and ``margins-kept`` (distances to the nearest row of another class, where m-pca2 sought
    them), ``spectrum`` and ``spectrum-by-method`` (eigenvalues), ``convergence`` (residuals after every pass of a
    solver in passes), ``components`` (images) or ``loadings`` (bars), ``reconstructions`` (of rows that are images,
    from few components), ``agreement`` (between methods). May be called from several threads at once.
    """
    return [
        *choices(contents),
        *projections(contents),
        *margins(contents),
        *spectra(contents.solved),
        *convergence(contents.solved, contents.tolerance),
        *loadings(contents),
        *reconstructions(contents),
        *agreement(contents.solved),
    ]
