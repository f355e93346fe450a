package main

import (
	"maps"
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func providerID(n *existingNode) string { return "bench://" + n.Name }

// addNode adds an existing node: its claim when Karpenter owns it, its node object once it joined, its pods.
func (w *world) addNode(n *existingNode) {
	if n.State == "" {
		n.State = "initialized"
	}
	if n.AgeSeconds == 0 {
		n.AgeSeconds = 3600
	}
	it := w.provider.find(n.InstanceType)
	if it != nil {
		if n.Capacity == nil {
			n.Capacity = it.Capacity
		}
		if n.Allocatable == nil {
			n.Allocatable = it.Allocatable()
		}
	}
	if n.Allocatable == nil {
		n.Allocatable = n.Capacity
	}
	labels := w.nodeLabels(n)
	created := metav1.Time{Time: w.now.Add(-time.Duration(n.AgeSeconds) * time.Second)}
	if n.NodePool != "" {
		claim := w.claim(n, labels, created)
		w.claims = append(w.claims, claim)
		w.objects = append(w.objects, claim)
	}
	if n.State != "launched" || n.NodePool == "" {
		node := joinedNode(n, labels, created)
		w.nodes = append(w.nodes, node)
		w.objects = append(w.objects, node)
	}
	for _, g := range n.PodGroups {
		for _, p := range w.expand(g) {
			p.Name += "-" + n.Name
			p.UID += types.UID("-" + n.Name)
			p.Spec.NodeName = n.Name
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = &metav1.Time{Time: w.now.Add(-10 * time.Minute)}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			w.bound = append(w.bound, p)
			w.objects = append(w.objects, p)
		}
	}
}

// nodeLabels are the type's single values, then zone and capacity type, then the pool's template, then the node's own.
func (w *world) nodeLabels(n *existingNode) map[string]string {
	labels := map[string]string{corev1.LabelHostname: n.Name}
	if it := w.provider.find(n.InstanceType); it != nil {
		for _, r := range it.Requirements {
			if r.Key != corev1.LabelTopologyZone && r.Key != v1.CapacityTypeLabelKey && r.Len() == 1 {
				labels[r.Key] = r.Any()
			}
		}
	}
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	if n.CapacityType != "" {
		labels[v1.CapacityTypeLabelKey] = n.CapacityType
	}
	if n.NodePool != "" {
		labels[v1.NodePoolLabelKey] = n.NodePool
		labels[v1.NodeClassLabelKey(nodeClass.GroupKind())] = "default"
		if pool := w.pools[n.NodePool]; pool != nil {
			maps.Copy(labels, pool.Spec.Template.Labels)
		}
	}
	maps.Copy(labels, n.Labels)
	return labels
}

func (w *world) claim(n *existingNode, labels map[string]string, created metav1.Time) *v1.NodeClaim {
	labels = maps.Clone(labels)
	delete(labels, corev1.LabelHostname)
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "nc-" + n.Name, UID: types.UID("nc-" + n.Name), Labels: labels, Annotations: n.Annotations, CreationTimestamp: created},
		Spec: v1.NodeClaimSpec{Taints: n.Taints, StartupTaints: n.StartupTaints,
			NodeClassRef: &v1.NodeClassReference{Group: nodeClass.Group, Kind: nodeClass.Kind, Name: "default"}},
		Status: v1.NodeClaimStatus{ProviderID: providerID(n), Capacity: n.Capacity, Allocatable: n.Allocatable, NodeName: n.Name},
	}
	lastEvent := created.Time
	if n.LastPodEventSeconds > 0 {
		lastEvent = w.now.Add(-time.Duration(n.LastPodEventSeconds) * time.Second)
		claim.Status.LastPodEventTime = metav1.Time{Time: lastEvent}
	}
	conditions := claim.StatusConditions(status.WithClock(clocktesting.NewFakeClock(created.Time)))
	conditions.SetTrue(v1.ConditionTypeLaunched)
	if n.State != "launched" {
		conditions.SetTrue(v1.ConditionTypeRegistered)
	}
	pool := w.pools[n.NodePool]
	if pool != nil {
		claim.Spec.ExpireAfter = pool.Spec.Template.Spec.ExpireAfter
	}
	if n.State == "initialized" {
		conditions.SetTrue(v1.ConditionTypeInitialized)
		if pool != nil {
			if after := pool.Spec.Disruption.ConsolidateAfter.Duration; after != nil && w.now.Sub(lastEvent) >= *after {
				conditions.SetTrue(v1.ConditionTypeConsolidatable)
			}
		}
	}
	return claim
}

func joinedNode(n *existingNode, labels map[string]string, created metav1.Time) *corev1.Node {
	labels, taints := maps.Clone(labels), slices.Clone(n.Taints)
	if n.NodePool != "" {
		labels[v1.NodeRegisteredLabelKey] = "true"
		if n.State == "initialized" {
			labels[v1.NodeInitializedLabelKey] = "true"
		} else {
			taints = append(taints, n.StartupTaints...)
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID("node-" + n.Name), Labels: labels, Annotations: n.Annotations, CreationTimestamp: created},
		Spec:       corev1.NodeSpec{ProviderID: providerID(n), Taints: taints},
		Status: corev1.NodeStatus{Capacity: n.Capacity, Allocatable: n.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}
