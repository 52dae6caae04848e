"""Plans: what the machine obeys; recipes: what a person writes.

A board needs plans only: what makes them is loaded when it is asked for.
"""

import typing as _typing

from dovetail._lazy import exports as _exports

if _typing.TYPE_CHECKING:
    from dovetail.plan.limits import Group as Group
    from dovetail.plan.limits import Limits as Limits
    from dovetail.plan.placement import Placement as Placement
    from dovetail.plan.placement import parse_placement as parse_placement
    from dovetail.plan.plan import Override as Override
    from dovetail.plan.plan import Plan as Plan
    from dovetail.plan.plan import load_plan as load_plan
    from dovetail.plan.recipe import Recipe as Recipe
    from dovetail.plan.recipe import Rule as Rule
    from dovetail.plan.recipe import load_recipe as load_recipe
    from dovetail.plan.resolve import make_plan as make_plan
    from dovetail.plan.rewrite import plan_to_recipe as plan_to_recipe
    from dovetail.plan.rewrite import recipe_to_toml as recipe_to_toml
    from dovetail.plan.units import Unit as Unit
    from dovetail.plan.units import find_units as find_units
    from dovetail.plan.verdicts import Verdicts as Verdicts
    from dovetail.plan.verdicts import explain as explain

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = _exports(
        __name__,
        {
            "dovetail.plan.limits": ("Group", "Limits"),
            "dovetail.plan.placement": ("Placement", "parse_placement"),
            "dovetail.plan.plan": ("Override", "Plan", "load_plan"),
            "dovetail.plan.recipe": ("Recipe", "Rule", "load_recipe"),
            "dovetail.plan.resolve": ("make_plan",),
            "dovetail.plan.rewrite": ("plan_to_recipe", "recipe_to_toml"),
            "dovetail.plan.units": ("Unit", "find_units"),
            "dovetail.plan.verdicts": ("Verdicts", "explain"),
        },
    )
