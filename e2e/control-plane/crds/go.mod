// Whose CRDs the chart's objects are of that are not Kubernetes' own. Nothing of it is built.
module trellis.dev/control-plane/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
