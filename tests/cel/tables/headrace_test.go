// Writes down Kubernetes' own tables of expressions over devices: each as one line, with the answer of its compiler.
//
// It is run within a copy of k8s.io/dynamic-resource-allocation, in package cel, whose tests fill `derived` on the way.
package cel

import (
	"context"
	"encoding/json"
	"os"
	"sort"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

type publishedDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

type expressionLine struct {
	ID                  string                       `json:"id"`
	Expression          string                       `json:"expr"`
	Device              publishedDevice              `json:"device"`
	Derived             bool                         `json:"derived,omitempty"`
	CompileNew          bool                         `json:"compile_new"`
	CompileNewListAttrs bool                         `json:"compile_new_list_attrs"`
	CompileStored       bool                         `json:"compile_stored"`
	ErrorStored         string                       `json:"error_stored,omitempty"`
	OutputType          string                       `json:"output_type,omitempty"`
	MaxCost             uint64                       `json:"max_cost"`
	Result              any                          `json:"result,omitempty"`
	ActualCost          *uint64                      `json:"actual_cost,omitempty"`
	Error               string                       `json:"error,omitempty"`
	Attribute           *resourceapi.DeviceAttribute `json:"attribute,omitempty"`
}

func lineOf(t *testing.T, id, expression string, device Device, derived bool) (line expressionLine) {
	line = expressionLine{ID: id, Expression: expression, Derived: derived}
	text, err := json.Marshal(publishedDevice{device.Driver, device.AllowMultipleAllocations, device.Attributes, device.Capacity})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &line.Device); err != nil {
		t.Fatal(err)
	}
	compile := func(env environment.Type, lists bool) CompilationResult {
		features := Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists}
		return GetCompiler(features).CompileCELExpression(expression, Options{EnvType: &env, DerivedAttribute: derived})
	}
	line.CompileNew = compile(environment.NewExpressions, false).Error == nil
	line.CompileNewListAttrs = compile(environment.NewExpressions, true).Error == nil
	stored := compile(environment.StoredExpressions, true)
	line.CompileStored = stored.Error == nil
	if stored.Error != nil {
		line.ErrorStored = stored.Error.Detail
		return line
	}
	line.OutputType, line.MaxCost = stored.OutputType.String(), stored.MaxCost
	asked := Device{Driver: line.Device.Driver, AllowMultipleAllocations: line.Device.AllowMultipleAllocations, Attributes: line.Device.Attributes, Capacity: line.Device.Capacity}
	if derived {
		attribute, details, err := stored.EvaluateDerivedAttribute(context.Background(), asked)
		line.Attribute, line.ActualCost = attribute, details.ActualCost()
		if err != nil {
			line.Error = err.Error()
		}
		return line
	}
	matches, details, err := stored.DeviceMatches(context.Background(), asked)
	line.Result, line.ActualCost = matches, details.ActualCost()
	if err != nil {
		line.Result, line.Error = "error", err.Error()
	}
	return line
}

var derived []expressionLine

func noteDerived(t *testing.T, id, expression string, device Device) {
	derived = append(derived, lineOf(t, id, expression, device, true))
}

func TestHeadraceWritesTheTable(t *testing.T) {
	file, err := os.Create(os.Getenv("HEADRACE_TABLE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Run("selectors", TestCEL)
	t.Run("derived-compile", TestCompileDerivedAttributes)
	t.Run("derived-evaluate", TestEvaluateDerivedAttributes)
	var lines []expressionLine
	for name, each := range testcases {
		device := Device{Driver: each.driver, AllowMultipleAllocations: each.allowMultipleAllocations, Attributes: each.attributes, Capacity: each.capacity}
		lines = append(lines, lineOf(t, name, each.expression, device, false))
	}
	lines = append(lines, derived...)
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].ID < lines[j].ID })
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, each := range lines {
		if err := encoder.Encode(each); err != nil {
			t.Fatal(err)
		}
	}
}
