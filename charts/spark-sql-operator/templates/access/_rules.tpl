{{/* The operator's rights in a namespace that it works in. Each line is needed by one named thing that it does. */}}
{{- define "sso.namespacedRules" -}}
# Watch our kinds; patch sets the finalizer, the status has its own right.
- apiGroups: [sparksql.dev]
  resources: [sqlsessions, sqlstatements, sqlsavepoints]
  verbs: [get, list, watch, patch]
- apiGroups: [sparksql.dev]
  resources: [sqlsessions/status, sqlstatements/status, sqlsavepoints/status]
  verbs: [patch]
# Children whose owner reference blocks the owner's deletion.
- apiGroups: [sparksql.dev]
  resources: [sqlsessions/finalizers, sqlstatements/finalizers]
  verbs: [update]
# A dedicated session is made for its statement and removed at its end.
- apiGroups: [sparksql.dev]
  resources: [sqlsessions]
  verbs: [create, delete]
# Savepoints before a stop and on a schedule are made; retention, and onDelete of a statement, remove them.
- apiGroups: [sparksql.dev]
  resources: [sqlsavepoints]
  verbs: [create, delete]
# ttlSecondsAfterFinished.
- apiGroups: [sparksql.dev]
  resources: [sqlstatements]
  verbs: [delete]
# Drivers, and old executors that a lost driver left behind; patch gives a driver of a warm pool to its session.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
# A session's token, certificate and configuration, what its executors prove themselves with; parameters named by statements. Never
# listed, never watched.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
# SQL, init files and parameters named by statements and sessions.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch, delete]
# A missing volumeClaim is reported before a driver hangs on it.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
# A Job deletes a savepoint's data; Kubernetes removes the Job. The operator deletes one whose UID it could not record.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
# The session's service account, bound to the one driver role and to no other.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [spark-sql-driver]
  verbs: [bind]
# Its own are written; those of one pod are listed while it waits without a reason in its status.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list]
{{- end -}}
