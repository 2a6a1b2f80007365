"""Real services as processes, for tests, the demo and benchmarks.

Nothing in this package imports pytest: fixtures live in the conftest files that use it.
See README.md in this folder for how to add a stand-in or an end-to-end test.
"""
