"""Mutation testing: a seeded sample of small changes to the code, each run against the tests that reach it."""
