package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
)

const tries = 5

// Reads objects from stdin, one after the other, and prints the health of each as a line of JSON:
// `null` where nothing judges it.
func judge() *cobra.Command {
	var scripts map[string]string
	command := &cobra.Command{
		Use:   "health",
		Short: "Judges objects by Lua, as the application-controller does",
		RunE: func(*cobra.Command, []string) error {
			overrides := map[string]v1alpha1.ResourceOverride{}
			for kind, file := range scripts {
				script, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				overrides[kind] = v1alpha1.ResourceOverride{HealthLua: string(script)}
			}
			decoder := json.NewDecoder(os.Stdin)
			for decoder.More() {
				var text json.RawMessage
				if err := decoder.Decode(&text); err != nil {
					return err
				}
				// Its own decoder tells whole numbers from others.
				object := &unstructured.Unstructured{}
				if err := object.UnmarshalJSON(text); err != nil {
					return err
				}
				found, err := health.GetResourceHealth(object, lua.ResourceHealthOverrides(overrides))
				// A script has one second, which may be short on a machine that does much else.
				for try := 1; err != nil && try < tries; try++ {
					found, err = health.GetResourceHealth(object, lua.ResourceHealthOverrides(overrides))
				}
				if err != nil {
					return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
				}
				line, err := json.Marshal(found)
				if err != nil {
					return err
				}
				fmt.Println(string(line))
			}
			return nil
		},
	}
	command.Flags().StringToStringVar(&scripts, "lua", nil, "GROUP/KIND=FILE, any number")
	return command
}
