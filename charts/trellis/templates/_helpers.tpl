{{/*
Refuses labels and annotations in values that the chart sets itself. A repeated key is not valid
YAML, and selectors of Services, the ServiceMonitor, the leader and aggregated roles depend on these
keys. The schema does not check this, because Helm reports a wrong path for a key that a schema
refuses.
*/}}
{{- define "trellis.refuseOwn" -}}
{{- range $key, $_ := .labels }}
{{- if regexMatch $.own $key }}
{{- fail (printf "%s must not have %q: the chart sets this key itself, or selects its objects by it; remove the key" $.at $key) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "trellis.refuseOwnLabels" -}}
{{- include "trellis.refuseOwn" (merge (dict "own" "^(helm\\.sh/chart$|app\\.kubernetes\\.io/(name|instance|version|part-of|managed-by)$|trellis\\.dev/|rbac\\.authorization\\.k8s\\.io/|pod-security\\.kubernetes\\.io/)") .) -}}
{{- end }}

{{/* The labels of every object, with commonLabels and `labels`. For the same key, `labels` wins. */}}
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

{{/* The label that selects the operator's pods. It never changes. */}}
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

{{/* The Secret with the endpoint's certificate. Empty: the operator makes the certificate. */}}
{{- define "trellis.endpointSecret" -}}
{{- if .Values.endpoint.tlsSecret -}}
{{ .Values.endpoint.tlsSecret }}
{{- else if eq .Values.certificates.source "certManager" -}}
trellis-endpoint-tls
{{- end -}}
{{- end }}

{{/*
Renders the objects of a plain file with the release's namespace, labels and `annotations`. `kubectl
apply` accepts the plain file itself. The template inserts text and does not parse YAML, so numbers
keep their form. The argument is a dict with root, text and, optionally, annotations.
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

{{/*
What writes the requester stamp of a job: policy, webhook or none. `helm template` sees no cluster
and knows no kinds; then the version decides (--kube-version).
*/}}
{{- define "trellis.requesterStamp" -}}
{{- $wanted := .Values.admission.requesterStamp -}}
{{- $seesCluster := .Capabilities.APIVersions.Has "v1/Pod" -}}
{{- $hasPolicies := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- if not $seesCluster -}}
{{- $hasPolicies = semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- end -}}
{{- if and (eq $wanted "policy") (not $hasPolicies) -}}
{{- fail (printf "admission.requesterStamp=policy needs MutatingAdmissionPolicy in v1, which Kubernetes %s lacks; set webhook or auto" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and (eq $wanted "webhook") (not .Values.webhook.enabled) -}}
{{- fail "admission.requesterStamp=webhook needs the webhook; set webhook.enabled to true, or admission.requesterStamp to none" -}}
{{- end -}}
{{- if ne $wanted "auto" -}}
{{ $wanted }}
{{- else if $hasPolicies -}}
policy
{{- else if .Values.webhook.enabled -}}
webhook
{{- else -}}
none
{{- end -}}
{{- end }}

{{/*
The CRD for Kubernetes 1.33, whose API server assumes for the cost of a rule that an amount is
megabytes long, and refuses rules about the amounts in long lists. A pattern replaces the rule of
amounts that must not be negative. Other rules about amounts in TrainingJobs hold always: the
webhook and the operator check them.
*/}}
{{- define "trellis.crdFor133" -}}
{{- $amount := "^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$$" -}}
{{- $bounds := printf "${1}minimum: 0\n${1}pattern: '%s'\n${1}x-kubernetes-int-or-string: true" $amount -}}
{{- $notNegative := "(?m)^( +)x-kubernetes-int-or-string: true\n +x-kubernetes-validations:\n.*\n +rule: \"type\\(self\\) == int \\? self >= 0 : .*$" -}}
{{- $text := regexReplaceAll $notNegative . $bounds -}}
{{- if contains "\n    kind: TrainingJob\n" $text -}}
{{- $text = regexReplaceAll "(?m)^( +)rule: .*uantity\\(.*$" $text "${1}rule: \"true\"" -}}
{{- end -}}
{{ $text }}
{{- end }}
