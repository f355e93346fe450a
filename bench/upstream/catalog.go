package main

import (
	"context"
	"errors"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

// catalog is a cloud provider that offers the scenario's instance types and launches nothing.
type catalog struct{ types []*cloudprovider.InstanceType }

func (c *catalog) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}
func (c *catalog) Create(context.Context, *v1.NodeClaim) (*v1.NodeClaim, error) {
	return nil, errors.New("a benchmark launches nothing")
}
func (c *catalog) Delete(context.Context, *v1.NodeClaim) error         { return nil }
func (c *catalog) Get(context.Context, string) (*v1.NodeClaim, error)  { return nil, nil }
func (c *catalog) List(context.Context) ([]*v1.NodeClaim, error)       { return nil, nil }
func (c *catalog) Reboot(context.Context, *v1.NodeClaim, string) error { return nil }
func (c *catalog) RepairPolicies() []cloudprovider.RepairPolicy        { return nil }
func (c *catalog) Name() string                                        { return "bench" }
func (c *catalog) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}
func (c *catalog) IsDrifted(context.Context, *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

func (c *catalog) find(name string) *cloudprovider.InstanceType {
	for _, it := range c.types {
		if it.Name == name {
			return it
		}
	}
	return nil
}

func newCatalog(in []instanceType) *catalog {
	c := &catalog{}
	for _, t := range in {
		requirements := scheduling.NewRequirements(scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, t.Name))
		var zones, capacityTypes []string
		var offerings cloudprovider.Offerings
		for _, o := range t.Offerings {
			if o.available {
				zones = append(zones, o.zone)
				capacityTypes = append(capacityTypes, o.capacityType)
			}
			offerings = append(offerings, &cloudprovider.Offering{
				Requirements: scheduling.NewLabelRequirements(map[string]string{
					corev1.LabelTopologyZone: o.zone, v1.CapacityTypeLabelKey: o.capacityType}),
				Price: o.price, Available: o.available,
			})
		}
		requirements.Add(scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...))
		requirements.Add(scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacityTypes...))
		for _, r := range t.Requirements {
			requirements.Add(scheduling.NewRequirement(r.Key, corev1.NodeSelectorOperator(r.Operator), r.Values...))
		}
		c.types = append(c.types, &cloudprovider.InstanceType{
			Name: t.Name, Requirements: requirements, Offerings: offerings, Capacity: t.Capacity,
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: t.Overhead},
		})
	}
	return c
}
