"""Plans: what the machine obeys; recipes: what a person writes.

A board needs plans only: what makes them is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.plan.limits import Group, Limits
    from dovetail.plan.placement import Placement, parse_placement
    from dovetail.plan.plan import Override, Plan, load_plan
    from dovetail.plan.recipe import Recipe, Rule, load_recipe
    from dovetail.plan.resolve import make_plan
    from dovetail.plan.rewrite import plan_to_recipe, recipe_to_toml
    from dovetail.plan.units import Unit, find_units
    from dovetail.plan.verdicts import Verdicts, explain

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

_HOMES = {
    "verdicts": ("Verdicts", "explain"),
    "limits": ("Group", "Limits"),
    "placement": ("Placement", "parse_placement"),
    "plan": ("Override", "Plan", "load_plan"),
    "recipe": ("Recipe", "Rule", "load_recipe"),
    "resolve": ("make_plan",),
    "rewrite": ("plan_to_recipe", "recipe_to_toml"),
    "units": ("Unit", "find_units"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found
