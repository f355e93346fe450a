// Command karpenter-bench-upstream solves scenario files with upstream Karpenter's own scheduler and prints what it
// cost, in the form of `karpenter solve --stats`, so that both can be compared on the same files in the same run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

// result is one line of output.
type result struct {
	Name  string `json:"name"`
	Stats stats  `json:"stats"`
}

type stats struct {
	SolveCPUSeconds     float64 `json:"solveCpuSeconds"`
	SolveWallSeconds    float64 `json:"solveWallSeconds"`
	PeakMemoryBytes     int64   `json:"peakMemoryBytes"`
	Pods                int     `json:"pods"`
	Nodes               int     `json:"nodes"`
	Price               float64 `json:"price"`
	TypesPerClaimMedian float64 `json:"typesPerClaimMedian"`
	Unschedulable       int     `json:"unschedulable"`
	Savings             float64 `json:"savings,omitempty"`
}

func main() {
	// A production controller with the default of one CPU runs one worker.
	workers := flag.Int("concurrency", 1, "workers of the scheduler")
	flag.Parse()
	log.SetLogger(logging.NopLogger)
	for _, path := range flag.Args() {
		s, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(2)
		}
		w := build(s)
		var st stats
		if s.Mode == "disrupt" {
			st = disrupt(w)
		} else {
			st = schedule(w, *workers)
		}
		st.PeakMemoryBytes = usage().Maxrss * 1024
		must(json.NewEncoder(os.Stdout).Encode(result{s.Name, st}))
	}
}

// read takes a bare scenario or a case file that holds one.
func read(path string) (*scenario, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Scenario *scenario `json:"scenario"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Scenario == nil {
		file.Scenario = &scenario{}
		if err := json.Unmarshal(b, file.Scenario); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return file.Scenario, nil
}

func usage() (u syscall.Rusage) {
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u
}

// cpuSeconds counts user and system time of all threads, the garbage collector's included.
func cpuSeconds() float64 {
	u := usage()
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
