// CoreDNS with what the names of Services need, and nothing of its forty other plugins.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query goes through them.
	dnsserver.Directives = []string{"bind", "ready", "errors", "cache", "kubernetes"}
	coremain.Run()
}
