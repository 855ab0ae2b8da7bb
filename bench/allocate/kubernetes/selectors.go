// How long Kubernetes takes for one selector: compiled as the scheduler does, then asked of devices, in CPU time.

package main

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

const batches = 5

// cpu is the CPU time of the whole process: what collecting its garbage takes is part of an evaluation. The caller has
// to stay on its thread: what another one that still runs did since its last tick is not counted yet, so that a
// goroutine that moved in between would seem to have done nothing before.
func cpu() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// fastest is the least CPU time of one call, in nanoseconds, over batches of so many.
func fastest(number int, call func()) int64 {
	best := int64(0)
	for batch := 0; batch < batches; batch++ {
		begun := cpu()
		for each := 0; each < number; each++ {
			call()
		}
		if spent := (cpu() - begun) / int64(number); batch == 0 || spent < best {
			best = spent
		}
	}
	return best
}

// selector answers with the verdict on each device, and the times of a compilation and of an evaluation on each.
func selector(r *request) (found answer) {
	found = answer{Name: r.Name, Outcome: "refused"}
	defer func() {
		if problem := recover(); problem != nil { // some constants make the compiler panic
			found.Outcome = fmt.Sprint(problem)
		}
	}()
	stored := environment.StoredExpressions
	options := cel.Options{EnvType: &stored, DisableCostEstimation: true}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compiled := compiler.CompileCELExpression(r.Expression, options)
	if compiled.Error != nil {
		return found
	}
	found.Outcome = "compiled"
	for _, each := range r.Devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device(each))
		verdict := fmt.Sprint(matches)
		if err != nil {
			verdict = "error"
		}
		found.Picks = append(found.Picks, verdict)
	}
	found.Times = append(found.Times, fastest(max(r.Pods/10, 1), func() { compiler.CompileCELExpression(r.Expression, options) }))
	for _, each := range r.Devices {
		asked := cel.Device(each)
		found.Times = append(found.Times, fastest(r.Pods, func() {
			_, _, _ = compiled.DeviceMatches(context.Background(), asked)
		}))
	}
	return found
}
