{{/*
Labels of values, without those of the chart's own: twice the same key is no YAML, and Services,
ServiceMonitor, the leader and people's roles are found by them. Not by the schema: Helm's tells a
wrong place of a key that it refuses.
*/}}
{{- define "trellis.refuseOwn" -}}
{{- range $key, $_ := .labels }}
{{- if regexMatch $.own $key }}
{{- fail (printf "%s must not have %q: the chart sets it itself, or finds its objects by it; leave it out" $.at $key) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "trellis.refuseOwnLabels" -}}
{{- include "trellis.refuseOwn" (merge (dict "own" "^(helm\\.sh/chart$|app\\.kubernetes\\.io/(name|instance|version|part-of|managed-by)$|trellis\\.dev/|rbac\\.authorization\\.k8s\\.io/)") .) -}}
{{- end }}

{{/* What each object bears, with what `labels` of this one has besides, which counts more. */}}
{{- define "trellis.labelsWith" -}}
{{- include "trellis.refuseOwnLabels" (dict "at" "commonLabels" "labels" .root.Values.commonLabels) -}}
{{- include "trellis.refuseOwnLabels" . -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trellis
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with merge (dict) .labels (.root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "trellis.labels" -}}
{{- include "trellis.labelsWith" (dict "root" . "at" "" "labels" dict) -}}
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
