"""`kubectl sparksql config`: what the session's status says, as a table and as JSON."""

from __future__ import annotations

import json

from tests.integration.cli.cli_cluster import Cluster, session_status

ENTRIES = [
    {"name": "conf.spark.sql.ansi.enabled", "value": "false", "layer": "ClassEnforced"},
    {"name": "driver.memory", "value": "1Gi", "layer": "Operator"},
]


def test_cli_config_shows_each_value_and_its_layer(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    cluster.write_status("sqlsessions", "analytics", {**session_status(), "configuration": ENTRIES})
    assert json.loads(cluster.run("config", "analytics", "-o", "json").stdout) == ENTRIES
    done = cluster.run("config", "analytics")
    assert (done.returncode, [line.split() for line in done.stdout.splitlines()]) == (
        0,
        [
            ["SETTING", "VALUE", "FROM"],
            ["conf.spark.sql.ansi.enabled", "false", "ClassEnforced"],
            ["driver.memory", "1Gi", "Operator"],
        ],
    )


def test_config_of_a_session_that_never_started_says_so(cluster: Cluster) -> None:
    cluster.create("sqlsessions", "SqlSession", "new", {"className": "standard"})
    done = cluster.run("config", "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has not started a driver yet" in done.stderr
