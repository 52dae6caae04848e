"""Converters whose packages fight: each in an environment of its own, made on first use, run out of process."""

from dovetail.environments.cache import cache_key, clear_cache, converted_bytes, find_converted, keep_converted
from dovetail.environments.catalogue import ENVIRONMENTS, Environment, find_environment
from dovetail.environments.install import Progress, make_environment, remove_environment
from dovetail.environments.location import EnvironmentState, State, state_of
from dovetail.environments.process import ConversionJob, run_job

__all__ = [
    "ENVIRONMENTS",
    "ConversionJob",
    "Environment",
    "EnvironmentState",
    "Progress",
    "State",
    "cache_key",
    "clear_cache",
    "converted_bytes",
    "find_converted",
    "find_environment",
    "keep_converted",
    "make_environment",
    "remove_environment",
    "run_job",
    "state_of",
]
