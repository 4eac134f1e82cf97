{{/* Name of every object: that of the release, which names the chart. */}}
{{- define "gas-suggestion.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods. The job of the alerts is the first one's value. */}}
{{- define "gas-suggestion.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gas-suggestion.labels" -}}
{{ include "gas-suggestion.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "gas-suggestion.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository .Values.image.tag -}}
{{- end -}}
{{- end -}}

{{/* The workload's kind: only instances of a StatefulSet have a volume each. */}}
{{- define "gas-suggestion.kind" -}}
{{- if eq .Values.history.volume "claim" }}StatefulSet{{ else }}Deployment{{ end -}}
{{- end -}}

{{/* Whether there may be more than one instance: "true" or empty. */}}
{{- define "gas-suggestion.isReplicated" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}true{{ end -}}
{{- end -}}

{{/* Kind of the object with the configuration: the URLs of webhooks are secrets. */}}
{{- define "gas-suggestion.configKind" -}}
{{- if regexMatch "(?m)^\\s*(\\[\\[\\s*alerts|alerts\\s*=)" .Values.config }}Secret{{ else }}ConfigMap{{ end }}
{{- end }}
