"""Laws of noise on the weights of a linear score, and what they do to it: exact quantiles of φᵀμ.

Weights w̃ that were released with noise, were estimated from a sample, or would come out a little
different after another training, decide by φᵀw̃ = φᵀw + φᵀμ. How sure a decision is depends on the
law of one number, φᵀμ, and that law is exact here.

======================  ====================================  ==========================
law                     μ                                     quantile of φᵀμ
======================  ====================================  ==========================
`ProjectedLaplace`      independent Laplace variables         a norm of φ, by integration
`ProjectedGamma`        density ∝ exp(−‖μ‖₂ / s)              a multiple of ‖φ‖₂
`ProjectedGaussian`     normal, any covariance                Φ⁻¹(p) ‖factorᵀ φ‖₂
======================  ====================================  ==========================
"""

from __future__ import annotations

from counterpoint.noise.laws import (
    NoiseLaw,
    ProjectedGamma,
    ProjectedGaussian,
    ProjectedLaplace,
)

__all__ = [
    "NoiseLaw",
    "ProjectedGamma",
    "ProjectedGaussian",
    "ProjectedLaplace",
]
