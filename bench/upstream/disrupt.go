package main

import (
	"context"
	"time"

	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
)

// frozen skips the wait before a command is validated again: nothing changes in between here.
type frozen struct{}

func (frozen) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// disrupt asks each consolidation method on the untouched cluster and adds up what they cost; savings are the best
// single method's.
func disrupt(w *world) (st stats) {
	ctx := injection.WithControllerName(w.ctx, "disruption")
	for _, p := range w.pending {
		must(w.client.Create(ctx, p))
	}
	queue := disruption.NewQueue(w.client, w.recorder, w.cluster, w.clock, w.provisioner)
	c := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.provisioner, w.provider, w.recorder, queue)
	wall, cpu := time.Now(), cpuSeconds()
	for _, method := range []disruption.Method{
		disruption.NewEmptiness(c, disruption.WithValidator(frozen{})),
		disruption.NewMultiNodeConsolidation(c, disruption.WithValidator(frozen{})),
		disruption.NewSingleNodeConsolidation(c, disruption.WithValidator(frozen{})),
	} {
		st.Savings = max(st.Savings, savings(ctx, w, queue, method))
	}
	st.SolveWallSeconds, st.SolveCPUSeconds = time.Since(wall).Seconds(), cpuSeconds()-cpu
	return st
}

func savings(ctx context.Context, w *world, queue *disruption.Queue, method disruption.Method) (saved float64) {
	w.cluster.MarkUnconsolidated()
	candidates, totals, err := disruption.GetCandidatesWithTotals(ctx, w.cluster, w.client, w.recorder, w.clock, w.provider,
		method.ShouldDisrupt, method.Class(), queue, nil)
	must(err)
	if len(candidates) == 0 {
		return 0
	}
	if setter, ok := method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, w.cluster, w.clock, w.client, w.provider, w.recorder, method.Reason())
	must(err)
	commands, err := method.ComputeCommands(ctx, budgets, candidates...)
	must(err)
	for _, command := range commands {
		if command.Decision() != disruption.NoOpDecision {
			saved += command.EstimatedSavings()
		}
	}
	return saved
}
