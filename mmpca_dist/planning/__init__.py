"""What a run will cost, before it reads a row: passes, bytes, operations, memory, disk, time."""

from mmpca_dist.planning.choosing import Choosing
from mmpca_dist.planning.evaluating import Judging, plan_evaluation
from mmpca_dist.planning.making import Request, make_plan, plan_moments, plan_projection, search_in_memory
from mmpca_dist.planning.plan import PassPlan, Plan, Resources

__all__ = [
    "Choosing",
    "Judging",
    "PassPlan",
    "Plan",
    "Request",
    "Resources",
    "make_plan",
    "plan_evaluation",
    "plan_moments",
    "plan_projection",
    "search_in_memory",
]
