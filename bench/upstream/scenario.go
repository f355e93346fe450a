package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// scenario is what `karpenter solve` reads: a catalog, node pools, a cluster and pending pods.
type scenario struct {
	Name            string          `json:"name"`
	Mode            string          `json:"mode"` // "" or "schedule": provisioning; "disrupt": consolidation
	Now             string          `json:"now"`
	Options         scenarioOptions `json:"options"`
	WellKnownLabels []string        `json:"wellKnownLabels"`
	InstanceTypes   []instanceType  `json:"instanceTypes"`
	NodePools       []v1.NodePool   `json:"nodePools"`
	Namespaces      []namespace     `json:"namespaces"`
	Nodes           []existingNode  `json:"nodes"`
	DaemonSets      []daemonSet     `json:"daemonSets"`
	PodGroups       []podGroup      `json:"podGroups"`

	StorageClasses         []storagev1.StorageClass       `json:"storageClasses"`
	PersistentVolumes      []corev1.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []corev1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	PodDisruptionBudgets   []policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
}

type scenarioOptions struct {
	PreferencePolicy string `json:"preferencePolicy"`
	MinValuesPolicy  string `json:"minValuesPolicy"`
	SpotToSpot       bool   `json:"spotToSpotConsolidation"`
}

type namespace struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

type instanceType struct {
	Name         string              `json:"name"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     corev1.ResourceList `json:"overhead"`
	Requirements []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"requirements"`
	Offerings []offering `json:"offerings"`
}

// offering is written as [zone, capacityType, price, available].
type offering struct {
	zone         string
	capacityType string
	price        float64
	available    bool
}

func (o *offering) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&o.zone, &o.capacityType, &o.price, &o.available})
}

type existingNode struct {
	Name                string              `json:"name"`
	NodePool            string              `json:"nodePool"` // empty: not managed by Karpenter
	State               string              `json:"state"`    // "initialized" (default), "registered", "launched"
	InstanceType        string              `json:"instanceType"`
	Zone                string              `json:"zone"`
	CapacityType        string              `json:"capacityType"`
	Labels              map[string]string   `json:"labels"`
	Annotations         map[string]string   `json:"annotations"`
	Taints              []corev1.Taint      `json:"taints"`
	StartupTaints       []corev1.Taint      `json:"startupTaints"`
	Capacity            corev1.ResourceList `json:"capacity"`
	Allocatable         corev1.ResourceList `json:"allocatable"`
	Deleting            bool                `json:"deleting"`
	AgeSeconds          int64               `json:"ageSeconds"`
	LastPodEventSeconds int64               `json:"lastPodEventSeconds"`
	PodGroups           []podGroup          `json:"podGroups"`
}

type daemonSet struct {
	Name      string                 `json:"name"`
	Namespace string                 `json:"namespace"`
	Template  corev1.PodTemplateSpec `json:"template"`
}

// podGroup stands for Count equal pods named <pod.metadata.name>-<i>.
type podGroup struct {
	Count int        `json:"count"`
	Pod   corev1.Pod `json:"pod"`
}
