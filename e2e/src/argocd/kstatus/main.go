// Says what kstatus makes of objects, by the library that Flux is made with. Reads them from
// stdin, one after the other, and prints a line of JSON for each.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	decoder := json.NewDecoder(os.Stdin)
	for decoder.More() {
		var text json.RawMessage
		fail(decoder.Decode(&text))
		// Its own decoder tells whole numbers from others.
		object := &unstructured.Unstructured{}
		fail(object.UnmarshalJSON(text))
		result, err := status.Compute(object)
		fail(err)
		line, err := json.Marshal(map[string]string{
			"status":  result.Status.String(),
			"message": result.Message,
		})
		fail(err)
		fmt.Println(string(line))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
