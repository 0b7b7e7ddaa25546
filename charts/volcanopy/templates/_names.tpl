{{- define "volcanopy.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 30 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- /* The labels of an object; takes a dict with root and, for an object of a part, part. */ -}}
{{- define "volcanopy.labels" -}}
{{ include "volcanopy.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "volcanopy.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .part }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- /* The metadata of a part's object in the namespace of the release. */ -}}
{{- define "volcanopy.metadata" -}}
name: {{ include "volcanopy.fullname" .root }}-{{ .part }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "volcanopy.labels" . | nindent 2 }}
{{- end -}}

{{- /* The same for a cluster-scoped object. */ -}}
{{- define "volcanopy.clusterMetadata" -}}
name: {{ include "volcanopy.fullname" .root }}-{{ .part }}
labels:
  {{- include "volcanopy.labels" . | nindent 2 }}
{{- end -}}

{{- define "volcanopy.controllerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "volcanopy.fullname" . }}-controller
{{- end -}}

{{- /* "yes" if admission validates pods of jobs with dry runs, else nothing. */ -}}
{{- define "volcanopy.tries" -}}
{{- if ne (.Values.admission.policy.podRejected | default "reject") "allow" -}}yes{{- end -}}
{{- end -}}

{{- /* Checks that values.schema.json cannot express. */ -}}
{{- define "volcanopy.check" -}}
{{- range $part := list "scheduler" "controller" -}}
{{- $values := index $.Values $part -}}
{{- if and (gt (int $values.replicas) 1) (not $values.leaderElection) -}}
{{- fail (printf "%s.replicas is %d and %s.leaderElection is false: two replicas would act at the same time; set leaderElection to true or replicas to 1" $part (int $values.replicas) $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The image of all parts: with a digest, the tag is for readers only. */ -}}
{{- define "volcanopy.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- with .Values.image.digest -}}
{{- $image = printf "%s@%s" $image . -}}
{{- end -}}
{{- $image -}}
{{- end -}}
