"""What a run will cost, before it reads a row: passes, bytes, operations, memory, disk, time."""

from mmpca_dist.planning.choosing import plan_run
from mmpca_dist.planning.evaluating import plan_evaluation
from mmpca_dist.planning.making import Request, plan_moments, plan_projection, search_in_memory
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.planning.scoring import Judging

__all__ = [
    "Judging",
    "PassPlan",
    "Plan",
    "Request",
    "Resources",
    "plan_evaluation",
    "plan_moments",
    "plan_projection",
    "plan_run",
    "search_in_memory",
]
