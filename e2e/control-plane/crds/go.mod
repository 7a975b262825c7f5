// Modules with CRDs. The chart has objects of Prometheus Operator's kinds, and the operator makes
// ProvisioningRequests of Cluster Autoscaler's. Nothing of them is built.
module trellis.dev/control-plane/crds

go 1.26.0

require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	k8s.io/autoscaler/cluster-autoscaler/apis v0.0.0-20240830133931-adfbe7e45277
)
