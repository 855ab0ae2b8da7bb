// Command reference answers for device selectors with Kubernetes' own CEL compiler and DeviceMatches.
//
// The first line of its input is an object of devices by name, each further line an expression {"id", "expr"}; each
// is answered with one line. With the argument "declarations" it lists the functions of both environments instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type question struct {
	ID   string `json:"id"`
	Expr string `json:"expr"`
}

type answer struct {
	ID                  string            `json:"id"`
	CompileNew          bool              `json:"compile_new"`
	CompileNewListAttrs bool              `json:"compile_new_list_attrs"`
	CompileStored       bool              `json:"compile_stored"`
	OutputType          string            `json:"output_type,omitempty"`
	MaxCost             uint64            `json:"max_cost"`
	Results             map[string]any    `json:"results,omitempty"`
	ActualCost          map[string]uint64 `json:"actual_cost,omitempty"`
	Errors              map[string]string `json:"errors,omitempty"`
	ErrorStored         string            `json:"error_stored,omitempty"`
	Panic               string            `json:"panic,omitempty"`
}

var (
	plain = dracel.Features{EnableConsumableCapacity: true}
	lists = dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if len(os.Args) > 1 && os.Args[1] == "declarations" {
		must(encoder.Encode(declarations()))
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	var devices map[string]device
	if in.Scan() {
		must(json.Unmarshal(in.Bytes(), &devices))
	}
	for in.Scan() {
		var q question
		must(json.Unmarshal(in.Bytes(), &q))
		must(encoder.Encode(judge(q, devices)))
		must(out.Flush())
	}
	must(in.Err())
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func compile(expression string, features dracel.Features, env environment.Type) dracel.CompilationResult {
	return dracel.GetCompiler(features).CompileCELExpression(expression, dracel.Options{EnvType: &env})
}

// judge recovers: some constants (a bytes key in a map) make the compiler itself panic.
func judge(q question, devices map[string]device) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{ID: q.ID, Panic: fmt.Sprint(r)}
		}
	}()
	stored := compile(q.Expr, plain, environment.StoredExpressions)
	a = answer{
		ID:                  q.ID,
		CompileNew:          compile(q.Expr, plain, environment.NewExpressions).Error == nil,
		CompileNewListAttrs: compile(q.Expr, lists, environment.NewExpressions).Error == nil,
		CompileStored:       stored.Error == nil,
	}
	if stored.Error != nil {
		a.ErrorStored = stored.Error.Detail
		return a
	}
	a.OutputType, a.MaxCost = stored.OutputType.String(), stored.MaxCost
	a.Results, a.ActualCost, a.Errors = map[string]any{}, map[string]uint64{}, map[string]string{}
	for name, d := range devices {
		match, details, err := stored.DeviceMatches(context.Background(), dracel.Device(d))
		if details != nil && details.ActualCost() != nil {
			a.ActualCost[name] = *details.ActualCost()
		}
		if err != nil {
			a.Results[name], a.Errors[name] = "error", err.Error()
		} else {
			a.Results[name] = match
		}
	}
	return a
}

// overload is one declaration: its id, whether it is called on its first argument, its types.
type overload struct {
	ID        string   `json:"id"`
	Member    bool     `json:"member"`
	Arguments []string `json:"arguments"`
	Result    string   `json:"result"`
}

func declarations() map[string]map[string][]overload {
	found := map[string]map[string][]overload{}
	for name, result := range map[string]dracel.CompilationResult{
		"new":                 compile("true", plain, environment.NewExpressions),
		"new_list_attributes": compile("true", lists, environment.NewExpressions),
		"stored":              compile("true", plain, environment.StoredExpressions),
	} {
		found[name] = map[string][]overload{}
		for function, declared := range result.Environment.Functions() {
			if declared.IsDeclarationDisabled() {
				continue
			}
			for _, each := range declared.OverloadDecls() {
				arguments := []string{}
				for _, argument := range each.ArgTypes() {
					arguments = append(arguments, argument.String())
				}
				found[name][function] = append(found[name][function],
					overload{each.ID(), each.IsMemberFunction(), arguments, each.ResultType().String()})
			}
		}
	}
	return found
}
