// Tells what kstatus, and with it Flux and kpt, makes of Kubernetes objects: a JSON list on stdin, a list of answers on stdout.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func answers(input io.Reader) ([]answer, error) {
	var documents []json.RawMessage
	if err := json.NewDecoder(input).Decode(&documents); err != nil {
		return nil, err
	}
	found := []answer{}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		// Its own decoder makes integers of whole numbers; of floats kstatus takes none for a generation.
		if err := object.UnmarshalJSON(document); err != nil {
			return nil, err
		}
		result, err := status.Compute(object)
		if err != nil {
			return nil, err
		}
		found = append(found, answer{string(result.Status), result.Message})
	}
	return found, nil
}

func main() {
	found, err := answers(os.Stdin)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
