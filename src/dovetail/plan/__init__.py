"""Plans: what the machine obeys; recipes: what a person writes."""

from dovetail.plan.explain import Verdicts, explain
from dovetail.plan.limits import Group, Limits
from dovetail.plan.placement import Placement, parse_placement
from dovetail.plan.plan import Override, Plan, load_plan
from dovetail.plan.recipe import Recipe, Rule, load_recipe
from dovetail.plan.resolve import make_plan
from dovetail.plan.rewrite import plan_to_recipe, recipe_to_toml
from dovetail.plan.units import Unit, find_units

__all__ = [
    "Group",
    "Limits",
    "Override",
    "Placement",
    "Plan",
    "Recipe",
    "Rule",
    "Unit",
    "Verdicts",
    "explain",
    "find_units",
    "load_plan",
    "load_recipe",
    "make_plan",
    "parse_placement",
    "plan_to_recipe",
    "recipe_to_toml",
]
