// Kubernetes' own allocator behind lines of JSON: a request a line in, an answer a line out.
//
// It is the peer of the benchmark and the measure of the fuzzer. Only Allocate (and, where the request says so,
// NewAllocator) is timed: JSON is read and written outside.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

type held struct {
	Driver           string                                          `json:"driver"`
	Pool             string                                          `json:"pool"`
	Device           string                                          `json:"device"`
	ShareID          *types.UID                                      `json:"shareID"`
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity"`
	CapacityOnly     bool                                            `json:"capacityOnly"`
}

type request struct {
	Name      string                       `json:"name"`
	Node      string                       `json:"node"`
	Nodes     []*corev1.Node               `json:"nodes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated []held                       `json:"allocated"`
	// Mode: answer (first node that fits), filter (all nodes), cold (filter with nothing cached), start (the same, and the
	// slices are read from their bytes first), stream (Pods one after the other, each on the first node that fits),
	// selector (one expression on devices).
	Mode    string  `json:"mode"`
	Seconds float64 `json:"seconds"`
	Limit   float64 `json:"limit"`
	Pods    int     `json:"pods"`
	// Claim templates of a stream, taken in turn; without them every Pod asks for Claims.
	Turns [][]*resourceapi.ResourceClaim `json:"turns"`
	// A selector, the devices it is asked of, and (in Pods) how often for one measurement.
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
	// Features that are on; absent means the defaults of Kubernetes 1.37.
	Features *structured.Features `json:"features"`
}

type answer struct {
	Name    string                         `json:"name"`
	Outcome string                         `json:"outcome"`
	Node    string                         `json:"node,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Error   string                         `json:"error,omitempty"`
	Errors  map[string]string              `json:"nodeErrors,omitempty"`
	Times   []int64                        `json:"times,omitempty"` // nanoseconds, ascending (in order for a stream)
	Fitting int                            `json:"fitting,omitempty"`
	Picks   []string                       `json:"picks,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not listed") }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := c[name]; found {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

var features = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
}

func state(r *request) structured.AllocatedState {
	// As the scheduler does: a share counts as one only while the gate is on.
	withShares := r.Features == nil || r.Features.ConsumableCapacity
	found := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, each := range r.Allocated {
		id := structured.MakeDeviceID(each.Driver, each.Pool, each.Device)
		if (each.ShareID == nil && !each.CapacityOnly) || !withShares {
			found.AllocatedDevices.Insert(id)
			continue
		}
		if each.ShareID != nil {
			found.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, each.ShareID))
		}
		if each.ConsumedCapacity != nil {
			found.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, each.ConsumedCapacity))
		}
	}
	return found
}

func newCache() *cel.Cache {
	return cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
}

func newAllocator(ctx context.Context, r *request, used structured.AllocatedState, cache *cel.Cache) structured.Allocator {
	byName := classes{}
	for _, class := range r.Classes {
		byName[class.Name] = class
	}
	on := features
	if r.Features != nil {
		on = *r.Features
	}
	// Not the stable variant: the order in which it goes through pools is random.
	variant := "incubating"
	if on.CompatibilityGroups || on.DerivedAttributes || on.ListTypeAttributes || on.OptionalNodeOperations {
		variant = "experimental"
	}
	structured.EnableAllocators(variant)
	allocator, err := structured.NewAllocator(ctx, on, used, byName, r.Slices, cache)
	if err != nil {
		panic(err)
	}
	return allocator
}

// firstFit goes through the nodes in order; an error that names just its node does not end it.
func firstFit(ctx context.Context, allocator structured.Allocator, r *request, claims []*resourceapi.ResourceClaim) answer {
	found := answer{Name: r.Name, Outcome: "unsatisfiable"}
	for _, node := range r.Nodes {
		if r.Node != "" && r.Node != "*" && r.Node != node.Name {
			continue
		}
		results, err := allocator.Allocate(ctx, node, claims)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			if found.Errors == nil {
				found.Errors = map[string]string{}
			}
			found.Errors[node.Name] = err.Error()
		case err != nil:
			found.Outcome, found.Node, found.Error = "error", node.Name, err.Error()
			return found
		case results != nil:
			found.Outcome, found.Node, found.Results = "allocated", node.Name, results
			return found
		}
	}
	return found
}

func filter(ctx context.Context, allocator structured.Allocator, r *request) int {
	fitting := 0
	for _, node := range r.Nodes {
		if results, err := allocator.Allocate(ctx, node, r.Claims); err == nil && results != nil {
			fitting++
		}
	}
	return fitting
}

func repeat(r *request, once func() time.Duration) []int64 {
	var times []int64
	for begun := time.Now(); len(times) == 0 || time.Since(begun).Seconds() < r.Seconds; {
		times = append(times, once().Nanoseconds())
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	if len(times) > 400 {
		times = times[:400]
	}
	return times
}

func serve(r *request) answer {
	ctx := klog.NewContext(context.Background(), klog.Background())
	if r.Limit > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(r.Limit*float64(time.Second)))
		defer cancel()
		ctx = limited
	}
	used := state(r)
	if r.Mode == "selector" || r.Mode == "start" || r.Mode == "cold" { // whose times are read from cpu
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	switch r.Mode {
	case "selector":
		return selector(r)
	case "start":
		return start(ctx, r, used)
	case "filter", "cold":
		cache, found := newCache(), answer{Name: r.Name, Outcome: "filtered"}
		allocator := newAllocator(ctx, r, used, cache)
		if r.Mode == "filter" {
			found.Fitting = filter(ctx, allocator, r)
		}
		found.Times = repeat(r, func() time.Duration {
			begun := time.Now()
			spent := cpu()
			if r.Mode == "cold" {
				allocator = newAllocator(ctx, r, used, newCache())
			}
			found.Fitting = filter(ctx, allocator, r)
			if r.Mode == "cold" {
				return time.Duration(cpu() - spent)
			}
			return time.Since(begun)
		})
		return found
	case "stream":
		return stream(ctx, r)
	}
	allocator := newAllocator(ctx, r, used, newCache())
	found := firstFit(ctx, allocator, r, r.Claims)
	if r.Seconds > 0 && ctx.Err() == nil {
		found.Times = repeat(r, func() time.Duration {
			begun := time.Now()
			firstFit(ctx, allocator, r, r.Claims)
			return time.Since(begun)
		})
	}
	return found
}

// start is the cold case from the bytes on: slices in protobuf, as the scheduler asks the API server for them.
func start(ctx context.Context, r *request, used structured.AllocatedState) answer {
	found := answer{Name: r.Name, Outcome: "filtered"}
	var encoded [][]byte
	for _, slice := range r.Slices {
		bytes, err := slice.Marshal()
		if err != nil {
			panic(err)
		}
		encoded = append(encoded, bytes)
	}
	found.Times = repeat(r, func() time.Duration {
		begun := cpu()
		read := make([]*resourceapi.ResourceSlice, 0, len(encoded))
		for _, bytes := range encoded {
			slice := &resourceapi.ResourceSlice{}
			if err := slice.Unmarshal(bytes); err != nil {
				panic(err)
			}
			read = append(read, slice)
		}
		fresh := *r
		fresh.Slices = read
		found.Fitting = filter(ctx, newAllocator(ctx, &fresh, used, newCache()), r)
		return time.Duration(cpu() - begun)
	})
	return found
}

// stream schedules Pods one after the other as the scheduler does: filter all nodes, take the first, note what is used.
func stream(ctx context.Context, r *request) answer {
	found, cache := answer{Name: r.Name, Outcome: "streamed"}, newCache()
	used := state(r)
	for pod := 0; pod < r.Pods; pod++ {
		claims := r.Claims
		if len(r.Turns) > 0 {
			claims = r.Turns[pod%len(r.Turns)]
		}
		begun := time.Now()
		allocator := newAllocator(ctx, r, used, cache)
		var first []resourceapi.AllocationResult
		for _, node := range r.Nodes {
			if results, err := allocator.Allocate(ctx, node, claims); err == nil && results != nil && first == nil {
				first = results
			}
		}
		found.Times = append(found.Times, time.Since(begun).Nanoseconds())
		pick := ""
		for _, result := range first {
			for _, device := range result.Devices.Results {
				used.AllocatedDevices.Insert(structured.MakeDeviceID(device.Driver, device.Pool, device.Device))
				pick += device.Pool + "/" + device.Device + " "
			}
		}
		found.Picks = append(found.Picks, pick)
	}
	return found
}

// served answers with what went wrong where Kubernetes' code panics on an object that no API server would take.
func served(r *request) (found answer) {
	defer func() {
		if problem := recover(); problem != nil {
			found = answer{Name: r.Name, Outcome: "panic", Error: fmt.Sprint(problem)}
		}
	}()
	return serve(r)
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			found := served(&r)
			if err := out.Encode(&found); err != nil {
				panic(err)
			}
		}
		if err != nil {
			return
		}
	}
}
