// Prometheus Operator's, of whose CRDs the chart has objects. Nothing of it is built.
module trellis.dev/control-plane/crds

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
