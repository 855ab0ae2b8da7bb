// Judges whether a history of operations on single objects is linearizable: exit code 0 if so, 1 if not, 2 if unknown.
//
// Usage: judge HISTORY.jsonl. Each line is an operation; one without an answer may have happened or not.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 120 * time.Second

// Operation is one line. Times are nanoseconds of one monotonic clock; Returned is 0 where no answer came.
type Operation struct {
	Client   int    `json:"client"`
	Called   int64  `json:"called"`
	Returned int64  `json:"returned"`
	Verb     string `json:"verb"` // create, get, put (a patch is a put without a precondition), delete
	Key      string `json:"key"`
	Text     string `json:"text"`     // what a create or put would write
	Expected int64  `json:"expected"` // the revision it asks for, 0 for any
	Code     int    `json:"code"`
	Revision int64  `json:"revision"` // answered
	Got      string `json:"got"`      // the text answered
}

// object is what one key may be. Revision 0: it does not exist. Revision unseen: written by an operation whose answer
// was lost, so that any revision may turn out to be its own.
type object struct {
	text     string
	revision int64
}

const unseen = -1

func (o object) exists() bool { return o.revision != 0 }

func (o object) mayBe(revision int64) bool { return o.revision == unseen || o.revision == revision }

func (o object) accepts(expected int64) bool {
	return o.exists() && (expected == 0 || o.mayBe(expected))
}

func (o object) refuses(expected int64) bool {
	return o.exists() && expected != 0 && (o.revision == unseen || o.revision != expected)
}

// after gives each state that the object may be in once the operation has had its effect and its answer.
func after(now object, op Operation) []object {
	if op.Code == 0 {
		return append([]object{now}, happened(now, op)...)
	}
	if op.Code == 429 {
		return []object{now}
	}
	switch op.Verb {
	case "get":
		return when(now.exists() && op.Code == 200 && op.Got == now.text && now.mayBe(op.Revision),
			object{now.text, op.Revision}, when(!now.exists() && op.Code == 404, now, nil))
	case "create":
		return when(op.Code == 201 && !now.exists(), object{op.Text, op.Revision}, when(op.Code == 409 && now.exists(), now, nil))
	case "put":
		if op.Code == 200 {
			return when(now.accepts(op.Expected) && op.Revision > now.revision && op.Got == op.Text, object{op.Text, op.Revision}, nil)
		}
		return when(op.Code == 409 && now.refuses(op.Expected) || op.Code == 404 && !now.exists(), now, nil)
	case "delete":
		if op.Code == 200 {
			return when(now.accepts(op.Expected), object{}, nil)
		}
		return when(op.Code == 409 && now.refuses(op.Expected) || op.Code == 404 && !now.exists(), now, nil)
	}
	return nil
}

func happened(now object, op Operation) []object {
	switch {
	case op.Verb == "create" && !now.exists(), op.Verb == "put" && now.accepts(op.Expected):
		return []object{{op.Text, unseen}}
	case op.Verb == "delete" && now.accepts(op.Expected):
		return []object{{}}
	}
	return nil
}

func when(holds bool, state object, otherwise []object) []object {
	if holds {
		return []object{state}
	}
	return otherwise
}

func model() porcupine.Model {
	many := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, each := range history {
				key := each.Input.(Operation).Key
				byKey[key] = append(byKey[key], each)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []interface{} { return []interface{}{object{}} },
		Step: func(state, input, _ interface{}) []interface{} {
			var states []interface{}
			for _, each := range after(state.(object), input.(Operation)) {
				states = append(states, each)
			}
			return states
		},
		Equal: func(one, other interface{}) bool { return one.(object) == other.(object) },
	}
	return many.ToModel()
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var read []Operation
	var end int64
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var op Operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		read = append(read, op)
		end = max(end, op.Called, op.Returned)
	}
	var history []porcupine.Operation
	for _, op := range read {
		if op.Returned == 0 {
			if op.Verb == "get" {
				continue
			}
			op.Returned, op.Code = end+1, 0
		}
		history = append(history, porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Called, Output: op, Return: op.Returned,
		})
	}
	return history, lines.Err()
}

func main() {
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	began := time.Now()
	verdict := porcupine.CheckOperationsTimeout(model(), history, patience)
	fmt.Printf("%s: %d operations in %d ms\n", verdict, len(history), time.Since(began).Milliseconds())
	switch verdict {
	case porcupine.Illegal:
		os.Exit(1)
	case porcupine.Unknown:
		os.Exit(2)
	}
}
