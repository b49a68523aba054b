"""The manifests of the API contract, as users write them, for `test_crds`. NAME stands for a unique name."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    name: str
    text: str


EXAMPLES = (
    Example(
        "class",
        """
apiVersion: sparksql.dev/v1alpha1
kind: SqlSessionClass
metadata:
  name: NAME
  annotations: {sparksql.dev/is-default-class: "true"}
spec:
  description: Shared-nothing sessions on the general node pool
  image: registry.example/spark-sql-session:4.1.4
  imagePullPolicy: IfNotPresent
  defaults:
    driver: {cpu: "1", memory: 1Gi}
    executors: {instances: 1, cpu: "1", memory: 1Gi}
    conf: {spark.sql.session.timeZone: UTC}
    idle: {timeoutSeconds: 300, action: Close}
    statementTimeouts: {queueSeconds: 0, executionSeconds: 0}
  enforcedConf: {}
  limits: {driver: {cpu: "4", memory: 8Gi}, executors: {instances: 20, cpu: "4", memory: 8Gi},
           sessionsPerNamespace: 50, queuedStatementsPerSession: 1000, executionSeconds: 0, previewRows: 100}
  allow:
    namespaces: {matchLabels: {}}
    images: []
    serviceAccounts: [spark]
    conf: ["spark.sql.*", "spark.executor.memoryOverhead*"]
    jarPrefixes: []
  serviceAccount: {create: true, name: spark}
  podTemplate: {driver: {}, executor: {spec: {nodeSelector: {pool: spark}, tolerations: [{key: spark}]}}}
  storage:
    volumeClaim: {name: spark-data, mountPath: /data}
    warehouse: file:///data/warehouse
    checkpointRoot: file:///data/checkpoints
    savepointRoot: file:///data/savepoints
    resultRoot: file:///data/results
  scheduling: {schedulerName: "", queueLabel: {}, priorityClassName: ""}
  networkPolicy: {enabled: true, clients: [{namespaceSelector: {matchLabels: {team: bi}}}]}
  warmPool: {size: 0, maxAgeSeconds: 3600}
""",
    ),
    Example(
        "session",
        """
apiVersion: sparksql.dev/v1alpha1
kind: SqlSession
metadata: {name: analytics}
spec:
  className: standard
  desiredState: Running
  driver: {cpu: 1, memory: 1Gi}
  executors: {min: 0, max: 10, cpu: 500m, memory: 2147483648}
  conf: {spark.sql.shuffle.partitions: "8"}
  init:
    - sql: CREATE DATABASE IF NOT EXISTS sales
    - sqlFrom: {configMapKeyRef: {name: session-init, key: init.sql}}
  serviceAccountName: spark
  idle: {timeoutSeconds: 300, action: Close}
  maxLifetimeSeconds: 0
  maxConcurrentStatements: 4
  maxQueuedStatements: 1000
  endpoints: {rest: true, connect: false, thrift: false}
  restartNonce: ""
""",
    ),
    Example(
        "statement",
        """
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: daily-revenue}
spec:
  sessionRef: {name: analytics}
  sql: |
    INSERT INTO sales.revenue SELECT day, sum(amount) FROM sales.orders WHERE day = :day GROUP BY day
  mode: Execute
  parameters:
    - {name: day, value: "2026-01-31", type: DATE}
    - {name: key, valueFrom: {secretKeyRef: {name: s, key: k}}}
  conf: {spark.sql.shuffle.partitions: "4"}
  timeouts: {queueSeconds: 600, executionSeconds: 3600}
  desiredState: Running
  runNonce: ""
  retry: {limit: 0, backoffSeconds: 10, on: [SessionLost]}
  dependsOn: [{name: create-orders}]
  priority: 0
  result: {maxRows: 1000, previewRows: 20, retentionSeconds: 3600}
  ttlSecondsAfterFinished: null
""",
    ),
    Example(
        "streaming",
        """
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: orders-stream}
spec:
  session: {className: standard, executors: {instances: 2}, init: [{sql: USE sales}]}
  sqlFrom: {configMapKeyRef: {name: pipelines, key: orders.sql}}
  streaming:
    trigger: {mode: Auto, intervalMillis: 10000, maxRowsPerTrigger: 0, maxFilesPerTrigger: 0}
    outputMode: Append
    upsert: {keys: [id], orderBy: updated_at, deleteWhen: "op = 'd'", deletedRetentionSeconds: 86400}
    lookups: [{table: customers, latencyMillis: 5000, rows: 10000, ttlSeconds: 600}]
    upgradeMode: LastState
    startFrom: {savepointRef: {name: before-release}}
    restoreNonce: ""
    onIncompatible: Park
    savepoints:
      schedule: {cron: "0 * * * *", timezone: UTC, paused: false, jitterSeconds: 60, catchUp: true}
      retention: {keepLast: 5, keepWithinSeconds: 86400, keepHourly: 24, keepDaily: 7, keepWeekly: 4}
      onDelete: Retain
    restart: {limit: 10, backoffSeconds: 10, resetAfterSeconds: 600}
""",
    ),
    Example(
        "savepoint",
        """
apiVersion: sparksql.dev/v1alpha1
kind: SqlSavepoint
metadata: {name: before-release}
spec:
  statementRef: {name: orders-stream}
  source: Copy
  location: null
  reclaimPolicy: Retain
  pinned: false
  timeoutSeconds: 600
  backoffLimit: 3
""",
    ),
)
