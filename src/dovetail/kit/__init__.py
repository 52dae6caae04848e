"""What a board gets that is not a server: the runtime as a wheel of its own, and a kit to copy there."""

from dovetail.kit.examples import example_files, runner_sources
from dovetail.kit.kit import KitOptions, needed_libraries, needed_packages, write_kit
from dovetail.kit.recorded import RecordedRuntime, is_result
from dovetail.kit.wheel import wheel_name, write_board_wheel

__all__ = [
    "KitOptions",
    "RecordedRuntime",
    "example_files",
    "is_result",
    "needed_libraries",
    "needed_packages",
    "runner_sources",
    "wheel_name",
    "write_board_wheel",
    "write_kit",
]
