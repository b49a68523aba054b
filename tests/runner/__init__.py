"""Runs the levels of tests, shows how far they are, and reports what they cost. Start: `python -m tests.runner --help`.

`levels` defines the levels, `schedule` what runs beside what and how long it takes, `arguments` the command line, `run` starts
pytest for each level, `plugin` reports from inside pytest, `events` is what passes between the two, `screen` and `report` print.
"""
