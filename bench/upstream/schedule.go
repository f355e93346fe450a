package main

import (
	"math"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	scheduler "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// schedule takes the steps of upstream's provisioner around Solve and measures Solve alone.
func schedule(w *world, workers int) stats {
	var pods []*corev1.Pod
	for _, p := range w.pending {
		if podutils.IsProvisionable(p) && w.provisioner.Validate(w.ctx, p) == nil {
			pods = append(pods, p)
		}
	}
	nodes := w.cluster.DeepCopyNodes()
	displaced, err := nodes.Deleting().CurrentlyReschedulablePods(w.ctx, w.client, w.clock, w.recorder)
	must(err)
	displacedUIDs := sets.New[types.UID]()
	for _, p := range displaced {
		displacedUIDs.Insert(p.UID)
	}
	pods = append(pods, displaced...)
	opts := []scheduler.Options{
		scheduler.DisableReservedCapacityFallback,
		scheduler.NumConcurrentReconciles(workers),
		scheduler.MinValuesPolicy(options.FromContext(w.ctx).MinValuesPolicy),
	}
	if options.FromContext(w.ctx).PreferencePolicy == options.PreferencePolicyIgnore {
		opts = append(opts, scheduler.IgnorePreferences)
	}
	s, err := w.provisioner.NewScheduler(w.ctx, pods, nodes.Active(), displacedUIDs, opts...)
	must(err)

	runtime.GC() // what reading the file left behind is not Solve's to collect
	wall, cpu := time.Now(), cpuSeconds()
	results, err := s.Solve(w.ctx, pods)
	st := stats{SolveWallSeconds: time.Since(wall).Seconds(), SolveCPUSeconds: cpuSeconds() - cpu}
	must(err)

	results = results.TruncateInstanceTypes(w.ctx, scheduler.MaxInstanceTypes)
	st.Pods, st.Nodes, st.Unschedulable = len(pods), len(results.NewNodeClaims), len(results.PodErrors)
	var types []int
	for _, claim := range results.NewNodeClaims {
		st.Price += cheapest(claim)
		types = append(types, len(claim.InstanceTypeOptions))
	}
	st.TypesPerClaimMedian = median(types)
	return st
}

// cheapest is the price of the cheapest offering the claim may launch.
func cheapest(claim *scheduler.NodeClaim) float64 {
	best := math.Inf(1)
	for _, it := range claim.InstanceTypeOptions {
		for _, o := range it.Offerings {
			if o.Launchable() && claim.Requirements.IsCompatible(o.Requirements, scheduling.AllowUndefinedWellKnownLabels) {
				best = min(best, o.Price)
			}
		}
	}
	if math.IsInf(best, 1) {
		return 0
	}
	return best
}

func median(values []int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return float64(values[middle])
	}
	return float64(values[middle-1]+values[middle]) / 2
}
