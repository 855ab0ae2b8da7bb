// Writes down Kubernetes' own table of allocator tests: each case as one line, with the answer of its allocator.
//
// It is run within a copy of k8s.io/dynamic-resource-allocation, in package structured. The table's own tests run and check
// the cases on the way. An answer is the one to what the line holds: JSON cannot tell an empty list of versions from none,
// and a class that is missing is missed in the words of an API server's cache, not in those of the tests.
package structured

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/dynamic-resource-allocation/structured/internal/experimental"
	"k8s.io/dynamic-resource-allocation/structured/internal/incubating"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

type held struct {
	Driver           string                                          `json:"driver"`
	Pool             string                                          `json:"pool"`
	Device           string                                          `json:"device"`
	ShareID          string                                          `json:"shareID,omitempty"`
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity,omitempty"`
	CapacityOnly     bool                                            `json:"capacityOnly,omitempty"`
}

type expected struct {
	Outcome string                         `json:"outcome"`
	Node    string                         `json:"node,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Error   string                         `json:"error,omitempty"`
	Errors  map[string]string              `json:"nodeErrors,omitempty"`
}

type written struct {
	Name      string                       `json:"name"`
	Nodes     []*v1.Node                   `json:"nodes"`
	Node      string                       `json:"node"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated []held                       `json:"allocated,omitempty"`
	Features  Features                     `json:"features"`
	Expect    expected                     `json:"expect"`
}

type creating func(ctx context.Context, features Features, used AllocatedState, classes DeviceClassLister, slices []*resourceapi.ResourceSlice, cache *cel.Cache) (internal.Allocator, error)

type listed map[string]*resourceapi.DeviceClass

func (l listed) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not listed") }

func (l listed) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := l[name]; found {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

// observer is the allocator that the table asks; it notes what it was asked.
type observer struct {
	internal.Allocator
	note func(node *v1.Node, claims []*resourceapi.ResourceClaim)
}

func (o observer) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if ctx.Err() == nil {
		o.note(node, claims)
	}
	return o.Allocator.Allocate(ctx, node, claims)
}

func (o observer) GetStats() internal.Stats {
	return o.Allocator.(internal.AllocatorExtended).GetStats()
}

