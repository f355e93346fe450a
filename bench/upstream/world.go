package main

import (
	"context"
	"fmt"
	"time"

	"github.com/awslabs/operatorpkg/object"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
	"sigs.k8s.io/karpenter/pkg/test"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

var (
	baseWellKnownLabels = v1.WellKnownLabels.Clone()
	nodeClass           = object.GVK(&v1alpha1.TestNodeClass{})
)

// world is a scenario as upstream sees it: a fake API server, a cluster state fed from it and a provisioner.
type world struct {
	ctx         context.Context
	now         time.Time
	clock       *clocktesting.FakeClock
	recorder    events.Recorder
	provider    *catalog
	pools       map[string]*v1.NodePool
	namespaces  map[string]bool
	objects     []client.Object
	nodes       []*corev1.Node
	claims      []*v1.NodeClaim
	bound       []*corev1.Pod
	pending     []*corev1.Pod
	client      client.Client
	cluster     *state.Cluster
	provisioner *provisioning.Provisioner
}

func build(s *scenario) *world {
	w := &world{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), pools: map[string]*v1.NodePool{}, namespaces: map[string]bool{}}
	if s.Now != "" {
		now, err := time.Parse(time.RFC3339, s.Now)
		must(err)
		w.now = now
	}
	v1.WellKnownLabels = baseWellKnownLabels.Clone().Insert(s.WellKnownLabels...)
	cloudprovider.ReservationIDLabel = v1alpha1.LabelReservationID
	w.ctx = options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options(w.options(s)))
	w.clock = clocktesting.NewFakeClock(w.now)
	w.recorder = events.NewRecorder(&record.FakeRecorder{})
	w.provider = newCatalog(s.InstanceTypes)
	w.addObjects(s)
	for i := range s.Nodes {
		w.addNode(&s.Nodes[i])
	}
	for _, g := range s.PodGroups {
		for _, p := range w.expand(g) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			w.pending = append(w.pending, p)
		}
	}
	w.start(s)
	return w
}

func (w *world) options(s *scenario) (fields test.OptionsFields) {
	if s.Options.PreferencePolicy != "" {
		policy := options.PreferencePolicy(s.Options.PreferencePolicy)
		fields.PreferencePolicy = &policy
	}
	if s.Options.MinValuesPolicy != "" {
		policy := options.MinValuesPolicy(s.Options.MinValuesPolicy)
		fields.MinValuesPolicy = &policy
	}
	if s.Options.SpotToSpot {
		fields.FeatureGates.SpotToSpotConsolidation = &s.Options.SpotToSpot
	}
	return fields
}

func (w *world) addNamespace(name string, labels map[string]string) {
	if w.namespaces[name] {
		return
	}
	w.namespaces[name] = true
	all := map[string]string{corev1.LabelMetadataName: name}
	for k, v := range labels {
		all[k] = v
	}
	w.objects = append(w.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}})
}

func (w *world) addObjects(s *scenario) {
	for _, n := range s.Namespaces {
		w.addNamespace(n.Name, n.Labels)
	}
	w.addNamespace("default", nil)
	w.objects = append(w.objects, &v1alpha1.TestNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for i := range s.NodePools {
		pool := &s.NodePools[i]
		pool.UID = types.UID("np-" + pool.Name)
		pool.CreationTimestamp = metav1.Time{Time: w.now.Add(-24 * time.Hour)}
		pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: nodeClass.Group, Kind: nodeClass.Kind, Name: "default"}
		for _, condition := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady, v1.ConditionTypeNodeRegistrationHealthy} {
			pool.StatusConditions().SetTrue(condition)
		}
		w.objects = append(w.objects, pool)
		w.pools[pool.Name] = pool
	}
	for i := range s.DaemonSets {
		w.addDaemonSet(&s.DaemonSets[i])
	}
	for i := range s.StorageClasses {
		w.objects = append(w.objects, &s.StorageClasses[i])
	}
	for i := range s.PersistentVolumes {
		w.objects = append(w.objects, &s.PersistentVolumes[i])
	}
	for i := range s.PersistentVolumeClaims {
		s.PersistentVolumeClaims[i].Namespace = orDefault(s.PersistentVolumeClaims[i].Namespace)
		w.objects = append(w.objects, &s.PersistentVolumeClaims[i])
	}
	for i := range s.PodDisruptionBudgets {
		s.PodDisruptionBudgets[i].Namespace = orDefault(s.PodDisruptionBudgets[i].Namespace)
		w.objects = append(w.objects, &s.PodDisruptionBudgets[i])
	}
}

func (w *world) addDaemonSet(d *daemonSet) {
	d.Namespace = orDefault(d.Namespace)
	w.addNamespace(d.Namespace, nil)
	if len(d.Template.Spec.Containers) == 0 {
		d.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	}
	w.objects = append(w.objects, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: types.UID("ds-" + d.Name)},
		Spec:       appsv1.DaemonSetSpec{Template: d.Template, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"ds": d.Name}}},
	})
}

// expand makes the pods of a group.
func (w *world) expand(g podGroup) (pods []*corev1.Pod) {
	w.addNamespace(orDefault(g.Pod.Namespace), nil)
	for i := range max(g.Count, 1) {
		p := g.Pod.DeepCopy()
		p.Namespace = orDefault(p.Namespace)
		p.Name = fmt.Sprintf("%s-%d", g.Pod.Name, i)
		p.UID = types.UID(fmt.Sprintf("%s/%s-%06d", p.Namespace, g.Pod.Name, i))
		if p.CreationTimestamp.IsZero() {
			p.CreationTimestamp = metav1.Time{Time: w.now.Add(-10 * time.Minute)}
		}
		if len(p.Spec.Containers) == 0 {
			p.Spec.Containers = []corev1.Container{{}}
		}
		p.Spec.Containers[0].Name, p.Spec.Containers[0].Image = "c", "i"
		pods = append(pods, p)
	}
	return pods
}

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

// start fills the fake API server and feeds the cluster state as upstream's informers would.
func (w *world) start(s *scenario) {
	w.client = fakecr.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(w.objects...).
		// Upstream asks for persistent volumes with a namespace, which a real API server ignores.
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.PersistentVolume); ok {
				key.Namespace = ""
			}
			return c.Get(ctx, key, obj, opts...)
		}}).
		WithStatusSubresource(&v1.NodePool{}, &v1.NodeClaim{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string { return []string{o.(*v1.NodeClaim).Status.ProviderID} }).
		WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }).
		Build()
	w.cluster = state.NewCluster(w.clock, w.client, w.provider)
	for _, claim := range w.claims {
		w.cluster.UpdateNodeClaim(claim.DeepCopy())
	}
	for _, node := range w.nodes {
		must(w.cluster.UpdateNode(w.ctx, node.DeepCopy()))
	}
	for _, pod := range w.bound {
		must(w.cluster.UpdatePod(w.ctx, pod))
	}
	for i := range s.Nodes {
		if s.Nodes[i].Deleting {
			w.cluster.MarkForDeletion(providerID(&s.Nodes[i]))
		}
	}
	w.cluster.SetSynced(true)
	w.provisioner = provisioning.NewProvisioner(w.client, w.recorder, w.provider, w.cluster, w.clock,
		deviceallocation.NewController(w.client), virtualpods.NewVirtualPodCache(w.client))
}
