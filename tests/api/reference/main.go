// Command reference applies patches with Kubernetes' own libraries, as kube-apiserver calls them. One JSON document a
// line in: the type of the patch, the object's kind, the object and the patch. One a line out: the result, or an error.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var kinds = map[string]any{
	"Deployment":              &apps.Deployment{},
	"HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
	"Pod":                     &core.Pod{},
	"ResourceClaim":           &resource.ResourceClaim{},
}

type question struct {
	Type   string
	Kind   string
	Object json.RawMessage
	Patch  json.RawMessage
}

type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func apply(q question) (json.RawMessage, error) {
	switch q.Type {
	case "merge":
		return jsonpatch.MergePatch(q.Object, q.Patch)
	case "json":
		patch, err := jsonpatch.DecodePatch(q.Patch)
		if err != nil {
			return nil, err
		}
		return patch.Apply(q.Object)
	case "strategic":
		object, patch := map[string]any{}, map[string]any{}
		if err := kubejson.Unmarshal(q.Object, &object); err != nil {
			return nil, err
		}
		if err := kubejson.Unmarshal(q.Patch, &patch); err != nil {
			return nil, err
		}
		schema, err := strategicpatch.NewPatchMetaFromStruct(kinds[q.Kind])
		if err != nil {
			return nil, err
		}
		result, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(object, patch, schema)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
	return nil, fmt.Errorf("unknown type %q", q.Type)
}

func answered(line []byte) (a answer) {
	// The library panics on some patches; kube-apiserver answers such a request with an error.
	defer func() {
		if fault := recover(); fault != nil {
			a = answer{Error: fmt.Sprint(fault)}
		}
	}()
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{Error: err.Error()}
	}
	result, err := apply(q)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Result: result}
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		out.Encode(answered(in.Bytes()))
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
