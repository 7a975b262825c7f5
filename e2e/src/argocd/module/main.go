// The two programs of Argo CD that the tests run, its own code unchanged, in one binary: all of
// Argo CD takes twice as long to build. As `kustomize` it is Kustomize, which Argo CD calls. Two
// more are for tests: `health` judges objects by Argo CD's own Lua, and `redis` is for machines
// without a redis-server.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	kustomize "sigs.k8s.io/kustomize/kustomize/v5/commands"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/askpass"
	"github.com/argoproj/argo-cd/v3/util/log"
)

func init() {
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
}

func main() {
	// Two of them on one machine must not share it.
	askpass.SocketPath = filepath.Join(os.TempDir(), "ask-pass.sock")
	root := &cobra.Command{Use: "argocd", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(controller.NewCommand(), reposerver.NewCommand(), judge(), redis())
	if filepath.Base(os.Args[0]) == "kustomize" {
		root = kustomize.NewDefaultCommand()
	}
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
