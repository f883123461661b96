"""What multipliers prove, whoever found them and however wrong they are."""

from counterpoint.duality.curvature import Curvature
from counterpoint.duality.weak import Duality, one_row_bound

__all__ = ["Curvature", "Duality", "one_row_bound"]
