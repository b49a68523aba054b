{{/* The name is fixed: it is the address that users are told. */}}
{{- define "sso.frontName" -}}spark-sql-front{{- end -}}

{{- define "sso.frontSelector" -}}
app.kubernetes.io/name: spark-sql-front
app.kubernetes.io/component: front
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The front's rights in a namespace. */}}
{{- define "sso.frontRules" -}}
# Which sessions there are; `create` for a user's own, `patch` to wake one, `delete` for one that was made for a connection. The
# admission policy holds it to these.
- apiGroups: [sparksql.dev]
  resources: [sqlsessions]
  verbs: [get, list, watch, create, patch, delete]
{{- end -}}
