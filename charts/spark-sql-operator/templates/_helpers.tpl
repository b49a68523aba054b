{{- define "sso.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "sso.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "sso.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object. They never hold app.kubernetes.io/name: that is the component's identity. */}}
{{- define "sso.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: spark-sql-operator
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Only operator pods carry these two labels together with the instance: tools find the operator by them. */}}
{{- define "sso.operatorSelector" -}}
app.kubernetes.io/name: spark-sql-operator
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sso.metastoreSelector" -}}
app.kubernetes.io/name: spark-sql-metastore
app.kubernetes.io/component: metastore
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sso.objectStoreSelector" -}}
app.kubernetes.io/name: spark-sql-objectstore
app.kubernetes.io/component: objectstore
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sso.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sso.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Image reference of a dict of `image` and `chart`. Without a tag it has the chart's version, or is the image of `make images`. */}}
{{- define "sso.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- $tag := ternary "dev" .chart.AppVersion (hasPrefix "localhost/" .image.repository) -}}
{{- printf "%s:%s" .image.repository (default $tag .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "sso.sessionImage" -}}
{{- include "sso.image" (dict "image" .Values.sessionImage "chart" .Chart) -}}
{{- end -}}

{{- define "sso.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sso.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "sso.metastoreName" -}}
{{- printf "%s-metastore" (include "sso.fullname" .) -}}
{{- end -}}

{{- define "sso.objectStoreName" -}}
{{- printf "%s-objectstore" (include "sso.fullname" .) -}}
{{- end -}}

{{/* Address of the metastore in use; empty when there is none. */}}
{{- define "sso.metastoreUris" -}}
{{- if .Values.metastore.externalUris -}}
{{- .Values.metastore.externalUris -}}
{{- else if .Values.metastore.enabled -}}
{{- printf "thrift://%s.%s.svc:9083" (include "sso.metastoreName" .) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "sso.runsMetastore" -}}
{{- if and .Values.metastore.enabled (not .Values.metastore.externalUris) -}}true{{- end -}}
{{- end -}}

{{/* A root of the default class: as given, else a folder of the object store, else one beside the given warehouse; in the
warehouse where that is a whole bucket. Empty when the chart knows no storage. Takes a dict of `root`, `key` and `folder`. */}}
{{- define "sso.storageRoot" -}}
{{- $values := .root.Values -}}
{{- $given := index $values.defaultClass.storage .key -}}
{{- if $given -}}
{{- $given -}}
{{- else if $values.objectStore.enabled -}}
{{- printf "s3a://%s/%s" (first $values.objectStore.buckets) .folder -}}
{{- else if $values.defaultClass.storage.warehouse -}}
{{- $warehouse := trimSuffix "/" $values.defaultClass.storage.warehouse -}}
{{- $parent := regexReplaceAll "/[^/]+$" $warehouse "" -}}
{{- printf "%s/%s" (ternary $warehouse $parent (regexMatch "^[^/]+://[^/]+$" $warehouse)) .folder -}}
{{- end -}}
{{- end -}}

{{- define "sso.warehouse" -}}
{{- include "sso.storageRoot" (dict "root" . "key" "warehouse" "folder" "tables") -}}
{{- end -}}

{{/* Hadoop settings (a YAML map) for the chart's own object store; an empty map without it. Files that are put into its folder
by hand, as the quickstart does, have no ETag, so s3a must not ask for one. */}}
{{- define "sso.objectStoreConf" -}}
{{- if .Values.objectStore.enabled -}}
fs.s3a.endpoint: {{ printf "http://%s.%s.svc:7070" (include "sso.objectStoreName" .) .Release.Namespace }}
fs.s3a.endpoint.region: us-east-1
fs.s3a.path.style.access: "true"
fs.s3a.change.detection.version.required: "false"
fs.s3a.connection.ssl.enabled: "false"
fs.s3a.aws.credentials.provider: org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider
fs.s3a.access.key: {{ required "objectStore.accessKey is required when objectStore.enabled" .Values.objectStore.accessKey | quote }}
fs.s3a.secret.key: {{ required "objectStore.secretKey is required when objectStore.enabled" .Values.objectStore.secretKey | quote }}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* A Hadoop XML file from a map. */}}
{{- define "sso.hadoopXml" -}}
<?xml version="1.0"?>
<configuration>
{{- range $key, $value := . }}
  <property><name>{{ $key }}</name><value>{{ $value | toString | html }}</value></property>
{{- end }}
</configuration>
{{- end -}}

{{/* Namespaces of sessions and of the chart's own pods: the listed ones, or all. Who may make pods there can label them so. */}}
{{- define "sso.sessionNamespaces" -}}
{{- if .Values.operator.watchNamespaces -}}
{{- $names := append .Values.operator.watchNamespaces .Release.Namespace | uniq -}}
matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: {{ toJson $names }}}]
{{- else -}}
{}
{{- end -}}
{{- end }}

{{/* Conditions under which a request comes from a driver, see the admission policies. */}}
{{- define "sso.byADriver" -}}
- name: by-a-service-account
  expression: request.userInfo.username.startsWith('system:serviceaccount:')
- name: bound-to-the-driver-role
  expression: >-
    authorizer.group('policy.sparksql.dev').resource('executors').namespace(request.namespace).check('launch').allowed()
    && !authorizer.group('policy.sparksql.dev').resource('executors').namespace(request.namespace).check('exempt').allowed()
{{- end }}

{{/* Requests of all but the operator, and administrators with all rights. */}}
{{- define "sso.notByTheOperator" -}}
- name: not-by-the-operator
  expression: >-
    request.userInfo.username != 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "sso.serviceAccountName" . }}'
- name: not-by-an-administrator
  expression: >-
    !authorizer.group('policy.sparksql.dev').resource('executors').namespace(request.namespace).check('exempt').allowed()
{{- end }}
