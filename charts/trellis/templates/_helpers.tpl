{{/* What each object bears. */}}
{{- define "trellis.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trellis
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the operator's pods are known by, to the Services among others. It never changes. */}}
{{- define "trellis.selector" -}}
app.kubernetes.io/name: trellis-operator
{{- end }}

{{- define "trellis.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The Secret that the endpoint's certificate is in; empty: it makes its own. */}}
{{- define "trellis.endpointSecret" -}}
{{- if .Values.endpoint.tlsSecret -}}
{{ .Values.endpoint.tlsSecret }}
{{- else if eq .Values.certificates.source "certManager" -}}
trellis-endpoint-tls
{{- end -}}
{{- end }}

{{/*
The objects of a plain file, which `kubectl apply` takes as it is, with the release's namespace,
labels, and `annotations`. Text is put in and nothing is read as YAML: numbers stay as they are.
Called with a dict of root, text, and if there are any annotations.
*/}}
{{- define "trellis.objects" -}}
{{- $labels := include "trellis.labels" .root | indent 4 -}}
{{- $head := "" -}}
{{- with .annotations -}}
{{- $head = printf "  annotations:\n%s\n" (toYaml . | indent 4) -}}
{{- end -}}
{{- $namespace := printf "namespace: %s" .root.Release.Namespace -}}
{{- range $object := splitList "\n---\n" (trimPrefix "---\n" .text) }}
{{- $object = printf "\n%s" (trim $object) | replace "namespace: trellis-system" $namespace }}
{{- if contains "\n  labels:\n" $object }}
{{- $object = $object | replace "\n  labels:\n" (printf "\n  labels:\n%s\n" $labels) | replace "\nmetadata:\n" (printf "\nmetadata:\n%s" $head) }}
{{- else }}
{{- $object = $object | replace "\nmetadata:\n" (printf "\nmetadata:\n%s  labels:\n%s\n" $head $labels) }}
{{- end }}
---
{{- $object }}
{{- end }}
{{- end }}