func TestHeadraceWritesTheTable(t *testing.T) {
	file, err := os.Create(os.Getenv("HEADRACE_TABLE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var cases []written
	for _, variant := range []struct {
		name      string
		supported Features
		create    creating
	}{
		{"incubating", incubating.SupportedFeatures, func(ctx context.Context, features Features, used AllocatedState, classes DeviceClassLister, slices []*resourceapi.ResourceSlice, cache *cel.Cache) (internal.Allocator, error) {
			return incubating.NewAllocator(ctx, features, used, classes, slices, cache)
		}},
		{"experimental", experimental.SupportedFeatures, func(ctx context.Context, features Features, used AllocatedState, classes DeviceClassLister, slices []*resourceapi.ResourceSlice, cache *cel.Cache) (internal.Allocator, error) {
			return experimental.NewAllocator(ctx, features, used, classes, slices, cache)
		}},
	} {
		create := func(ctx context.Context, features Features, used AllocatedState, classes DeviceClassLister, slices []*resourceapi.ResourceSlice, cache *cel.Cache) (internal.Allocator, error) {
			allocator, err := variant.create(ctx, features, used, classes, slices, cache)
			if err != nil {
				return nil, err
			}
			known, err := classes.List()
			if err != nil {
				return nil, err
			}
			return observer{allocator, func(node *v1.Node, claims []*resourceapi.ResourceClaim) {
				line := throughJSON(t, written{
					Name: testName(ctx), Nodes: []*v1.Node{node}, Node: node.Name, Slices: slices, Classes: known,
					Claims: claims, Allocated: holders(used), Features: features,
				})
				line.Expect = answered(ctx, variant.create, line, used, cache)
				cases = append(cases, line)
			}}, nil
		}
		t.Run(variant.name, func(t *testing.T) {
			t.Run("table", func(t *testing.T) { allocatortesting.TestAllocator(t, variant.supported, create) })
			t.Run("order", func(t *testing.T) { allocatortesting.TestLexicographicalAllocator(t, variant.supported, create) })
		})
	}
	sort.SliceStable(cases, func(i, j int) bool { return cases[i].Name < cases[j].Name })
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, each := range cases {
		if err := encoder.Encode(each); err != nil {
			t.Fatal(err)
		}
	}
}

func throughJSON(t *testing.T, line written) (read written) {
	copied := line
	copied.Slices, copied.Claims = nil, nil
	for _, slice := range line.Slices {
		copied.Slices = append(copied.Slices, slice.DeepCopy())
	}
	for _, claim := range line.Claims {
		copied.Claims = append(copied.Claims, claim.DeepCopy())
	}
	keepAmounts(reflect.ValueOf(&copied).Elem())
	text, err := json.Marshal(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// keepAmounts writes amounts of a thousand E and more with an exponent: Kubernetes writes them without any suffix.
func keepAmounts(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			keepAmounts(value.Elem())
		}
	case reflect.Slice:
		for at := range value.Len() {
			keepAmounts(value.Index(at))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			entry := reflect.New(value.Type().Elem()).Elem()
			entry.Set(value.MapIndex(key))
			keepAmounts(entry)
			value.SetMapIndex(key, entry)
		}
	case reflect.Struct:
		if amount, ok := value.Interface().(resource.Quantity); ok {
			if read := resource.MustParse(amount.String()); read.Cmp(amount) != 0 {
				amount.Format = resource.DecimalExponent
				value.Set(reflect.ValueOf(amount.DeepCopy()))
			}
			return
		}
		for at := range value.NumField() {
			if value.Field(at).CanSet() {
				keepAmounts(value.Field(at))
			}
		}
	}
}

func testName(ctx context.Context) string {
	named, ok := klog.FromContext(ctx).GetSink().(ktesting.Underlier)
	if !ok {
		return ""
	}
	_, name, _ := strings.Cut(named.GetUnderlying().(interface{ Name() string }).Name(), "/")
	return name
}

func holders(used AllocatedState) []held {
	var found []held
	for id := range used.AllocatedDevices {
		found = append(found, held{Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String()})
	}
	for id := range used.AllocatedSharedDeviceIDs {
		found = append(found, held{Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String(), ShareID: id.ShareID.String()})
	}
	for id, consumed := range used.AggregatedCapacity {
		amounts := map[resourceapi.QualifiedName]resource.Quantity{}
		for name, amount := range consumed {
			amounts[name] = *amount
		}
		found = append(found, held{Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String(), ConsumedCapacity: amounts, CapacityOnly: true})
	}
	sort.Slice(found, func(i, j int) bool { return fmt.Sprint(found[i]) < fmt.Sprint(found[j]) })
	return found
}

func answered(ctx context.Context, create creating, line written, used AllocatedState, cache *cel.Cache) expected {
	classes := listed{}
	for _, class := range line.Classes {
		classes[class.Name] = class
	}
	allocator, err := create(ctx, line.Features, used, classes, line.Slices, cache)
	if err != nil {
		return expected{Outcome: "error", Error: err.Error()}
	}
	node := line.Nodes[0]
	results, err := allocator.Allocate(ctx, node, line.Claims)
	switch {
	case errors.Is(err, ErrFailedAllocationOnNode):
		return expected{Outcome: "unsatisfiable", Errors: map[string]string{node.Name: err.Error()}}
	case err != nil:
		return expected{Outcome: "error", Node: node.Name, Error: err.Error()}
	case results == nil:
		return expected{Outcome: "unsatisfiable"}
	}
	found, shares := expected{Outcome: "allocated", Node: node.Name}, 0
	for _, result := range results {
		for at := range result.Devices.Results {
			if device := &result.Devices.Results[at]; device.ShareID != nil {
				id := types.UID(fmt.Sprintf("share-%d", shares))
				device.ShareID = &id
				shares++
			}
		}
		found.Results = append(found.Results, result)
	}
	return found
}
