"""The parts of runtime.py: each measures in a process of its own."""
